#!/usr/bin/env bash
# Installs a finished build into a temporary folder and links two programs with find_package(monotile): a call of an
# operator, and attention with a functor of its own (examples/), whose kernel is compiled there.
#
#   tools/check_install.sh [BUILD_DIR]      (default: build/cpu)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build="$(realpath "${1:-build/cpu}")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log" >&2; exit 1; }
mkdir "$work/consumer"
cat >"$work/consumer/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(monotile REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE monotile::monotile)
add_library(dilated_kernel OBJECT dilated_attention.cpp)
monotile_kernel_target(dilated_kernel cpu_plain)
add_executable(dilated run_dilated_attention.cpp)
target_link_libraries(dilated PRIVATE dilated_kernel monotile::monotile)
CMAKE
cp examples/*.cpp examples/*.hpp "$work/consumer"
cat >"$work/consumer/main.cpp" <<'CPP'
// RMSNorm of one row through the installed library.
#include <cmath>
#include <cstdio>

#include "monotile/dispatch.hpp"
#include "monotile/ops/norm.hpp"

int main() {
  float x[4] = {1, 2, 3, 4}, gamma[4] = {1, 1, 1, 1}, y[4] = {};
  monotile::Context context(monotile::Device{monotile::DeviceKind::cpu, 0});
  const auto view = [](float* data) { return monotile::TensorView(data, monotile::DType::f32, {4}); };
  monotile::ops::rms_norm(context, view(y), view(x), view(gamma), 1e-6f);
  const float expected = 4 / std::sqrt(7.5f + 1e-6f);
  std::printf("rms_norm through the installed library: y[3] = %.6f, expected %.6f\n", y[3], expected);
  return std::fabs(y[3] - expected) < 1e-4f ? 0 : 1;
}
CPP
if ! { cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$work/prefix" && cmake --build "$work/consumer/build"; } >"$work/consumer.log" 2>&1; then
    tail -n 40 "$work/consumer.log" >&2
    echo "install: error: a program that uses find_package(monotile) does not build" >&2
    exit 1
fi
"$work/consumer/build/consumer"
"$work/consumer/build/dilated"
"$work/prefix/bin/monotile" --version
