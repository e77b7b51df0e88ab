// Decode attention of f16 on caches of e4m3, masks; compiled once per target.

#include "ops/attention/register_decode.hpp"

namespace monotile::kernel_targets::MONOTILE_TARGET_NAME {

void register_kernels_decode_f16_e4m3() {
  register_decode_codes<half_t, e4m3_t>();
}

}  // namespace monotile::kernel_targets::MONOTILE_TARGET_NAME
