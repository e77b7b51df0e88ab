#!/usr/bin/env bash
# Chips that nobody here has: a reduction over rows and products by tiles compile for sm_89, sm_100a and sm_120a through the path for
# sm_80 and later. Compiled, not run. Where there is no nvcc it says so and succeeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then export PATH="$PATH:/usr/local/cuda/bin"; fi
if ! command -v nvcc >/dev/null; then
    echo "targets: no nvcc on this machine, so sm_89, sm_100a and sm_120a are not compiled"
    exit 0
fi
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
architectures=()
for arch in 89 100a 120a; do architectures+=("-gencode=arch=compute_$arch,code=sm_$arch"); done
launcher=()
if command -v ccache >/dev/null; then launcher=(ccache); fi
compile() {
    "${launcher[@]}" nvcc -x cu -std=c++20 -O3 --expt-relaxed-constexpr -diag-suppress=20012,20013,20014,177,445 -DMONOTILE_TARGET_CUDA \
        -DMONOTILE_TARGET_NAME=cuda_sm80 -Iinclude -Isrc "${architectures[@]}" -c "$1" -o "$out/$(basename "$1").o"
    echo "targets: $1 compiles for sm_89, sm_100a and sm_120a (not run)"
}
compile src/ops/sampling/argmax.kernels.cpp &
first=$!
compile src/ops/gemm/gemm_tiles_bf16.kernels.cpp
wait "$first"
