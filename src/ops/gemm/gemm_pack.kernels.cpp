// Operands with rows off 16 bytes are packed before they are multiplied, compiled once per target. CPUs pack as they multiply.

#include "monotile/kernels/gemm/pack_rows.hpp"
#include "ops/gemm/packing.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class T>
void register_packing() {
  constexpr auto kName = packing::kernel_name(sizeof(T));
  register_bounded<kernels::PackRows<T, packing::short_layout>, packing::kThreads, 1024>(kName, packing::kShort);
  register_bounded<kernels::PackRows<T, packing::long_layout>, packing::kThreads, 1024>(kName, packing::kLong);
}

}  // namespace

void register_kernels_gemm_pack() {
  if constexpr (lang::kHasLanes) {
    register_packing<half_t>();  // any type of 16 bits
    register_packing<uint8_t>();
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
