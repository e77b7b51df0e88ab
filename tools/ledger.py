#!/usr/bin/env python3
"""The portability ledger: how much is shared by all machines, and how much each of them costs.

  shared      portable kernels (include/monotile/kernels) and the language without its backends
  backends    what makes the language run on one machine (include/monotile/lang/backend/<name>); simt serves all machines with lanes
  overrides   kernels written for one chip (src/tuned/<chip>); goal: in total under 0.3 of the shared kernel lines
  conditions  lines with #if, #ifdef, #ifndef, #elif outside the backends: none in the language, in kernels and in src/ops

Lines are lines of files, comments included. `--write FILE` puts the table between the marks <!-- ledger --> and <!-- /ledger --> of a file.

Exit codes: 0 fine, 1 the goal for overrides or conditions is missed, 2 wrong usage. Standard library only.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".hpp", ".h", ".cpp", ".cu", ".cuh", ".inl"}
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|elifdef|elifndef)\b")
GOAL = 0.30
MACHINES = {
    "cpu": "plain C++ and AVX2",
    "simt": "every machine with lanes",
    "cuda": "NVIDIA, sm_80 and sm_90a",
    "hip": "AMD, gfx90a, gfx942, gfx1100: compiled and emulated, not yet run on AMD hardware",
    "spirv": "OpenCL devices by SPIR-V",
    "emulated": "GPUs on the CPU, for the tests",
}


def files(folder, without=None):
    if not folder.is_dir():
        return []
    return [path for path in sorted(folder.rglob("*"))
            if path.suffix in SUFFIXES and not (without is not None and path.is_relative_to(without))]


def lines(paths):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def conditions(paths):
    return sum(bool(CONDITION.match(line)) for path in paths for line in path.read_text(encoding="utf-8").splitlines())


def table():
    language = ROOT / "include/monotile/lang"
    backends = language / "backend"
    kernels, words = files(ROOT / "include/monotile/kernels"), files(language, without=backends)
    instantiations = sorted((ROOT / "src/ops").glob("*/*.kernels.cpp"))
    shared = lines(kernels)
    tuned = {folder.name: lines(files(folder)) for folder in sorted((ROOT / "src/tuned").glob("*")) if folder.is_dir()}
    found = conditions(kernels) + conditions(words) + conditions(files(ROOT / "src/ops"))
    rows = [("portable kernels, one source for all", f"{shared}"),
            ("their instantiations, one source for all", f"{lines(instantiations)}"),
            ("language without backends", f"{lines(words)}")]
    for folder in sorted((path for path in backends.iterdir() if path.is_dir()), key=lambda path: list(MACHINES).index(path.name)
                         if path.name in MACHINES else len(MACHINES)):
        rows.append((f"backend `{folder.name}`: {MACHINES.get(folder.name, '')}".rstrip(": "), f"{lines(files(folder))}"))
    rows.append(("backends, common", f"{lines(sorted(backends.glob('*.hpp')))}"))
    for name, count in tuned.items():
        rows.append((f"overrides for {name}", f"{count}, {count / shared:.3f} of the kernels"))
    ratio = sum(tuned.values()) / shared if shared else 1.0
    rows.append(("overrides in total (goal: under 0.3 of the kernels; none for correctness)", f"{sum(tuned.values())}, {ratio:.3f}"))
    rows.append(("`#if` outside the backends", f"{found}"))
    return rows, ratio, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print the table as it stands in the README")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put it into FILE")
    arguments = parser.parse_args()
    rows, ratio, found = table()
    markdown = "\n".join(["| what | lines |", "|---|---|", *(f"| {what} | {value} |" for what, value in rows)])
    if arguments.write:
        text = arguments.write.read_text(encoding="utf-8")
        parts = re.split(r"(<!-- ledger -->\n|<!-- /ledger -->)", text)
        if len(parts) != 5:
            parser.error(f"{arguments.write}: the marks <!-- ledger --> and <!-- /ledger --> must be there once each")
        parts[2] = markdown + "\n"
        arguments.write.write_text("".join(parts), encoding="utf-8")
    elif arguments.markdown:
        print(markdown)
    else:
        for what, value in rows:
            print(f"ledger: {value.split(',')[0]:>7}  {what}" + (f" ({value.partition(', ')[2]})" if "," in value else ""))
    return 0 if ratio < GOAL and found == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
