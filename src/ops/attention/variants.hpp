#pragma once
#include <cstdint>

#include "monotile/dtype.hpp"
#include "monotile/lang/layout.hpp"

namespace monotile::ops::attention_kernels {

/// (q and out, caches) as they are stored.
enum Types : uint32_t { f32_f32, f16_f16, bf16_bf16, f32_f16, f32_bf16, f32_codes, f16_codes, bf16_codes, no_types };

constexpr Types types_of(DType q, DType kv) {
  if (is_code(kv))
    return q == DType::f32 ? f32_codes : q == DType::f16 ? f16_codes : q == DType::bf16 ? bf16_codes : no_types;
  if (q == DType::f32)
    return kv == DType::f32 ? f32_f32 : kv == DType::f16 ? f32_f16 : kv == DType::bf16 ? f32_bf16 : no_types;
  if (q != kv) return no_types;
  return q == DType::f16 ? f16_f16 : q == DType::bf16 ? bf16_bf16 : no_types;
}

/// Lanes per key by head dimension: 8 elements a lane.
enum Width : uint32_t { up_to_64, up_to_128, up_to_256, widths };
template <uint32_t W>
using layout = lang::blocked<8, 1,
                             W == up_to_64    ? 8
                             : W == up_to_128 ? 16
                                              : 32>;
constexpr Width width_of(int64_t dim) { return dim <= 64 ? up_to_64 : dim <= 128 ? up_to_128 : up_to_256; }

constexpr uint32_t variant(Types types, uint32_t width, int rows) {
  return types << 8 | width << 4 | static_cast<uint32_t>(rows);
}

/// What is seen and how scores change. plain: causal and window masks and the soft-cap. The others are functors, of the kernel "attention.scored".
enum RowScores : uint32_t { plain, scored, tree };
constexpr uint32_t scored_variant(Types types, uint32_t width, RowScores scores) {
  return types << 8 | width << 4 | scores;
}
/// Query rows of a program where there are several: devices that compile on use have kernels of one row alone.
constexpr int many_rows(bool compiles_on_use) { return compiles_on_use ? 1 : 4; }
/// The same with functors, whatever the number of queries. Four rows take three times as long to compile: only where caches have the dtype of the queries.
constexpr int scored_rows(bool same_dtype, bool compiles_on_use) { return same_dtype ? many_rows(compiles_on_use) : 1; }

}  // namespace monotile::ops::attention_kernels
