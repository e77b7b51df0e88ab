#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/quant.hpp"

namespace monotile::ops {

extern const Implementation<QuantiseArgs> quantise_reference, quantise_portable;
extern const Implementation<DequantiseArgs> dequantise_reference, dequantise_portable;
extern const Implementation<GatedQuantiseArgs> gated_quantise_reference, gated_quantise_portable;
/// The oracles; host memory only, arguments checked.
void quantise_reference_run(const QuantiseArgs& args);
void dequantise_reference_run(const DequantiseArgs& args);
void gated_quantise_reference_run(const GatedQuantiseArgs& args);

extern const OperatorInfo quantise_operator, dequantise_operator, gated_quantise_operator;

/// A block extent of 0 means all of it.
inline int64_t block_extent(int64_t block, int64_t extent) { return block == 0 ? std::max<int64_t>(1, extent) : block; }
/// The largest code, as a number.
constexpr float largest_code(DType codes) {
  return codes == DType::f8_e4m3 ? 448.0f : codes == DType::f8_e5m2 ? 57344.0f : 127.0f;
}

}  // namespace monotile::ops
