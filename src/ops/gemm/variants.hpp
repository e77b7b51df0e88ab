#pragma once
#include <cstdint>

#include "monotile/dtype.hpp"
#include "runtime/kernel_table.hpp"

namespace monotile::ops::dots {

/// How the activations reach the product.
enum Activations : uint32_t { as_f32, as_f16, as_bf16, as_int8 };

constexpr Activations activations_of(DType a) { return a == DType::f32 ? as_f32 : a == DType::f16 ? as_f16 : as_bf16; }

/// Rows of a that one program multiplies with each row of b: 1 (b is streamed), or kManyRows.
constexpr int kManyRows = 8;

/// Lanes of programs of matrix instructions that share a multiprocessor: 24 waves have 104 KB of q8_0 on their way, and 80 registers a lane. Code for
/// sm_80 would spill one or two of those.
constexpr int block_lanes_at_once(Target target) { return target == Target::cuda_sm80 ? 512 : 768; }

constexpr uint32_t variant(Activations a, DType b, int rows_of_a) {
  return static_cast<uint32_t>(a) << 16 | static_cast<uint32_t>(b) << 8 | static_cast<uint32_t>(rows_of_a);
}

}  // namespace monotile::ops::dots
