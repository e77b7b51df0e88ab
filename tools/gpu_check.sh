#!/usr/bin/env bash
# Everything that needs a GPU, in one go: build, GPU tests in both CUDA paths, compute-sanitizer, the proof program.
#
#   tools/gpu_check.sh [FOLDER]     results (default: build/gpu-results)
#
#   SANITIZE=0        leave compute-sanitizer out
#   SHARDS=N          processes that share the cases of the sanitizers, in turns on all GPUs (default: 8)
#   LIMIT=SECONDS     of each sanitizer (default: 900)
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
out=${1:-build/gpu-results}
mkdir -p "$out"
jobs=$(nproc)
shards=${SHARDS:-8}
gpus=$(nvidia-smi --list-gpus | wc -l)
status=0
note() { printf '[gpu-check %4ds] %s\n' "$SECONDS" "$*"; }

note "building with $jobs jobs"
# The emulated targets are proved elsewhere.
CMAKE_ARGS=-DMONOTILE_EMULATED=OFF JOBS="$jobs" tools/build.sh cuda > "$out/build.log" 2>&1 || { grep -E "error|FAILED" "$out/build.log" | head -n 40; exit 1; }
note "built"
./build/cuda/bin/monotile devices > "$out/devices.txt" 2>&1 || status=1
tail -n 40 "$out/devices.txt"
for path in auto sm80; do
  note "GPU tests, path $path"
  MONOTILE_CUDA_PATH=$path ctest --test-dir build/cuda -L gpu -j 5 --output-on-failure > "$out/ctest-$path.log" 2>&1 || status=1
  grep -vE '^\s*$' "$out/ctest-$path.log" | tail -n 30
done
note "proof"
./build/cuda/bin/monotile_proof > "$out/add_rms_norm.json" || status=1
cat "$out/add_rms_norm.json"

sanitize() { # one tool over all cases, shared by several processes
  local tool=$1 shard pids=() failed=0
  for ((shard = 0; shard < shards; ++shard)); do
    CUDA_VISIBLE_DEVICES=$((shard % gpus)) GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard \
      timeout "${LIMIT:-900}" compute-sanitizer --tool "$tool" --error-exitcode 9 ./build/cuda/bin/test_ops --gtest_filter='*cuda*' \
      > "$out/$tool.$shard.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  cat "$out/$tool".*.log > "$out/$tool.log"
  rm "$out/$tool".*.log
  note "$tool: $(grep -c '\[       OK' "$out/$tool.log") cases passed, $(grep -c '\[  FAILED  \] On' "$out/$tool.log") failed"
  grep -hE '^========= (ERROR|RACECHECK) SUMMARY' "$out/$tool.log" | sort | uniq -c
  return $failed
}
if [ "${SANITIZE:-1}" = 1 ]; then
  for tool in memcheck racecheck; do sanitize "$tool" || status=1; done
fi
note "done, status $status"
exit $status
