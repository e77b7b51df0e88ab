// Dequantisation, compiled once per target.

#include "monotile/kernels/quant/dequantise.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <uint32_t Layout>
void register_codes() {
  constexpr int kResident = row_layout<Layout>::vectors == 1 ? 1536 : 1024;
  register_bounded<kernels::Dequantise<row_layout<Layout>, false>, 256, kResident>("dequantise",
                                                                                   variant_of(DType::i8, Layout));
  if constexpr (Layout < kExact) {
    register_bounded<kernels::Dequantise<row_layout<Layout>, true>, 256, 1536>("dequantise",
                                                                               variant_of(DType::u8, Layout));
  }
}

template <DType Q>
void register_blocks() {
  using K = kernels::DequantiseBlocks<lang::quant_view<Q>, row_layout<kBlock1>>;
  register_bounded<K, 256, 1024>("dequantise", variant_of(Q, lang::kHasLanes ? static_cast<uint32_t>(kBlock1) : 0u));
}

}  // namespace

void register_kernels_dequantise() {
  register_codes<kRows16>();
  if constexpr (lang::kHasLanes) {
    register_codes<kBlock1>();
    register_codes<kExact + kRows4x4>();
    register_codes<kExact + kBlock1>();
    register_codes<kExact + kBlock2>();
  }
  register_blocks<DType::q4_0>();
  register_blocks<DType::q5_0>();
  register_blocks<DType::q8_0>();
  register_blocks<DType::q4_k>();
  register_blocks<DType::q6_k>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
