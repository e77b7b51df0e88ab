#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/kv_cache.hpp"

namespace monotile::ops {

extern const Implementation<KvAppendArgs> kv_append_reference, kv_append_portable, kv_append_codes;
extern const Implementation<CopyBlocksArgs> copy_blocks_reference, copy_blocks_portable;
extern const Implementation<KvGatherArgs> kv_gather_reference, kv_gather_portable;
void copy_blocks_reference_run(const CopyBlocksArgs& args);
void kv_gather_reference_run(const KvGatherArgs& args);
/// The oracle; host memory only, arguments checked.
void kv_append_reference_run(const KvAppendArgs& args);

/// What an append writes to, checked: shared with the fused operator of the rope family.
void check_kv_append(const char* op, const KvAppendArgs& args, Device device);

/// Scales of a cache of codes: for all, for each head, or for each head vector; none for plain values.
void check_cache_scale(const char* op, const char* argument, const TensorView& scale, const TensorView& cache,
                       Device device);

extern const OperatorInfo kv_append_operator, copy_blocks_operator, kv_gather_operator;

}  // namespace monotile::ops
