#!/usr/bin/env bash
# Compiles every portable kernel for AMD's gfx90a and gfx942 (wave 64), some for gfx1100 (wave 32), and reads what the compiler made of them:
# instructions, registers, LDS (tools/check_hip.py). Nothing is run: there is no AMD GPU. Where clang++ 22 is missing it says so and succeeds.
#
#   tools/check_hip.sh [--write]      --write: also docs/results/amd-codegen.md
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for tool in clang++-22 ld.lld-22 llvm-objdump-22 llvm-readelf-22 llvm-cxxfilt-22; do
    if ! command -v "$tool" >/dev/null; then
        echo "hip: no $tool on this machine (env/install.sh --hip installs it), so AMD code is not compiled"
        exit 0
    fi
done

dir="${HIP_CHECK_DIR:-build/hip-check}"
targets=(device_code_hip_gfx90a device_code_hip_gfx942)
for name in align argmax norm softmax; do targets+=("kernels/hip_gfx1100/$name.code"); done
CMAKE_ARGS="-DMONOTILE_TESTS=OFF -DMONOTILE_EMULATED=OFF -DMONOTILE_HIP_ARCHITECTURES=gfx90a;gfx942;gfx1100" BUILD_DIR="$dir" \
    tools/build.sh hip "${targets[@]}"
options=()
[[ "${1:-}" == --write ]] && options=(--write docs/results/amd-codegen.md)
python3 tools/check_hip.py "$dir" "${options[@]}"

# Matrix instructions that no operator uses yet.
atoms() {
    local arch="$1" instruction
    shift
    clang++-22 -x hip -std=c++20 -nogpuinc -nogpulib -Iinclude -Isrc -DMONOTILE_TARGET_HIP "-DMONOTILE_TARGET_NAME=hip_$arch" -DMONOTILE_MODULE=atoms \
        "--offload-arch=$arch" --cuda-device-only --no-gpu-bundle-output -O3 -mcode-object-version=5 -c tests/hip/atoms.hip -o "$dir/atoms_$arch.code"
    llvm-objdump-22 -d "$dir/atoms_$arch.code" >"$dir/atoms_$arch.s"
    for instruction in "$@"; do
        grep -q "v_mfma_$instruction" "$dir/atoms_$arch.s" || { echo "hip: error: no v_mfma_$instruction in tests/hip/atoms.hip for $arch" >&2; exit 1; }
    done
    echo "hip: $arch: $# matrix instructions besides those of gemm compile"
}
atoms gfx90a f32_16x16x16bf16_1k f32_16x16x16f16
atoms gfx942 f32_32x32x16_fp8_fp8 f32_16x16x16_bf16 f32_16x16x16_f16
