#pragma once
#include <cstdint>

#include "monotile/dtype.hpp"

namespace monotile::ops::dots {

/// How the activations reach the product.
enum Activations : uint32_t { as_f32, as_f16, as_bf16, as_int8 };

constexpr Activations activations_of(DType a) { return a == DType::f32 ? as_f32 : a == DType::f16 ? as_f16 : as_bf16; }

/// Rows of a that one program multiplies with each row of b: 1 (b is streamed), or kManyRows.
constexpr int kManyRows = 8;

constexpr uint32_t variant(Activations a, DType b, int rows_of_a) {
  return static_cast<uint32_t>(a) << 16 | static_cast<uint32_t>(b) << 8 | static_cast<uint32_t>(rows_of_a);
}

}  // namespace monotile::ops::dots
