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

# Paths relative to the root, so that ccache serves clones in other folders too.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=true

mkdir -p "$dir"
read -r -a more <<<"${CMAKE_ARGS:-}"
if ! cmake --preset "$preset" -B "$dir" "${more[@]}" >"$dir/configure.log" 2>&1; then
    cat "$dir/configure.log" >&2
    echo "build: error: configuring the preset '$preset' failed (log: $dir/configure.log)" >&2
    exit 1
fi

# On a terminal ninja keeps to one line itself. Elsewhere a line per tenth is enough; anything else it says is passed on.
progress() {
    awk '
        match($0, /^\[[0-9]+\/[0-9]+ /) {
            split(substr($0, 2), part, /[\/ ]/)
            tenth = int(10 * part[1] / part[2])
            if (tenth > last) { last = tenth; print "build: " part[1] " of " part[2] " steps, " part[3]; fflush() }
            next
        }
        /^ninja: (Entering|no work)/ { next }
        { print; fflush() }'
}

start=$SECONDS
export NINJA_STATUS="[%f/%t %es] "
if [[ -t 1 ]]; then
    cmake --build "$dir" -j "$jobs" --target "${targets[@]}"
else
    cmake --build "$dir" -j "$jobs" --target "${targets[@]}" | progress
fi
echo "build: $dir (${targets[*]}) is up to date, $((SECONDS - start)) s"
