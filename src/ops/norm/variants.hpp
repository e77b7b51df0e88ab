#pragma once
#include <cstdint>

#include "monotile/dtype.hpp"

namespace monotile::ops::norm {

/// (x and y, residual) as they are stored.
enum Types : uint32_t { f32_f32, f16_f16, bf16_bf16, f16_f32, bf16_f32, no_types };

constexpr uint32_t variant(Types types, uint32_t layout) { return types << 8 | layout; }

constexpr Types types_of(DType x, DType residual) {
  if (residual == x) return x == DType::f32 ? f32_f32 : x == DType::f16 ? f16_f16 : x == DType::bf16 ? bf16_bf16 : no_types;
  if (residual == DType::f32) return x == DType::f16 ? f16_f32 : x == DType::bf16 ? bf16_f32 : no_types;
  return no_types;
}

}  // namespace monotile::ops::norm
