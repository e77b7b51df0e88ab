#!/usr/bin/env python3
"""Turns a SPIR-V module of the compiler into the code object that is embedded (src/runtime/opencl reads it).

usage: spirv_code.py MODULE.spv OUTPUT --translator llvm-spirv-15
       spirv_code.py OBJECT.code FOLDER --extract      writes the SPIR-V of each kernel into FOLDER, to be looked at and validated

The object holds every kernel apart, since some OpenCL compilers work through the whole module for each kernel that is used, and each in three forms:

  SPIR-V    for devices that take it. Entry points are renamed to k_<hash of the mangled name>: mangled names are longer than file names may be,
            and caches make file names of them. Names for humans and the linkage of kernels are dropped.
  bitcode   of LLVM 15's SPIR, translated from that SPIR-V, for devices that take no SPIR-V (PoCL 3.1). The translator aborts on OpConstantNull of
            scalar types, which is replaced before by a constant 0. The way over SPIR-V matters: fed with the compiler's own bitcode, PoCL takes local
            arrays of C++ kernels for private ones. Loops are marked as not to be unrolled: PoCL optimises for speed of the kernel, and its own time
            grows with the code.
  alone     the same bitcode without barriers, for groups of one work-item. PoCL cuts a kernel at its barriers and copies what follows conditional ones,
            which takes it up to minutes, also where there is nobody to wait for.

Layout, all little-endian: "MTSPIRV2", uint32 number of kernels, uint32 0; for each kernel uint64 hash, uint32 offset and size of the SPIR-V, of the bitcode
and of the bitcode without barriers; then the data, 8-byte aligned. Kernels without barriers have one bitcode.
"""

import argparse
import pathlib
import struct
import subprocess
import sys
import tempfile

OP_NAME, OP_MEMBER_NAME, OP_SOURCE, OP_ENTRY_POINT, OP_EXECUTION_MODE = 5, 6, 3, 15, 16
OP_TYPE_BOOL, OP_TYPE_INT, OP_TYPE_FLOAT = 20, 21, 22
OP_CONSTANT_FALSE, OP_CONSTANT, OP_CONSTANT_NULL = 42, 43, 46
OP_FUNCTION, OP_FUNCTION_END, OP_FUNCTION_CALL = 54, 56, 57
OP_DECORATE, OP_MEMBER_DECORATE = 71, 72
OP_VARIABLE, OP_CONTROL_BARRIER, OP_LOOP_MERGE = 59, 224, 246
OP_LABEL, OP_BRANCH, OP_BRANCH_CONDITIONAL, OP_SWITCH = 248, 249, 250, 251
DONT_UNROLL = 2
LINKAGE_ATTRIBUTES, ALIGNMENT = 41, 44
FUNCTION_STORAGE = 7
# Of all private variables: the widest access of a kernel. Some carry a smaller one than their accesses, and then drivers that believe both crash.
VARIABLE_ALIGNMENT = 16
# What comes before decorations: capabilities, extensions, imports, memory model, entry points and their modes, strings, sources, names.
PREAMBLE = {3, 5, 6, 7, 10, 11, 14, 15, 16, 17}
MAGIC, ROW = b"MTSPIRV2", struct.Struct("<Q6I")
# Instructions of function bodies without a result: nop, line, function end, stores, copies, barriers, merges, branches, returns, lifetimes.
WITHOUT_RESULT = {0, 8, 56, 62, 63, 64, 224, 225, 228, 246, 247, 249, 250, 251, 252, 253, 254, 255, 256, 257, 317}


def result_of(one):
    """The id that an instruction of a function defines, or None."""
    opcode = one[0] & 0xFFFF
    if opcode in WITHOUT_RESULT:
        return None
    return one[1] if opcode == OP_LABEL else one[2]


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def literal(words):
    """The string at the start of `words`, and how many words it takes."""
    data = struct.pack(f"<{len(words)}I", *words)
    end = data.index(b"\0")
    return data[:end].decode(), end // 4 + 1


def literal_words(text):
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def instruction(opcode, operands):
    return [(len(operands) + 1) << 16 | opcode, *operands]


def without_unrolling(code):
    """A function's instructions with a hint at each loop. Blocks come after those that dominate them, so a branch to an earlier block leads to the head of a
    loop. Merge and continue target are any blocks of the function: to the translator only the hint counts."""
    at = {one[1]: i for i, one in enumerate(code) if one[0] & 0xFFFF == OP_LABEL}
    latches, here = {}, None
    for i, one in enumerate(code):
        opcode = one[0] & 0xFFFF
        if opcode == OP_LABEL:
            here = one[1]
        targets = {OP_BRANCH: one[1:2], OP_BRANCH_CONDITIONAL: one[2:4], OP_SWITCH: one[2:]}.get(opcode, [])
        for target in targets:
            if at.get(target, i) < i:
                latches.setdefault(target, here)
    out = []
    for one in code:
        opcode = one[0] & 0xFFFF
        if opcode == OP_LABEL:
            here = one[1]
        if opcode in (OP_BRANCH, OP_BRANCH_CONDITIONAL, OP_SWITCH) and here in latches:
            out.append(instruction(OP_LOOP_MERGE, [here, latches[here], DONT_UNROLL]))
        out.append(one)
    return out


class Module:
    def __init__(self, data):
        words = struct.unpack(f"<{len(data) // 4}I", data)
        if words[0] != 0x07230203:
            raise SystemExit("spirv_code.py: not a little-endian SPIR-V module")
        self.header = list(words[:5])
        self.declarations, self.entries, self.functions = [], {}, {}  # entries: function id -> mangled name
        at, body = 5, None
        while at < len(words):
            count, opcode = words[at] >> 16, words[at] & 0xFFFF
            one = words[at:at + count]
            at += count
            if opcode == OP_FUNCTION:
                body = self.functions.setdefault(one[2], {"code": [], "calls": set(), "ids": set()})
            if body is None:
                if opcode == OP_ENTRY_POINT:
                    self.entries[one[2]] = literal(one[3:])[0]
                if opcode not in (OP_NAME, OP_MEMBER_NAME, OP_SOURCE):
                    self.declarations.append(one)
                continue
            body["code"].append(one)
            body["ids"].add(result_of(one))
            if opcode == OP_FUNCTION_CALL:
                body["calls"].add(one[3])
            if opcode == OP_FUNCTION_END:
                body["declared_only"] = not any((w[0] & 0xFFFF) == OP_LABEL for w in body["code"])
                body["ids"].discard(None)
                body = None
        self.local_ids = set().union(*(function["ids"] for function in self.functions.values()))

    def used_by(self, entry):
        wanted, seen = [entry], set()
        while wanted:
            function = wanted.pop()
            if function not in seen:
                seen.add(function)
                wanted.extend(self.functions[function]["calls"])
        return seen

    def has_barriers(self, entry):
        return any(one[0] & 0xFFFF == OP_CONTROL_BARRIER for number in self.used_by(entry) for one in self.functions[number]["code"])

    def kernel(self, entry, translated=False, barriers=True):
        """The words of a module of this kernel alone. translated: in the form that becomes bitcode."""
        used = self.used_by(entry)
        present = set().union(*(self.functions[number]["ids"] for number in used))
        out = list(self.header)
        scalars = {}
        variables = {one[2] for number in used for one in self.functions[number]["code"]
                     if one[0] & 0xFFFF == OP_VARIABLE and one[3] == FUNCTION_STORAGE}
        unaligned = sorted(variables)
        for one in self.declarations:
            opcode = one[0] & 0xFFFF
            if opcode not in PREAMBLE:
                for variable in unaligned:
                    out.extend(instruction(OP_DECORATE, [variable, ALIGNMENT, VARIABLE_ALIGNMENT]))
                unaligned = []
            if opcode in (OP_ENTRY_POINT, OP_EXECUTION_MODE):
                function = one[2] if opcode == OP_ENTRY_POINT else one[1]
                if function != entry:
                    continue
                if opcode == OP_ENTRY_POINT:
                    name, length = literal(one[3:])
                    one = instruction(OP_ENTRY_POINT, [*one[1:3], *literal_words(f"k_{fnv1a(name):016x}"), *one[3 + length:]])
            elif opcode == OP_DECORATE:
                target = one[1]
                if target in self.local_ids and target not in present or target in variables and one[2] == ALIGNMENT:
                    continue
                if one[2] == LINKAGE_ATTRIBUTES and target in self.functions and not self.functions[target]["declared_only"]:
                    continue
            elif opcode in (OP_TYPE_BOOL, OP_TYPE_INT, OP_TYPE_FLOAT):
                scalars[one[1]] = (opcode, one[2] if len(one) > 2 else 0)
            elif opcode == OP_CONSTANT_NULL and translated and one[1] in scalars:
                kind, width = scalars[one[1]]
                if kind == OP_TYPE_BOOL:
                    one = instruction(OP_CONSTANT_FALSE, one[1:])
                else:
                    one = instruction(OP_CONSTANT, [*one[1:], *([0] * (2 if width == 64 else 1))])
            out.extend(one)
        for number, function in self.functions.items():
            if number in used:
                code = [one for one in function["code"] if barriers or one[0] & 0xFFFF != OP_CONTROL_BARRIER]
                for one in without_unrolling(code) if translated else code:
                    out.extend(one)
        return struct.pack(f"<{len(out)}I", *out)


def extract(path, folder):
    data = path.read_bytes()
    if data[:8] != MAGIC:
        sys.exit(f"spirv_code.py: {path} is no code object")
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(struct.unpack_from("<I", data, 8)[0]):
        number, at, size = struct.unpack_from("<QII", data, 16 + ROW.size * i)
        (folder / f"{path.stem}-k_{number:016x}.spv").write_bytes(data[at:at + size])
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--translator", default="llvm-spirv-15")
    parser.add_argument("--extract", action="store_true")
    options = parser.parse_args()
    if options.extract:
        return extract(options.module, options.output)
    module = Module(options.module.read_bytes())
    table, data = [], bytearray()

    def put(part):
        data.extend(b"\0" * (-len(data) % 8))
        data.extend(part)
        return [len(data) - len(part), len(part)]

    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder) / "kernel"

        def bitcode(entry, barriers):
            work.with_suffix(".spv").write_bytes(module.kernel(entry, translated=True, barriers=barriers))
            done = subprocess.run([options.translator, "-r", str(work.with_suffix(".spv")), "-o", str(work.with_suffix(".bc"))],
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"spirv_code.py: {options.translator} -r fails on {module.entries[entry]}:\n{done.stderr}")
            return work.with_suffix(".bc").read_bytes()

        for entry, name in module.entries.items():
            parts = [put(module.kernel(entry)), put(bitcode(entry, barriers=True))]
            parts.append(put(bitcode(entry, barriers=False)) if module.has_barriers(entry) else parts[1])
            table.append((fnv1a(name), parts))
    start = 16 + ROW.size * len(table)
    head = MAGIC + struct.pack("<II", len(table), 0)
    for number, parts in table:
        head += ROW.pack(number, *(word for at, size in parts for word in (start + at, size)))
    options.output.write_bytes(head + bytes(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
