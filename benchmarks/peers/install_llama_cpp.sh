#!/usr/bin/env bash
# Builds llama.cpp from the source distribution of llama-cpp-python inside a throw-away virtual environment outside the
# repository. It is the oracle of tests/golden and the speed peer of cpu_decode.py.
#
#   PEERS_DIR   where the environment lives      (default: ${XDG_CACHE_HOME:-~/.cache}/monotile/peers)
#   JOBS        parallel compiler jobs           (default: 2)
#   NATIVE      ON: use every instruction of this CPU, as a speed peer should; OFF: a portable build (default: ON)
#   AMX         ON: the tile instructions, too, where the CPU has them (default: OFF: with them decoding ended in a
#               segmentation fault on a Sapphire Rapids Xeon)
#
# A finished environment is kept: the script returns at once when the pinned versions, NATIVE and AMX have not changed.
# Prints the path of the environment's python on the last line of stdout.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
peers_dir="${PEERS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/monotile/peers}"
jobs="${JOBS:-2}"
native="${NATIVE:-ON}"
amx="${AMX:-OFF}"
venv="$peers_dir/venv"
stamp="$venv/.monotile-stamp"
wanted="$(cat "$here/requirements.txt") NATIVE=$native AMX=$amx"

if [[ "${1:-}" == "-h" || "${1:-}" == "--help" ]]; then
    sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit 0
fi

if [[ -f "$stamp" && "$(cat "$stamp")" == "$wanted" ]]; then
    echo "$venv/bin/python"
    exit 0
fi

for tool in python3 cmake c++; do
    command -v "$tool" >/dev/null || { echo "install_llama_cpp.sh: '$tool' not found; install it first" >&2; exit 1; }
done

mkdir -p "$peers_dir"
rm -rf "$venv"  # another build of the same version must not be taken for this one
python3 -m venv "$venv"

# Only the library is needed: no server, tools, tests or multi-modal part. OpenMP is llama.cpp's default thread pool on
# Linux and stays on.
export CMAKE_ARGS="-DGGML_NATIVE=$native -DGGML_OPENMP=ON -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_CURL=OFF"
# Its AMX code is chosen by the compiler's own macros; -march=native would override an earlier -mno-amx-int8.
if [[ "$amx" != ON ]]; then
    export CFLAGS="${CFLAGS:-} -U__AMX_TILE__ -U__AMX_INT8__ -U__AMX_BF16__" CXXFLAGS="${CXXFLAGS:-} -U__AMX_TILE__ -U__AMX_INT8__ -U__AMX_BF16__"
fi
export CMAKE_BUILD_TYPE=Release
export CMAKE_BUILD_PARALLEL_LEVEL="$jobs"

nice -n 5 "$venv/bin/python" -m pip install --quiet --no-cache-dir --no-binary llama-cpp-python -r "$here/requirements.txt" >&2

# The commit of the bundled llama.cpp is not in the package; its build number and system line are, so print them.
"$venv/bin/python" - >&2 <<'PY'
import llama_cpp
print("llama-cpp-python", llama_cpp.__version__)
print(llama_cpp.llama_print_system_info().decode())
PY
printf '%s' "$wanted" >"$stamp"
echo "$venv/bin/python"
