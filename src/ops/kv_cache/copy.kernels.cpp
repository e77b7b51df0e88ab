// Rows moved between caches and tensors, compiled once per target.

#include "monotile/kernels/kv_cache/copy_rows.hpp"
#include "monotile/kernels/kv_cache/kv_gather.hpp"
#include "ops/kv_cache/copy_rows.hpp"
#include "ops/register_kernel.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

using namespace monotile::ops;  // NOLINT

namespace {

template <class T, class L, int Resident>
void register_copy(const char* name, uint32_t layout) {
  register_bounded<kernels::CopyRows<T, L>, copy_rows::kLongThreads, Resident>(name, layout);
}

}  // namespace

void register_kernels_copy() {
  register_copy<float, lang::blocked<4, 1, 16>, 1024>("copy_rows_words", copy_rows::kShort);
  register_copy<uint8_t, lang::blocked<8, 1, 16>, 1024>("copy_rows_bytes", copy_rows::kShort);
  if constexpr (lang::kHasLanes) {
    register_copy<float, lang::blocked<4, copy_rows::kLongVectors, 0>, 1024>("copy_rows_words", copy_rows::kLong);
    register_copy<uint8_t, lang::blocked<8, copy_rows::kLongVectors, 0>, 1024>("copy_rows_bytes", copy_rows::kLong);
    register_copy<float, lang::blocked<4, copy_rows::kLongVectors, 0, false, true>, 1536>("copy_rows_words",
                                                                                          copy_rows::kLongExact);
  }
  register_bounded<kernels::KvGather<head_layout<kHeads16>>, 128, 1024>("kv_gather", kHeads16);
  if constexpr (lang::kHasLanes)
    register_bounded<kernels::KvGather<head_layout<kHeads32>>, 128, 1024>("kv_gather", kHeads32);
  if constexpr (lang::kHasLanes && lang::kTarget != Target::spirv) {
    // As for dequantisation, a lane takes several vectors: codes are half of what 16-bit values are, and a row is little beside the way to it.
    register_bounded<kernels::KvGather<lang::blocked<8, 4, 4, false, true>>, 128, 1024>("kv_gather", kExactHeads + kHeads16);
    register_bounded<kernels::KvGather<lang::blocked<8, 4, 8, false, true>>, 128, 1024>("kv_gather", kExactHeads + kHeads32);
  }
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
