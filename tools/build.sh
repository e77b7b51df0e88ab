#!/usr/bin/env bash
# Configures a CMake preset and builds targets of it, with compact progress.
#
#   tools/build.sh PRESET [TARGET...]          (no target: everything)
#
#   BUILD_DIR    build folder (default: build/PRESET)
#   JOBS         parallel jobs (default: number of processors)
#   CMAKE_ARGS   further arguments of the configuration
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset="${1:?usage: tools/build.sh PRESET [TARGET...]}"
shift
dir="${BUILD_DIR:-build/$preset}"
jobs="${JOBS:-$(nproc)}"
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(all)

# nvcc is often installed without being on PATH.
if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then export PATH="$PATH:/usr/local/cuda/bin"; fi

mkdir -p "$dir"
read -r -a more <<<"${CMAKE_ARGS:-}"
if ! cmake --preset "$preset" -B "$dir" "${more[@]}" >"$dir/configure.log" 2>&1; then
    cat "$dir/configure.log" >&2
    echo "build: error: configuring the preset '$preset' failed (log: $dir/configure.log)" >&2
    exit 1
fi

# On a terminal ninja keeps to one line itself. Elsewhere a line per tenth is enough; anything else it says is passed on.
progress() {
    local line tenth last=0
    while IFS= read -r line; do
        if [[ "$line" =~ ^\[([0-9]+)/([0-9]+)\ ([0-9.]+s)\] ]]; then
            tenth=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
            ((tenth > last)) || continue
            last=$tenth
            echo "build: ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} steps, ${BASH_REMATCH[3]}"
        elif [[ "$line" != "ninja: no work to do." && "$line" != "ninja: Entering directory"* ]]; then
            printf '%s\n' "$line"
        fi
    done
}

start=$SECONDS
export NINJA_STATUS="[%f/%t %es] "
if [[ -t 1 ]]; then
    cmake --build "$dir" -j "$jobs" --target "${targets[@]}"
else
    cmake --build "$dir" -j "$jobs" --target "${targets[@]}" | progress
fi
echo "build: $dir (${targets[*]}) is up to date, $((SECONDS - start)) s"
