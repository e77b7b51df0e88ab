#!/usr/bin/env bash
# Installs what Monotile needs on Debian 12 (or a relative of it). Used by the Makefile, by CI and by the Dockerfiles here.
#
#   env/install.sh [--cpu] [--lint] [--spirv] [--hip] [--cuda] [--peers]
#
#   --cpu     compiler, CMake, libraries, test framework (the default; always included)
#   --lint    also clang-format, clang-tidy and shellcheck
#   --hip     also what the preset "hip" needs, and the checks of AMD code: clang, lld and llvm 22; no ROCm
#   --spirv   also what the preset "spirv" needs: clang 22, the SPIR-V tools, and PoCL to run it on
#   --cuda    also check for the CUDA toolkit, which Debian does not package
#   --peers   also build llama.cpp in a throw-away environment, as the oracle and speed peer (minutes)
#
# Packages and their recorded versions are in env/packages.txt. What is there already, from Debian or not, is left alone,
# so a second run takes well under a second. Exit codes: 0 all there, 1 something could not be installed, 2 wrong usage.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
say() { echo "env: $*"; }
die() { echo "env: error: $*" >&2; exit 1; }

groups=" cpu " cuda=0 peers=0
for option in "$@"; do
    case "$option" in
        --cpu) ;;
        --lint) groups+="lint " ;;
        --spirv) groups+="spirv " ;;
        --hip) groups+="hip " ;;
        --cuda) cuda=1 ;;
        --peers) peers=1 ;;
        -h | --help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) echo "env: error: unknown option '$option'; see env/install.sh --help" >&2; exit 2 ;;
    esac
done

# Is it there without being a Debian package? (another distribution, /usr/local, a container image)
present() {
    local kind="${1%%:*}" what="${1#*:}"
    case "$kind" in
        cmd) command -v "$what" >/dev/null ;;
        file) [[ -e "$what" ]] ;;
        python) command -v python3 >/dev/null && python3 -c "import $what" 2>/dev/null ;;
        header)
            command -v g++ >/dev/null && printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$what" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1
            ;;
        *) die "env/packages.txt: unknown probe '$1'" ;;
    esac
}

missing_packages() {
    local package group probe names installed=" "
    if command -v dpkg-query >/dev/null; then
        mapfile -t names < <(wanted_packages)
        # dpkg-query fails for names that it never heard of, and still lists the others.
        installed+="$(dpkg-query -W -f '${db:Status-Abbrev}${Package} ' "${names[@]}" 2>/dev/null || true)"
    fi
    while read -r package _ group probe; do
        [[ -z "$package" || "$package" == \#* || "$groups" != *" $group "* ]] && continue
        [[ "$installed" == *"ii $package "* ]] || present "$probe" || echo "$package"
    done <"$here/packages.txt"
}

wanted_packages() {
    local package group
    while read -r package _ group _; do
        [[ -z "$package" || "$package" == \#* || "$groups" != *" $group "* ]] || echo "$package"
    done <"$here/packages.txt"
}

install_packages() {
    local log as_root=()
    if ! command -v apt-get >/dev/null; then
        die "not a Debian system, so install the equivalents of: $*"
    fi
    if [[ "$(id -u)" != 0 ]]; then
        command -v sudo >/dev/null || die "not root and no sudo; as root run: apt-get install --no-install-recommends $*"
        as_root=(sudo)
    fi
    say "installing $# packages: $*"
    log="$(mktemp)"
    # Lock::Timeout: a machine that has just booted may still run its own updates.
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
    # A third-party source that fails to update must not stop us: what counts is whether the packages arrive.
    if ! { "${apt[@]}" update || true; "${apt[@]}" install -y --no-install-recommends "$@"; } </dev/null >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        die "apt-get failed (full log: $log)"
    fi
    rm -f "$log"
}

mapfile -t missing < <(missing_packages)
if [[ ${#missing[@]} -gt 0 ]]; then
    install_packages "${missing[@]}"
    mapfile -t missing < <(missing_packages)
    [[ ${#missing[@]} -eq 0 ]] || die "still missing after the installation: ${missing[*]}"
    say "packages installed"
else
    say "all packages are there"
fi

if [[ $cuda == 1 ]]; then
    nvcc="$(command -v nvcc || true)"
    [[ -n "$nvcc" || ! -x /usr/local/cuda/bin/nvcc ]] || nvcc=/usr/local/cuda/bin/nvcc
    [[ -n "$nvcc" ]] || die "nvcc not found: install NVIDIA's CUDA toolkit 13.0 (compiler and static runtime are enough) and put its bin folder on PATH"
    say "$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/CUDA toolkit \1/p') at ${nvcc%/bin/nvcc}"
fi

if [[ $peers == 1 ]]; then
    say "building llama.cpp as a peer (minutes, the first time)"
    say "peer environment: $("$here/../benchmarks/peers/install_llama_cpp.sh" | tail -n 1)"
fi
