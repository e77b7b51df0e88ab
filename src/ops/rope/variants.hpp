#pragma once
// Which shapes of work the rotary embedding is built for.

#include "ops/row_layouts.hpp"

namespace monotile::ops::rope_kernels {

/// Added to a layout's index: exact, and a lane group takes several heads of a token.
inline constexpr uint32_t kGroups = 2 * kHeadLayouts;
/// As many as leave registers for enough programs.
constexpr int heads_of_group(DType dtype) { return dtype == DType::f32 ? 2 : 4; }

}  // namespace monotile::ops::rope_kernels
