#!/usr/bin/env bash
# Unit tests under the address and undefined-behaviour sanitizers (not the ones that need the model file or a GPU).
#
#   ASAN_EMULATED=OFF    leave out the emulated targets, which are half of the build
#   ASAN_WITHOUT=REGEX   leave out these tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

emulated="${ASAN_EMULATED:-ON}"
labels='^(cpu|emulated)$'
[[ "$emulated" == ON ]] || labels='^cpu$'
CMAKE_ARGS="-DMONOTILE_EMULATED=$emulated" BUILD_DIR="${ASAN_DIR:-build/asan}" tools/build.sh asan
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1:strict_string_checks=1:check_initialization_order=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}"
ctest --test-dir "${ASAN_DIR:-build/asan}" --output-on-failure --no-tests=error -L "$labels" -E "${ASAN_WITHOUT:-^none$}" -j 2
