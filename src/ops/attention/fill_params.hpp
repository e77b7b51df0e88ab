#pragma once
// What both attention kernels are told in the same way.

#include <algorithm>
#include <cmath>

#include "monotile/ops/attention.hpp"

namespace monotile::ops::attention_params {

inline float scale_of(const AttentionArgs& a) {
  return a.scale != 0.0f ? a.scale : 1.0f / std::sqrt(static_cast<float>(a.q.dim(2)));
}

/// Most keys that a sequence can have.
inline int64_t kv_bound(const AttentionArgs& a) {
  if (a.key_cache.dim(0) == 0) return 0;
  const int64_t room = a.block_table.defined() ? a.block_table.dim(1) * a.key_cache.dim(2) : a.key_cache.dim(0);
  return a.max_kv_length > 0 ? std::min(room, a.max_kv_length) : room;
}

/// Which queries and keys belong to a sequence, where its keys lie, and what is written beside `out`.
template <class Params>
void fill_sequences(Params& p, const AttentionArgs& a) {
  p.q_start = a.q_start.as<const int32_t>();
  p.kv_length = a.kv_length.as<const int32_t>();
  if (a.block_table.defined()) {
    p.block_table = a.block_table.as<const int32_t>();
    p.table_stride = a.block_table.step(0);
    p.page_size = static_cast<int32_t>(a.key_cache.dim(2));
    p.pages = static_cast<int32_t>(a.key_cache.dim(0));
  } else {
    p.kv_start = a.kv_start.as<const int32_t>();
  }
  if (a.log_sum_exp.defined()) {
    p.log_sum_exp = a.log_sum_exp.as<float>();
    p.lse_token_stride = a.log_sum_exp.step(0);
    p.lse_head_stride = a.log_sum_exp.step(1);
  }
  if (a.status.defined()) p.status = a.status.as<int32_t>();
}

}  // namespace monotile::ops::attention_params
