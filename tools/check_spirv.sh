#!/usr/bin/env bash
# The SPIR-V target: builds it, validates every kernel's SPIR-V, and runs the operators' tests, the self-tests and the quick benchmark on an
# OpenCL device (here PoCL, on the CPU: what runs there is right, how fast it runs says nothing).
#
#   tools/check_spirv.sh              the preset "spirv"
#
#   BUILD_DIR, JOBS                   as in tools/build.sh
#   POCL_CACHE_DIR                    where PoCL keeps what it compiled (default: inside the build folder)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

env/install.sh --spirv
dir="${BUILD_DIR:-build/spirv}"
BUILD_DIR="$dir" tools/build.sh spirv
python3 tools/check_budgets.py --only compile_time,instantiations --build "$dir" --fresh 1

modules="$(mktemp -d)"
trap 'rm -rf "$modules"' EXIT
for code in "$dir"/kernels/spirv/*.code; do python3 cmake/spirv_code.py "$code" "$modules" --extract; done
count=0
for module in "$modules"/*.spv; do
    spirv-val --target-env spv1.2 "$module" || { echo "spirv: error: $module is not valid" >&2; exit 1; }
    count=$((count + 1))
done
echo "spirv: $count kernels are valid SPIR-V 1.2"

export POCL_CACHE_DIR="${POCL_CACHE_DIR:-$PWD/$dir/pocl-cache}"
mkdir -p "$POCL_CACHE_DIR"
ctest --test-dir "$dir" --output-on-failure --no-tests=error -L opencl -j 2
"$dir/bin/monotile" devices
"$dir/bin/monotile" bench ops --device opencl:0 --shapes quick --op add_rms_norm softmax --seconds 20
