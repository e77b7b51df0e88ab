// Norm, rotary embedding and cache append of heads in one launch, of bf16; compiled once per target.

#include "ops/rope/register_heads.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_head_rows_bf16() {
  register_heads<bfloat16_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
