#pragma once
#include "monotile/dispatch.hpp"

namespace monotile::ops {

/// y[t] = table[ids[t]] * scale.
///
/// table [vocabulary, cols] f32, f16, bf16 or a GGUF block type; ids [tokens] i32 or i64; y [tokens, cols] f32, f16 or bf16, row stride free.
/// scale is applied in fp32 before the one rounding. An id outside [0, vocabulary) writes zeros and sets status[t] = 1 where `status`
/// (i32 [tokens]) is given; on host memory it is refused instead when no status is given.
struct EmbeddingArgs {
  static constexpr const char* op_name = "embedding";
  TensorView y, table, ids;
  TensorView status;  ///< optional
  float scale = 1.0f;
};

inline void embedding(Context& context, const TensorView& y, const TensorView& table, const TensorView& ids, float scale = 1.0f) {
  run(context, EmbeddingArgs{y, table, ids, {}, scale});
}

/// y[t] = x[ids[t]], bit for bit.
///
/// x [rows, cols] and y [tokens, cols] of one plain dtype, row strides free; ids [tokens] i32 or i64. An id outside [0, rows) writes zeros and sets
/// status[t] = 1 where `status` (i32 [tokens]) is given; on host memory it is refused instead when no status is given.
struct GatherRowsArgs {
  static constexpr const char* op_name = "gather_rows";
  TensorView y, x, ids;
  TensorView status;  ///< optional
};
inline void gather_rows(Context& context, const TensorView& y, const TensorView& x, const TensorView& ids) {
  run(context, GatherRowsArgs{y, x, ids, {}});
}

}  // namespace monotile::ops
