#!/usr/bin/env bash
# The SPIR-V target: builds it, validates every kernel's SPIR-V, and runs the operators' tests, the small golden models, the self-tests and a quick
# benchmark on an OpenCL device (here PoCL, on the CPU: what runs there is right, how fast it runs says nothing). Its last lines say how long each part took.
#
#   tools/check_spirv.sh              the preset "spirv"
#
#   BUILD_DIR, JOBS                   as in tools/build.sh
#   POCL_CACHE_DIR                    where PoCL keeps what it compiled (default: inside the build folder)
#   OCL_ICD_VENDORS                   another driver than Debian's (docs/targets/opencl.md)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

times=()
begin=$SECONDS
took() {
    times+=("$(printf 'spirv: %4d s  %s' $((SECONDS - begin)) "$1")")
    begin=$SECONDS
}

env/install.sh --spirv
dir="${BUILD_DIR:-build/spirv}"
took "packages"
# Kernels of the CPU are left out: other builds have them.
CMAKE_ARGS="${CMAKE_ARGS:--DMONOTILE_TARGETS=spirv}" BUILD_DIR="$dir" tools/build.sh spirv
took "build"
python3 tools/check_budgets.py --only compile_time,instantiations --build "$dir" --fresh 1
took "budgets"

modules="$(mktemp -d)"
trap 'rm -rf "$modules"' EXIT
for code in "$dir"/kernels/spirv/*.code; do python3 cmake/spirv_code.py "$code" "$modules" --extract; done
count=0
for module in "$modules"/*.spv; do
    spirv-val --target-env spv1.2 "$module" || { echo "spirv: error: $module is not valid" >&2; exit 1; }
    count=$((count + 1))
done
[[ $count -gt 0 ]] || { echo "spirv: error: no kernels in $dir/kernels/spirv" >&2; exit 1; }
echo "spirv: $count kernels are valid SPIR-V 1.2"
took "spirv-val of $count kernels"

# What was compiled by another version of the driver, or in another run, is not what is judged here.
export POCL_CACHE_DIR="${POCL_CACHE_DIR:-$PWD/$dir/pocl-cache}"
rm -rf "$POCL_CACHE_DIR"
mkdir -p "$POCL_CACHE_DIR"
# Work-items in a loop, where PoCL would copy the kernel for each of two.
export POCL_WORK_GROUP_METHOD="${POCL_WORK_GROUP_METHOD:-loopvec}"
# Without a device the tests would be skipped, which ctest takes for success.
"$dir/bin/monotile" devices --no-self-test | grep -q 'opencl:0' || { echo "spirv: error: no device opencl:0" >&2; exit 1; }
ctest --test-dir "$dir" --output-on-failure --no-tests=error -L opencl -j 2
took "tests on opencl:0"
"$dir/bin/monotile" devices
took "self-tests"
"$dir/bin/monotile" bench ops --device opencl:0 --shapes quick --op add_rms_norm softmax attention_verify --seconds 20
took "benchmark"
printf '%s\n' "${times[@]}"
