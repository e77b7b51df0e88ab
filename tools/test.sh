#!/usr/bin/env bash
# Builds everything and runs all tests that this machine can run. Called by `make test`.
#
#   CUDA, BUILD_DIR, JOBS   as in the Makefile
#   CTEST_ARGS              further arguments of ctest, such as "-L cpu" or "-R norm"
#   MONOTILE_TEST_MODEL     model file of the model tests (default: the demo model, fetched if need be)
#
# Without a GPU the gpu tests say so and are skipped. Without the model file the model tests are skipped, except where CI=true:
# there it is an error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset="$(tools/preset.sh)"
dir="${BUILD_DIR:-build/$preset}"
env/install.sh --cpu
BUILD_DIR="$dir" tools/build.sh "$preset"

if [[ -z "${MONOTILE_TEST_MODEL:-}" ]]; then
    if ! MONOTILE_TEST_MODEL="$(python3 tools/fetch_model.py)"; then
        [[ "${CI:-}" != true ]] || { echo "test: error: the demo model could not be obtained" >&2; exit 1; }
        echo "test: no demo model, so the tests with the label 'model' are skipped"
        MONOTILE_TEST_MODEL=""
    fi
fi
export MONOTILE_TEST_MODEL

read -r -a more <<<"${CTEST_ARGS:-}"
if nvidia-smi -L 2>/dev/null | grep -q '^GPU' && [[ "$preset" == cuda && -z "${MONOTILE_CUDA_PATH:-}" ]]; then
    echo "test: the GPU tests on the sm_80 path first; the native path comes with all the others"
    MONOTILE_CUDA_PATH=sm80 ctest --test-dir "$dir" --output-on-failure -L gpu
fi
# Two at a time: emulated cases use one thread each. Those that measure or use a GPU run alone (tests/CMakeLists.txt).
ctest --test-dir "$dir" --output-on-failure --no-tests=error -j 2 "${more[@]}"
