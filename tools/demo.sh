#!/usr/bin/env bash
# The demo: installs packages, builds, obtains the model and lets it answer, on the CPU and on a GPU if there is one.
# Called by `make demo`, which documents the variables MODEL, PROMPT, CHAT, MAX_TOKENS, DEVICE, CUDA, BUILD_DIR and JOBS.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[[ -z "${MODEL:-}" || -f "$MODEL" ]] || { echo "demo: error: MODEL=$MODEL: no such file" >&2; exit 1; }

begin=$SECONDS
step() { echo; echo "== $* [$((SECONDS - begin)) s]"; }

step "1/4 packages"
env/install.sh --cpu

step "2/4 build"
preset="$(tools/preset.sh)"
dir="${BUILD_DIR:-build/$preset}"
# Without the emulated targets, which only tests use and which are almost half of the work; `make test` adds them.
CMAKE_ARGS="-DMONOTILE_EMULATED=OFF ${CMAKE_ARGS:-}" BUILD_DIR="$dir" tools/build.sh "$preset" monotile_cli

step "3/4 model"
if [[ -n "${MODEL:-}" ]]; then
    model="$MODEL"
else
    model="$(python3 tools/fetch_model.py)"
fi
echo "model: $model"

# The demo model is a pretrained one that was not taught to chat: it completes text, and after its answer it goes on with questions of
# its own. So the default prompt begins the answer, and the default length is what completes it.
prompt=$'Question: What is photosynthesis?\n\nPhotosynthesis is the process by which'
tokens=17
[[ -z "${PROMPT:-}${MODEL:-}" ]] || tokens=64
prompt="${PROMPT:-$prompt}"
arguments=(--model "$model" --prompt "$prompt" --max-tokens "${MAX_TOKENS:-$tokens}" --temperature 0 --show-ops)
[[ "${CHAT:-0}" == 0 ]] || arguments+=(--chat)

devices=("${DEVICE:-cpu}")
if [[ -z "${DEVICE:-}" && "$preset" == cuda ]] && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then devices+=(cuda:0); fi
for device in "${devices[@]}"; do
    step "4/4 answer on $device"
    printf '%s' "$prompt"
    [[ "${CHAT:-0}" == 0 ]] || echo
    "$dir/bin/monotile" generate "${arguments[@]}" --device "$device"
done

step "the operators of this machine's CPU against memcpy and OpenBLAS"
"$dir/bin/monotile" bench ops --shapes quick --device cpu || [[ $? == 3 ]]

echo
echo "demo: done in $((SECONDS - begin)) s. Next: make test"
