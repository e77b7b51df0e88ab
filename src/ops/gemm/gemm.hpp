#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/gemm.hpp"

namespace monotile::ops {

extern const Implementation<GemmArgs> gemm_reference, gemm_portable, gemm_tiles;
/// The oracle; host memory only, arguments checked.
void gemm_reference_run(const GemmArgs& args);

extern const OperatorInfo gemm_operator, gemv_operator;

}  // namespace monotile::ops
