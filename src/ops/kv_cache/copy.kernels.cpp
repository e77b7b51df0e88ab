// Rows moved between caches and tensors, compiled once per target.

#include "monotile/kernels/kv_cache/copy_rows.hpp"
#include "monotile/kernels/kv_cache/kv_gather.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

void register_kernels_copy() {
  register_bounded<kernels::CopyRows<float, head_layout<kHeads16>>, 128, 1024>("copy_rows_words", 0);
  register_bounded<kernels::CopyRows<uint8_t, head_layout<kHeads16>>, 128, 1024>("copy_rows_bytes", 0);
  register_bounded<kernels::KvGather<head_layout<kHeads16>>, 128, 1024>("kv_gather", kHeads16);
  if constexpr (lang::kHasLanes)
    register_bounded<kernels::KvGather<head_layout<kHeads32>>, 128, 1024>("kv_gather", kHeads32);
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
