#pragma once
#include <cstdint>
#include <type_traits>

#include "monotile/dtype.hpp"
#include "ops/row_layouts.hpp"

namespace monotile::ops::norm {

/// The layout of rows by its index. Those that are not whole aligned vectors take pairs of columns where others have two vectors a lane: as many elements.
template <uint32_t Index>
struct layout_at {
  using type = row_layout<Index>;
};
template <>
struct layout_at<kBlock2> {
  using type = lang::blocked<2, 8, 0>;
};
template <uint32_t Index>
using layout = typename layout_at<Index>::type;

/// (x and y, residual) as they are stored.
enum Types : uint32_t { f32_f32, f16_f16, bf16_bf16, f16_f32, bf16_f32, no_types };

/// Added to a layout's index: gamma is fp32 beside rows of 16 bits. Exact layouts are built for one dtype of gamma, general ones for all.
inline constexpr uint32_t kWideGamma = 0x80;
/// The number on machines without lanes of what is built for gamma of the type of the rows: read as it is, not turned into a row of fp32 for every row.
inline constexpr uint32_t kSameGamma = 1;
/// The number of a layout where rows are X and gamma is G, or anything where G is void.
template <class X, class G>
constexpr uint32_t layout_for(uint32_t layout) {
  return layout + (std::is_same_v<G, float> && !std::is_same_v<X, float> ? kWideGamma : 0);
}

constexpr uint32_t variant(Types types, uint32_t layout) { return types << 8 | layout; }

constexpr Types types_of(DType x, DType residual) {
  if (residual == x)
    return x == DType::f32 ? f32_f32 : x == DType::f16 ? f16_f16 : x == DType::bf16 ? bf16_bf16 : no_types;
  if (residual == DType::f32) return x == DType::f16 ? f16_f32 : x == DType::bf16 ? bf16_f32 : no_types;
  return no_types;
}

}  // namespace monotile::ops::norm
