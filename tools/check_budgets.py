#!/usr/bin/env python3
"""Checks the budgets that keep Monotile small, readable and quick to build.

  conditionals    no #if, #ifdef, #ifndef or #elif in the tile language outside its backends, in kernels, in src/ops
  language_size   the tile language without backends has at most 8,000 lines
  kernel_size     a portable kernel can be read on one screen (reported; a header over 250 lines is marked)
  overrides       lines of tuned overrides over lines of shared kernels, per architecture and in all (limit 0.30 in all)
  compile_time    each operator translation unit compiles in at most 20 s for one target       (needs --build)
  instantiations  at most 12 variants per (operator, dtypes, target)                           (needs the built program)
  local_memory    no CUDA kernel uses local memory unless listed below with a reason           (needs --ptxas-log)

Exit codes: 0 all budgets hold, 1 one does not, 2 wrong usage. Standard library only.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LANGUAGE = ROOT / "include/monotile/lang"
BACKENDS = LANGUAGE / "backend"
KERNELS = ROOT / "include/monotile/kernels"
OPS = ROOT / "src/ops"
TUNED = ROOT / "src/tuned"
SOURCE_SUFFIXES = {".hpp", ".h", ".cpp", ".cu", ".cuh", ".inl"}

LANGUAGE_LINES = 8000
KERNEL_LINES = 250
OVERRIDE_RATIO = 0.30
COMPILE_SECONDS = 20.0
VARIANTS = 12
CHECKS = ("conditionals", "language_size", "kernel_size", "overrides", "compile_time", "instantiations", "local_memory")

# Kernels that may use local memory: part of the mangled name -> (most bytes of stack frame and spills, reason).
LOCAL_MEMORY_ALLOWED = {
    "bench5naive4rope": (32, "argument reduction of sinf and cosf, in a kernel that is naive on purpose"),
}


class Result:
    """One line of the table. `ok` is None where nothing was judged."""

    def __init__(self, check, ok, value, limit="", details=()):
        self.check, self.ok, self.value, self.limit, self.details = check, ok, value, limit, list(details)

    def as_json(self):
        return {"check": self.check, "ok": self.ok, "value": self.value, "limit": self.limit, "details": self.details}


def sources(*folders, without=None):
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            inside = without is not None and path.is_relative_to(without)
            if path.is_file() and path.suffix in SOURCE_SUFFIXES and not inside:
                yield path


def line_count(paths):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def relative(path):
    return str(path.relative_to(ROOT))


def check_conditionals():
    pattern = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|elifdef|elifndef)\b")
    files, found = 0, []
    for path in [*sources(LANGUAGE, without=BACKENDS), *sources(KERNELS, OPS)]:
        files += 1
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if pattern.match(line):
                found.append(f"{relative(path)}:{number}: {line.strip()}")
    if files == 0:
        return Result("conditionals", False, "no source file found", "0")
    return Result("conditionals", not found, f"{len(found)} in {files} files", "0", found)


def check_language_size():
    lines = line_count(sources(LANGUAGE, without=BACKENDS))
    backends = {folder.name: line_count(sources(folder)) for folder in sorted(BACKENDS.iterdir()) if folder.is_dir()}
    details = ["backends, not counted: " + ", ".join(f"{name} {count}" for name, count in backends.items())]
    return Result("language_size", 0 < lines <= LANGUAGE_LINES, f"{lines} lines", f"{LANGUAGE_LINES}", details)


def check_kernel_size():
    sizes = sorted(((line_count([path]), relative(path)) for path in sources(KERNELS)), reverse=True)
    details = [f"{lines:5d}  {name}" + ("   over one screen" if lines > KERNEL_LINES else "") for lines, name in sizes]
    over = sum(lines > KERNEL_LINES for lines, _ in sizes)
    return Result("kernel_size", None, f"{sum(lines for lines, _ in sizes)} lines, {over} headers over {KERNEL_LINES}", "reported", details)


def check_overrides():
    shared = line_count(sources(KERNELS))
    per_arch = {}
    if TUNED.is_dir():
        per_arch = {folder.name: line_count(sources(folder)) for folder in sorted(TUNED.iterdir()) if folder.is_dir()}
    if shared == 0:
        return Result("overrides", False, "no shared kernel found", f"{OVERRIDE_RATIO:.2f}")
    ratio = sum(per_arch.values()) / shared
    details = [f"{name}: {lines} lines, {lines / shared:.3f}" for name, lines in per_arch.items()]
    value = f"{ratio:.3f} ({sum(per_arch.values())} / {shared} lines)"
    return Result("overrides", ratio <= OVERRIDE_RATIO, value, f"{OVERRIDE_RATIO:.2f}", details)


# --- compile time


def is_operator_object(name):
    return is_device_code(name) or name.endswith(".o") and ("/src/ops/" in name and ".kernels.cpp" in name or "monotile_kernels_cuda_" in name)


def is_device_code(name):
    """Code objects of offloaded targets (cmake/offload.cmake)."""
    return re.fullmatch(r"kernels/\w+/\w+\.code", name) is not None


def read_ninja_log(build):
    """Seconds of the last build of each operator object. Ninja's times are wall time, so a busy machine inflates them."""
    seconds = {}
    for line in (build / ".ninja_log").read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) >= 4 and is_operator_object(fields[3]):
            seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000.0
    return {name: value for name, value in seconds.items() if (build / name).is_file()}


def target_of_object(name):
    match = re.search(r"monotile_kernels_(\w+)\.dir", name) or re.match(r"kernels/(\w+)/", name)
    return match.group(1) if match else "?"


def compile_commands(build):
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        arguments = entry.get("arguments") or shlex.split(entry["command"])
        # With CMake before 3.29 the output is named in the command only.
        output = entry.get("output") or arguments[arguments.index("-o") + 1]
        commands[output] = (entry["directory"], arguments)
    return commands


def processor_seconds(command, directory):
    """user + system time of a command without ccache: what it costs on an idle core."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, shell=isinstance(command, str), cwd=directory, env={**os.environ, "CCACHE_DISABLE": "1"},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)  # with the times of this child and of its own
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            name = command if isinstance(command, str) else command[-1]
            raise RuntimeError(f"compiling {name} failed: {errors.read().decode(errors='replace').strip()[-2000:]}")
    return used.ru_utime + used.ru_stime


def compiled_again(build, name, commands):
    """Seconds of processor time to make one object or code object; None if nobody knows how."""
    if is_device_code(name):  # its own steps, as ninja would run them
        steps = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "-s", name], capture_output=True, text=True, check=True)
        return processor_seconds(steps.stdout, build)
    if name not in commands:
        return None
    directory, arguments = commands[name]
    arguments = list(arguments[1:] if pathlib.Path(arguments[0]).name == "ccache" else arguments)
    with tempfile.TemporaryDirectory() as folder:
        arguments[arguments.index("-o") + 1] = str(pathlib.Path(folder) / "object.o")
        return processor_seconds(arguments, directory)


def check_compile_time(build, fresh):
    if build is None:
        return Result("compile_time", None, "not judged: give --build", f"{COMPILE_SECONDS:.0f} s")
    log = read_ninja_log(build)
    if not log:
        return Result("compile_time", None, f"not judged: no operator object in {build}", f"{COMPILE_SECONDS:.0f} s")
    # The log has wall times. What took too long may have run on a busy machine: it is compiled again. And
    # what ccache served says nothing, so --fresh compiles the largest objects of each target again: they take longest.
    again = sorted(name for name, seconds in log.items() if seconds > COMPILE_SECONDS)
    for target in sorted({target_of_object(name) for name in log}):
        of_target = [name for name in log if target_of_object(name) == target and name not in again]
        again += sorted(of_target, key=lambda name: (build / name).stat().st_size, reverse=True)[:fresh]
    commands = compile_commands(build) if again else {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        measured = dict(zip(again, pool.map(lambda name: compiled_again(build, name, commands), again)))
    measured = {name: seconds for name, seconds in measured.items() if seconds is not None}
    final = {**log, **measured}
    ranked = sorted(final.items(), key=lambda item: item[1], reverse=True)
    details = [f"{seconds:5.1f} s  {target_of_object(name)}  {pathlib.Path(name).name.removesuffix('.o')}"
               + ("  (compiled again, processor time)" if name in measured else "")
               for index, (name, seconds) in enumerate(ranked) if seconds > COMPILE_SECONDS or index < 5]
    over = sum(seconds > COMPILE_SECONDS for _, seconds in ranked)
    value = f"slowest {ranked[0][1]:.1f} s of {len(final)}" + (f", {over} over" if over else "")
    return Result("compile_time", over == 0, value, f"{COMPILE_SECONDS:.0f} s", details)


# --- instantiations


def check_instantiations(binary):
    """`monotile ops --json` lists under "kernels" what was built: name, target, variants and, where the operator says so, the
    number of dtype combinations among them ("dtypes")."""
    limit = f"{VARIANTS} per dtypes"
    if binary is None or not binary.is_file():
        return Result("instantiations", None, "not judged: no built program", limit)
    done = subprocess.run([str(binary), "ops", "--json"], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        return Result("instantiations", False, f"{binary} ops --json exits with {done.returncode}", limit, [done.stderr.strip()])
    kernels = json.loads(done.stdout).get("kernels", [])
    if not kernels:
        return Result("instantiations", None, "not judged: no kernels in ops --json", limit)
    rows = sorted(((kernel["variants"] / max(1, kernel.get("dtypes", 1)), kernel) for kernel in kernels),
                  key=lambda row: row[0], reverse=True)
    judged = [row for row in rows if "dtypes" in row[1] or row[0] <= VARIANTS]
    over = [row for row in rows if "dtypes" in row[1] and row[0] > VARIANTS]
    details = [f"{per_dtype:5.1f}  {kernel['name']} on {kernel['target']} ({kernel['variants']} variants)"
               + ("" if "dtypes" in kernel else "  number of dtype combinations unknown")
               for per_dtype, kernel in rows[:5]]
    value = f"{sum(kernel['variants'] for _, kernel in rows)} kernels, {len(judged)} of {len(rows)} groups judged"
    return Result("instantiations", not over, value, limit, details)


# --- local memory


def check_local_memory(log):
    limit = "0 bytes"
    if log is None:
        return Result("local_memory", None, "not judged: give --ptxas-log", limit)
    kernels, used, name, target = 0, [], "?", "?"
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        entry = re.search(r"Compiling entry function '([^']+)' for '([^']+)'", line)
        if entry:
            kernels += 1
            name, target = entry.groups()
            continue
        properties = re.search(r"Function properties for (\S+)", line)
        if properties:
            name = properties.group(1)
            continue
        sizes = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if sizes and any(int(size) for size in sizes.groups()):
            frame, stores, loads = (int(size) for size in sizes.groups())
            reason = next((text for part, (most, text) in LOCAL_MEMORY_ALLOWED.items()
                           if part in name and max(frame, stores, loads) <= most), None)
            used.append((reason, f"{name} ({target}): stack {frame}, spill stores {stores}, loads {loads} bytes"
                         + (f"; allowed: {reason}" if reason else "")))
    if kernels == 0:
        return Result("local_memory", False, f"{log} holds no report of ptxas", limit)
    bad = sum(reason is None for reason, _ in used)
    value = f"{bad} of {kernels} kernels" + (f", {len(used) - bad} allowed" if len(used) > bad else "")
    return Result("local_memory", bad == 0, value, limit, [text for _, text in used])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, metavar="DIR", help="a finished build folder, such as build/cpu")
    parser.add_argument("--fresh", type=int, default=0, metavar="N",
                        help="compile the N largest operator objects of each target again, without ccache")
    parser.add_argument("--binary", type=pathlib.Path, metavar="FILE", help="the built program (default: DIR/bin/monotile)")
    parser.add_argument("--ptxas-log", type=pathlib.Path, metavar="FILE", help="output of a CUDA build with -Xptxas=-v")
    parser.add_argument("--only", metavar="CHECK,...", help="only these checks")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--verbose", action="store_true", help="details of the checks that hold, too")
    arguments = parser.parse_args()

    chosen = arguments.only.split(",") if arguments.only else CHECKS
    for name in chosen:
        if name not in CHECKS:
            parser.error(f"unknown check '{name}'; there are {', '.join(CHECKS)}")
    for path in (arguments.build, arguments.ptxas_log):
        if path is not None and not path.exists():
            parser.error(f"{path}: no such file or folder")
    if arguments.build is not None and not (arguments.build / ".ninja_log").is_file():
        parser.error(f"{arguments.build} is no finished ninja build")
    binary = arguments.binary or (arguments.build / "bin/monotile" if arguments.build else None)

    run = {
        "conditionals": check_conditionals,
        "language_size": check_language_size,
        "kernel_size": check_kernel_size,
        "overrides": check_overrides,
        "compile_time": lambda: check_compile_time(arguments.build, arguments.fresh),
        "instantiations": lambda: check_instantiations(binary),
        "local_memory": lambda: check_local_memory(arguments.ptxas_log),
    }
    try:
        results = [run[name]() for name in chosen]
    except (RuntimeError, OSError, json.JSONDecodeError) as error:
        print(f"check_budgets.py: error: {error}", file=sys.stderr)
        return 1

    if arguments.json:
        print(json.dumps([result.as_json() for result in results], indent=2))
    else:
        print(f"{'budget':<16} {'':<8} {'value':<44} limit")
        for result in results:
            word = {True: "ok", False: "BROKEN", None: "-"}[result.ok]
            print(f"{result.check:<16} {word:<8} {result.value:<44} {result.limit}")
            if result.ok is False or arguments.verbose or result.check == "kernel_size":
                for line in result.details:
                    print(f"    {line}")
    return 1 if any(result.ok is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
