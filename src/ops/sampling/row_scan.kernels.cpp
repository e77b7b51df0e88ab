// The scan of long rows, compiled once per target with lanes: elsewhere a row is one program's work.

#include "monotile/kernels/sampling/sample.hpp"
#include "monotile/kernels/sampling/scan.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class X, uint32_t Layout>
void register_layout() {
  register_bounded<kernels::Scan<X, row_layout<Layout>>, 256, 1024>("row_scan", variant_of(dtype_of<X>, Layout));
}

template <class X>
void register_scan() {
  if constexpr (lang::kHasLanes) {
    register_layout<X, kBlock4>();
    if constexpr (lang::kTarget != Target::spirv) register_layout<X, kExact + kBlock4>();
    register_bounded<kernels::SampleChunk<X, row_layout<kBlock4>>, 256, 512>("sample_chunk",
                                                                             variant_of(dtype_of<X>, kBlock4));
  }
}

}  // namespace

void register_kernels_row_scan() {
  register_scan<float>();
  register_scan<half_t>();
  register_scan<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
