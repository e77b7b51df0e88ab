#!/usr/bin/env python3
"""Checks the compiled AMD code of every portable kernel: instructions from the disassembly, registers and LDS from the notes of the code objects.

Give the folder of a build with MONOTILE_HIP (tools/check_hip.sh makes one). For each target:

  complete    every src/ops/*/*.kernels.cpp has a code object, and in it a kernel
  wide        streaming kernels hold 16-byte global loads and stores (exceptions: tools/check_ptx.py has them, they are the same)
  matrix      products by tiles hold v_mfma, and their copies wait in registers behind the products; of chained products behind both
  scratch     no kernel has private memory or spilled vector registers, unless listed here with a reason (scalar registers are spilled to lanes of
              vector registers, which costs no memory: reported)
  calls       no kernel calls a function: everything is part of it, as its registers were counted
  flat        no access has to find out at run time which memory it goes to, unless listed here
  occupancy   registers and LDS let as many waves live on a SIMD as the kernel's bounds ask for

This says what was compiled. It has not run on AMD hardware yet.

Exit codes: 0 all hold, 1 one does not, 2 wrong usage. Standard library, llvm-objdump-22, llvm-readelf-22, llvm-cxxfilt-22.
"""

import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from check_ptx import NARROW, STREAMING, short  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Registers of a SIMD's lanes, granule of allocation, most waves; LDS of a compute unit; SIMDs (lang/backend/hip/arch.hpp).
ARCHITECTURES = {
    "gfx90a": {"wave": 64, "registers": 512, "granule": 8, "waves": 8, "lds": 65536, "simds": 4, "mfma": True},
    "gfx942": {"wave": 64, "registers": 512, "granule": 8, "waves": 8, "lds": 65536, "simds": 4, "mfma": True},
    "gfx1100": {"wave": 32, "registers": 1536, "granule": 24, "waves": 16, "lds": 65536, "simds": 4, "mfma": False},
}
MATRIX = {"gemm_tiles_bf16", "gemm_tiles_f16", "gemm_tiles_e4m3", "gemm_tiles_e5m2", "gemm_tiles_i8", "gemm_few_rows_bf16", "gemm_few_rows_f16",
          "gemm_few_rows_i8", "gemm_gated_bf16", "gemm_gated_f16"}
# Operands are converted as they are copied, ahead of the products.
CONVERTED = {"gemm_mixed_bf16", "gemm_gated_mixed"}
CHAINS = {f"prefill{dims}_{dtype}{scores}" for dims in (64, 128, 256) for dtype in ("bf16", "f16") for scores in ("", "_scored")}
CHAINS |= {f"decode_{dtype}{scores}" for dtype in ("bf16", "f16") for scores in ("", "_scored")}
CHAINS |= {"verify_bf16", "verify_f16"}
# Kernels of these files that hold no products.
NO_PRODUCTS = {r"MergeDecode": "joins what the products of splits gave"}
# Kernel's name -> (most bytes of private memory, reason).
SCRATCH_ALLOWED = {}
# Kernel's name -> reason.
FLAT_ALLOWED = {}


def run(*arguments, text=None):
    return subprocess.run([str(a) for a in arguments], input=text, capture_output=True, text=True, check=True).stdout


def notes_of(path):
    """name -> numbers of each kernel."""
    kernels, current = {}, None
    for line in run("llvm-readelf-22", "--notes", path).splitlines():
        match = re.match(r"\s*(-?)\s*\.(\w+):\s*(.*)", line)
        if not match:
            continue
        dash, key, value = match.groups()
        if dash and key in ("agpr_count", "args"):
            current = {}
        if current is None:
            continue
        if key == "name" and value.startswith("_Z"):
            kernels[value] = current
        elif re.fullmatch(r"\d+", value):
            current.setdefault(key, int(value))
    return kernels


def count(body, pattern):
    return len(re.findall(pattern, body, re.M))


def code_of(path):
    """name -> counts of instructions."""
    result = {}
    disassembly = run("llvm-objdump-22", "-d", "--no-show-raw-insn", "--no-leading-addr", "--symbolize-operands", path)
    for part in re.split(r"^(?:[0-9a-f]+ )?<(?!L\d+>)", disassembly, flags=re.M)[1:]:
        name, _, body = part.partition(">:\n")
        result[name] = {
            "instructions": count(body, r"^\s+[a-z]\w+"),
            "load16": count(body, r"^\s+(?:global|buffer)_load_(?:dwordx4|b128)\b"),
            "load8": count(body, r"^\s+(?:global|buffer)_load_(?:dwordx[23]|b64|b96)\b"),
            "load4": count(body, r"^\s+(?:global|buffer)_load_(?:dword|b32)\b"),
            "store16": count(body, r"^\s+(?:global|buffer)_store_(?:dwordx4|b128)\b"),
            "store8": count(body, r"^\s+(?:global|buffer)_store_(?:dwordx[23]|b64|b96)\b"),
            "store4": count(body, r"^\s+(?:global|buffer)_store_(?:dword|b32)\b"),
            "mfma": count(body, r"^\s+v_mfma_"),
            "dpp": count(body, r"\b(?:quad_perm|row_\w+):"),
            "scratch": count(body, r"^\s+scratch_"),
            "flat": count(body, r"^\s+flat_"),
            "calls": count(body, r"^\s+s_swappc_"),
            **overlapped(body),
        }
    return result


def overlapped(body):
    """`prefetched`: True if some way leads from a 16-byte load on to the first product of the loop without a wait for loads: copies of whole chunks, which
    are the rule, then arrive behind the products. Ways through ragged or unaligned copies may wait: they put words together. `mfma_ahead`: products that
    are reached so, of all."""
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    labels = {match.group(1): i for i, line in enumerate(lines) if (match := re.match(r"<(L\d+)>:", line))}
    first = next((i for i, line in enumerate(lines) if line.startswith("v_mfma_")), None)
    if first is None:
        return {"prefetched": False, "mfma_ahead": 0}
    reached = set()
    loads = [i for i, line in enumerate(lines) if re.match(r"global_load_(?:dwordx4|b128)\b", line)]
    for load in loads:
        seen, open_ = set(), [load + 1]
        while open_:
            i = open_.pop()
            if i in seen or i >= len(lines):
                continue
            seen.add(i)
            line = lines[i]
            if line.startswith("v_mfma_"):
                reached.add(i)
            if re.match(r"s_waitcnt\b.*vmcnt", line) or line.startswith("s_endpgm"):
                continue
            target = re.match(r"s_c?branch\S*\s+(L\d+)", line)
            if target and target.group(1) in labels:
                open_.append(labels[target.group(1)])
            if not line.startswith("s_branch"):
                open_.append(i + 1)
    return {"prefetched": first in reached, "mfma_ahead": len(reached)}


def widest(counts, kind):
    return next((width for width in (16, 8, 4) if counts[f"{kind}{width}"]), 0)


def waves_by_registers(arch, note):
    vectors = max(1, note.get("vgpr_count", 1))
    rounded = -(-vectors // arch["granule"]) * arch["granule"]
    return min(arch["waves"], arch["registers"] // rounded)


def wanted_waves(arch, name, note):
    """What the kernel was bounded for: `Bounded<K, MaxThreads, ResidentThreads>` of register_kernel.hpp, `staged_chain_kernel` of chain_staged.hpp; a
    program's own waves otherwise."""
    match = re.search(r"(?:Bounded|staged_chain_kernel)<.*, (\d+), (\d+)>", name)
    threads = int(match.group(2)) if match else note.get("max_flat_workgroup_size", arch["wave"])
    program = -(-note.get("max_flat_workgroup_size", arch["wave"]) // arch["wave"] // arch["simds"])
    return max(program, min(arch["waves"], threads // arch["wave"] // arch["simds"]), 1)


def files_of_others():
    """Pattern of the files that hold kernels for other targets alone: MONOTILE_ONLY of cmake/kernels.cmake, names and targets by turns."""
    words = re.search(r"set\(MONOTILE_ONLY (.*?)\)\n", (ROOT / "cmake/kernels.cmake").read_text(encoding="utf-8"), re.S)[1].split()
    names = [name.strip('"') for name, targets in zip(words[::2], words[1::2]) if not re.fullmatch(targets.strip('"'), "hip_gfx942")]
    return re.compile("|".join(names))


def examine(path, target):
    notes, code = notes_of(path), code_of(path)
    names = run("llvm-cxxfilt-22", text="\n".join(notes)).splitlines()
    return [(path.name.split(".")[0], target, name, note, code[mangled]) for (mangled, note), name in zip(notes.items(), names)]


def judge(row):
    source, target, name, note, counts = row
    arch, kernel, wrong = ARCHITECTURES[target], short(name), []
    if source in STREAMING:
        load, store, _ = next((rule for pattern, rule in NARROW.items() if re.match(pattern, kernel)), (16, 16, ""))
        if widest(counts, "load") < load or widest(counts, "store") < store:
            wrong.append(f"widest load {widest(counts, 'load')} bytes, store {widest(counts, 'store')}; wanted {load} and {store}")
    if source in CONVERTED and arch["mfma"] and not counts["mfma"]:
        wrong.append("no v_mfma")
    if source in MATRIX and arch["mfma"]:
        if not counts["mfma"]:
            wrong.append("no v_mfma")
        elif not counts["prefetched"]:
            wrong.append("products wait for the copies of the next step, on every way")
    if source in CHAINS and arch["mfma"] and not any(re.search(pattern, kernel) for pattern in NO_PRODUCTS):
        # A third of the products is a rare path (inf and NaN among values that some rows do not see), which has no copies on their way.
        if not counts["mfma"]:
            wrong.append("no v_mfma")
        elif counts["mfma_ahead"] * 3 < counts["mfma"] * 2:
            wrong.append(f"{counts['mfma_ahead']} of {counts['mfma']} products do not wait for the copies of the next block, wanted two thirds")
    private = note.get("private_segment_fixed_size", 0)
    allowed = next((limit for pattern, (limit, _) in SCRATCH_ALLOWED.items() if re.search(pattern, kernel)), 0)
    if private > allowed or (note.get("vgpr_spill_count", 0) and not allowed):
        wrong.append(f"{private} bytes of private memory, {note.get('vgpr_spill_count', 0)} vector registers spilled")
    if counts["calls"]:
        wrong.append(f"{counts['calls']} calls")
    if counts["flat"] and not any(re.search(pattern, kernel) for pattern in FLAT_ALLOWED):
        wrong.append(f"{counts['flat']} flat accesses")
    if note.get("group_segment_fixed_size", 0) > arch["lds"]:
        wrong.append("more LDS than there is")
    have, want = waves_by_registers(arch, note), wanted_waves(arch, name, note)
    if have < want:
        wrong.append(f"{note['vgpr_count']} registers: {have} waves on a SIMD, wanted {want}")
    return [f"{target}: {source}: {kernel}: {text}" for text in wrong]


def report(rows, version):
    lines = [
        "# AMD code: what the compiler made", "",
        "Written by `python3 tools/check_hip.py BUILD --write docs/results/amd-codegen.md`. **Compiled and emulated, not yet run on AMD hardware.**",
        f"Compiler: {version}, -O3, no ROCm.", "",
        "A row is one source file; its kernels are all instantiations for one target. *waves* is the lowest number of waves that registers let live on a",
        "SIMD, *16-byte* counts global loads and stores of 16 bytes over all instructions of global memory, *scalar spills* go to lanes of vector registers,",
        "*scratch* is the most private memory of a kernel.", "",
        "| source | target | kernels | vector registers | waves | static LDS | 16-byte loads | 16-byte stores | v_mfma | DPP | scalar spills | scratch |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups = {}
    for row in rows:
        groups.setdefault((row[0], row[1]), []).append(row)
    for (source, target), of in sorted(groups.items()):
        total = lambda *keys: sum(r[4][k] for r in of for k in keys)  # noqa: E731
        arch = ARCHITECTURES[target]
        registers = [r[3].get("vgpr_count", 0) for r in of]
        lines.append(
            f"| {source} | {target} | {len(of)} | {min(registers)} to {max(registers)} | {min(waves_by_registers(arch, r[3]) for r in of)} | "
            f"{max(r[3].get('group_segment_fixed_size', 0) for r in of)} | {total('load16')} of {total('load16', 'load8', 'load4')} | "
            f"{total('store16')} of {total('store16', 'store8', 'store4')} | {total('mfma')} | {total('dpp')} | "
            f"{max(r[3].get('sgpr_spill_count', 0) for r in of)} | {max(r[3].get('private_segment_fixed_size', 0) for r in of)} |")
    lines += ["", "Accesses narrower than four bytes (tails, 16-bit elements one by one) are not counted. gfx1100 is a check of waves of 32 lanes, for the files",
              "whose words depend on the width; it has no matrix path.", ""]
    for pattern, (limit, reason) in SCRATCH_ALLOWED.items():
        lines.append(f"- private memory allowed: `{pattern}`, {limit} bytes: {reason}")
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build folder: it holds kernels/hip_<architecture>/<source>.code")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="write the table")
    parser.add_argument("--targets", default="gfx90a,gfx942", help="that must be complete (default: gfx90a,gfx942)")
    parser.add_argument("--verbose", action="store_true", help="one line for each kernel")
    arguments = parser.parse_args()

    others = files_of_others()
    sources = {name for path in (ROOT / "src/ops").glob("*/*.kernels.cpp") if not others.fullmatch(name := path.name.split(".")[0])}
    work, wrong = [], []
    for target in ARCHITECTURES:
        folder = arguments.build / "kernels" / f"hip_{target}"
        found = sorted(folder.glob("*.code"))
        work += [(path, target) for path in found]
        if target in arguments.targets.split(","):
            missing = sorted(sources - {path.stem for path in found})
            if missing:
                wrong.append(f"{target}: no code object of {', '.join(missing)}")
    if not work:
        parser.error(f"{arguments.build}: no code objects in it")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda item: examine(*item), work))
    rows = [row for result in results for row in result]
    for (path, target), result in zip(work, results):
        if not result and (ARCHITECTURES[target]["mfma"] or path.stem not in MATRIX | CHAINS | CONVERTED):
            wrong.append(f"{target}: {path.stem}: no kernel in the code object")
    for row in rows:
        wrong += judge(row)
        if arguments.verbose:
            print(f"{row[1]}: {row[0]}: {short(row[2])}: {row[3].get('vgpr_count')} registers, {row[4]}")
    for line in wrong:
        print(line)
    if arguments.write:
        arguments.write.write_text(report(rows, run("clang++-22", "--version").splitlines()[0]), encoding="utf-8")
    for target in ARCHITECTURES:
        of = [row for row in rows if row[1] == target]
        if of:
            print(f"hip: {target}: {len(of)} kernels of {len({row[0] for row in of})} files, {sum(row[4]['mfma'] for row in of)} v_mfma, "
                  f"{sum(row[3].get('private_segment_fixed_size', 0) > 0 for row in of)} with private memory")
    print(f"hip: {len(wrong)} checks failed" if wrong else "hip: all checks hold (compiled, not yet run on AMD hardware)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
