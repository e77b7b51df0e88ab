#!/usr/bin/env bash
# Everything that needs a GPU, in one go: build, GPU tests in both CUDA paths, compute-sanitizer, the proof program. Writes results to $1.
set -u
out=${1:-build/gpu-results}
mkdir -p "$out"
jobs=$(nproc)
status=0
note() { printf '[gpu-check %4ds] %s\n' "$SECONDS" "$*"; }

cmake --preset cuda > "$out/configure.log" 2>&1 || { tail -n 20 "$out/configure.log"; exit 1; }
note "building with $jobs jobs"
ninja -C build/cuda -j"$jobs" > "$out/build.log" 2>&1 || { grep -E "error|FAILED" "$out/build.log" | head -n 40; exit 1; }
note "built"
./build/cuda/bin/monotile devices > "$out/devices.txt" 2>&1 || status=1
tail -n 40 "$out/devices.txt"
for path in sm90 sm80; do
  [ "$path" = sm80 ] && export MONOTILE_CUDA_PATH=sm80
  note "GPU tests, path $path"
  ctest --test-dir build/cuda -L gpu --output-on-failure > "$out/ctest-$path.log" 2>&1 || status=1
  grep -vE '^\s*$' "$out/ctest-$path.log" | tail -n 30
done
unset MONOTILE_CUDA_PATH
note "proof"
./build/cuda/bin/monotile_proof > "$out/add_rms_norm.json" || status=1
cat "$out/add_rms_norm.json"
if [ "${SANITIZE:-1}" = 1 ]; then
  for tool in memcheck racecheck; do
    note "compute-sanitizer $tool"
    compute-sanitizer --tool "$tool" --error-exitcode 9 ./build/cuda/bin/test_ops --gtest_filter="${SANITIZE_FILTER:-*cuda*}" --gtest_brief=1 > "$out/$tool.log" 2>&1 || status=1
    tail -n 6 "$out/$tool.log"
  done
fi
note "done, status $status"
exit $status
