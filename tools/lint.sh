#!/usr/bin/env bash
# Formatting (clang-format), host code (clang-tidy) and scripts (shellcheck). Called by `make lint`.
#
#   LINT=format,tidy,shell   which of them (default: all)
#   JOBS                     parallel clang-tidy jobs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

env/install.sh --lint
what=",${LINT:-shell,format,tidy},"
failed=0
part() { echo "lint: $1: $([[ $2 == 0 ]] && echo ok || echo FAILED)"; [[ $2 == 0 ]] || failed=1; }

if [[ "$what" == *,shell,* ]]; then
    status=0
    git ls-files -z -- '*.sh' .ci/run | xargs -0 shellcheck || status=1
    part shellcheck $status
fi

if [[ "$what" == *,format,* ]]; then
    status=0
    git ls-files -z -- '*.cpp' '*.hpp' '*.h' '*.cu' | xargs -0 clang-format-14 --dry-run -Werror 2>&1 |
        sed -n 's/:\([0-9]*\):[0-9]*: error: code should be clang-formatted.*/:\1/p' | cut -d: -f1 | sort | uniq -c |
        awk '{ print "  " $2 ": " $1 " places"; bad = 1 } END { exit bad }' || status=1
    part "clang-format (make format)" $status
fi

if [[ "$what" == *,tidy,* ]]; then
    # Host code only: kernels are templates that clang sees where they are instantiated, with flags of their own.
    dir="build/cpu"
    CMAKE_ARGS="" tools/build.sh cpu help >/dev/null
    status=0
    git ls-files -z -- 'src/*.cpp' ':!src/*.kernels.cpp' ':!src/runtime/cuda/*' |
        xargs -0 -n 1 -P "${JOBS:-$(nproc)}" clang-tidy-14 --quiet -p "$dir" 2>/dev/null || status=1
    part clang-tidy $status
fi

exit $failed
