#pragma once
#include "monotile/dispatch.hpp"

namespace monotile::ops {

/// Writes k[t] and v[t] to slot slots[t] of the paged caches; slot = page * page_size + offset; a negative slot is skipped.
///
/// k [tokens, kv_heads, dim_qk], v [tokens, kv_heads, dim_v] (one dtype of f32, f16, bf16; outer strides free); key_cache [pages, kv_heads, page_size,
/// dim_qk], value_cache [pages, kv_heads, page_size, dim_v] of one dtype of f32, f16, bf16 (converted with one rounding), any strides but the
/// innermost; slots [n] i32 or i64 with n <= tokens: only the first n tokens are written. A slot at or past pages * page_size is not
/// written and sets status[t] = 1 where `status` (i32 [n]) is given; on host memory it is refused when no status is given.
struct KvAppendArgs {
  static constexpr const char* op_name = "kv_append";
  TensorView key_cache, value_cache, k, v, slots;
  TensorView status;  ///< optional
};

inline void kv_append(Context& context, const TensorView& key_cache, const TensorView& value_cache, const TensorView& k,
                      const TensorView& v, const TensorView& slots) {
  run(context, KvAppendArgs{key_cache, value_cache, k, v, slots, {}});
}

}  // namespace monotile::ops
