#!/usr/bin/env python3
"""Checks that every streaming kernel moves 16 bytes per lane and instruction, from the PTX inside CUDA objects.

Give the folder of a CUDA build made with `-no-compress` (tools/check_cuda.sh does so), or files of PTX. Each kernel of the
files below must hold at least one 16-byte load and one 16-byte store of global memory, unless it is listed with a reason;
what is listed must hold 8-byte ones instead where it says so.

Exit codes: 0 all do, 1 one does not, 2 wrong usage. Standard library and c++filt (binutils).
"""

import argparse
import pathlib
import re
import subprocess
import sys

# Sources (src/ops/*/NAME.kernels.cpp) whose kernels stream.
STREAMING = {
    "activation", "add_norm", "add_norm_mixed", "bias_activation", "bias_activation_bf16", "copy", "dequantise", "embedding", "expert_rows", "gated_quantise", "gated_quantise_bf16", "head_rows", "head_rows_bf16",
    "kv_cache", "layer_norm", "layer_norm_mixed", "masked_softmax", "norm", "quantise", "rms_norm_quantise_bf16", "rms_norm_quantise_f16", "rms_norm_quantise_f32", "rope", "softmax",
}

# Kernel's name -> (bytes of its widest load, of its widest store, reason). 0: not asked for.
NARROW = {
    r"CopyRows<unsigned char": (0, 0, "rows that are no whole words; all others travel as words"),
    r"BlockScales<": (16, 0, "writes one scale for each block"),
    r".*Norm.*blocked<2, 8, 0": (4, 4, "rows that are no whole vectors: pairs of columns, 128 bytes a warp and access"),
    r"Dequantise<.*, true$": (4, 16, "reads 8 codes of 4 bits a lane, 128 bytes a warp"),
    r"Dequantise<.*, false$": (8, 16, "reads 8 codes a lane, 256 bytes a warp"),
    r"DequantiseBlocks<|Embedding<.*lang::quant_view": (0, 16, "GGUF blocks have 2-byte alignment"),
    r"QuantiseInt4<": (16, 0, "writes 4 bytes of codes a lane"),
    r"Quantise<": (16, 8, "writes 8 codes a lane, 256 bytes a warp"),
}

ACCESS = re.compile(r"\b(ld|st)\.(?:volatile\.|weak\.|relaxed\.)?global((?:\.[A-Za-z0-9_:]+)*)")


def ptx_of(path):
    """The PTX texts inside an object file (uncompressed fat binaries), or the file itself."""
    data = path.read_bytes()
    if path.suffix == ".ptx":
        return [data.decode("utf-8", "replace")]
    texts, at = [], data.find(b".version ")
    while at >= 0:
        end = data.find(b"\0", at)
        texts.append(data[at:end if end >= 0 else len(data)].decode("utf-8", "replace"))
        at = data.find(b".version ", at + len(texts[-1]) if texts[-1] else at + 1)
    return texts


def bytes_of(suffixes):
    """Width of one access: `.v4.u32` is 16."""
    count, width = 1, 0
    for part in suffixes.split("."):
        if re.fullmatch(r"v[248]", part):
            count = int(part[1])
        elif match := re.fullmatch(r"[usfb](8|16|32|64|128)", part):
            width = int(match.group(1)) // 8
    return count * width


def kernels_of(text):
    """(mangled name, widest load, widest store) of each entry."""
    for part in re.split(r"\.entry\s+", text)[1:]:
        name = re.match(r"[\w$]+", part).group(0)
        widest = {"ld": 0, "st": 0}
        for kind, suffixes in ACCESS.findall(part):
            widest[kind] = max(widest[kind], bytes_of(suffixes))
        yield name, widest["ld"], widest["st"]


def demangled(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def short(name):
    match = re.search(r"monotile::kernels::(\w+<.*?)(?:>, \d+, \d+>|, monotile::kernels::\w*Params)", name)
    return match.group(1) if match else name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="PATH", help="a build folder, or files ending in .ptx or .o")
    parser.add_argument("--verbose", action="store_true", help="one line for each kernel")
    arguments = parser.parse_args()

    files = []
    for path in arguments.paths:
        if path.is_dir():
            files += sorted(path.rglob("kernels/cuda_sm80/*.cu.o"))
        elif path.exists():
            files.append(path)
        else:
            parser.error(f"{path}: no such file")
    seen, checked, narrow, wrong = set(), 0, {}, []
    for path in files:
        source = path.name.split(".")[0]
        if source not in STREAMING:
            continue
        rows = [row for text in ptx_of(path) for row in kernels_of(text)]
        if rows:
            seen.add(source)
        for (_, load, store), name in zip(rows, demangled([row[0] for row in rows])):
            kernel = short(name)
            wanted_load, wanted_store = 16, 16
            reason = next((rule for pattern, rule in NARROW.items() if re.match(pattern, kernel)), None)
            if reason is not None:
                wanted_load, wanted_store, text = reason
                narrow[text] = narrow.get(text, 0) + 1
            checked += 1
            line = f"{source}: {kernel}: widest load {load} bytes, widest store {store}"
            if load < wanted_load or store < wanted_store:
                wrong.append(f"{line}; wanted {wanted_load} and {wanted_store}")
            elif arguments.verbose:
                print(line)
    for line in wrong:
        print(line)
    missing = sorted(STREAMING - seen) if any(path.is_dir() for path in arguments.paths) else []
    if missing:
        print("no PTX found of: " + ", ".join(missing) + " (built without -no-compress?)")
    full = checked - sum(narrow.values())
    print(f"ptx: {checked} streaming kernels, {len(wrong)} with accesses that are too narrow; {full} must load and store 16 bytes at a time")
    for text, count in sorted(narrow.items()):
        print(f"ptx:   {count:3} exempt: {text}")
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
