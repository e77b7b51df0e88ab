#pragma once
#include "monotile/dispatch.hpp"

namespace monotile::ops {

/// Writes k[t] and v[t] to slot slots[t] of the paged caches; slot = page * page_size + offset; a negative slot is skipped.
///
/// k [tokens, kv_heads, dim_qk], v [tokens, kv_heads, dim_v] (one dtype of f32, f16, bf16; outer strides free); key_cache [pages, kv_heads, page_size,
/// dim_qk], value_cache [pages, kv_heads, page_size, dim_v] of one dtype of f32, f16, bf16 (converted with one rounding), f8_e4m3, f8_e5m2 or i8 (codes),
/// any strides but the innermost. Caches of codes need key_scale and value_scale, f32: [1] or [kv_heads], read, or [pages, kv_heads,
/// page_size] (any strides), where the scale of each head vector is chosen and written; code = round(x * (1 / scale)), see QuantiseArgs; dims up to 256 then; slots [n] i32 or i64 with n <= tokens: only the first n tokens are written. A slot at or past pages * page_size is not
/// written and sets status[t] = 1 where `status` (i32 [n]) is given; on host memory it is refused when no status is given.
struct KvAppendArgs {
  static constexpr const char* op_name = "kv_append";
  TensorView key_cache, value_cache, k, v, slots;
  TensorView status;  ///< optional
  TensorView key_scale, value_scale;  ///< for caches of codes
};


inline void kv_append(Context& context, const TensorView& key_cache, const TensorView& value_cache, const TensorView& k,
                      const TensorView& v, const TensorView& slots) {
  run(context, KvAppendArgs{key_cache, value_cache, k, v, slots, {}, {}, {}});
}

/// Block `pairs[i][0]` of both caches to block `pairs[i][1]`, bit for bit.
///
/// key_cache [pages, kv_heads, page_size, dim_qk], value_cache [pages, kv_heads, page_size, dim_v] (optional) of one plain dtype each, any strides but the
/// innermost; pairs [n, 2] i32 or i64, packed. No target may be another pair's source or target: their order is not defined. A pair with an index
/// outside [0, pages) is not copied and sets status[i] = 1 where `status` (i32 [n]) is given; on host memory it is refused when no status is given.
struct CopyBlocksArgs {
  static constexpr const char* op_name = "copy_blocks";
  TensorView key_cache, value_cache, pairs;
  TensorView status;  ///< optional
};
inline void copy_blocks(Context& context, const TensorView& key_cache, const TensorView& value_cache, const TensorView& pairs) {
  run(context, CopyBlocksArgs{key_cache, value_cache, pairs, {}});
}

/// k_out[t] and v_out[t] = what slot slots[t] of the paged caches holds, codes times their scale; zeros for a negative slot.
///
/// k_out [n, kv_heads, dim_qk], v_out [n, kv_heads, dim_v] of one dtype of f32, f16, bf16, outer strides free; caches, key_scale and value_scale as in
/// KvAppendArgs, dims up to 256; slots [n] i32 or i64. A slot at or past pages * page_size gives zeros and sets status[t] = 1 where `status` (i32
/// [n]) is given; on host memory it is refused when no status is given.
struct KvGatherArgs {
  static constexpr const char* op_name = "kv_gather";
  TensorView k_out, v_out, key_cache, value_cache, slots;
  TensorView status;                  ///< optional
  TensorView key_scale, value_scale;  ///< for caches of codes
};

/// Blocks between two caches of one shape on different devices (or in host memory): block pairs[i][0] of `from` to block pairs[i][1] of `to`, queued on
/// the context's stream, which belongs to one of the two devices. pairs [n, 2] i32 or i64 in host memory. Each block must be one piece of memory.
void swap_blocks(Context& context, const TensorView& to, const TensorView& from, const TensorView& pairs);

}  // namespace monotile::ops
