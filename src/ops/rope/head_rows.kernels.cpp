// Norm, rotary embedding and cache append of heads in one launch, of f32 and f16; compiled once per target.

#include "ops/rope/register_heads.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_head_rows() {
  register_heads<float>();
  register_heads<half_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
