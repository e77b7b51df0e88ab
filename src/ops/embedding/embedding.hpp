#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/embedding.hpp"

namespace monotile::ops {

extern const Implementation<EmbeddingArgs> embedding_reference, embedding_portable;
extern const Implementation<GatherRowsArgs> gather_rows_reference, gather_rows_portable;
void gather_rows_reference_run(const GatherRowsArgs& args);
/// The oracle; host memory only, arguments checked.
void embedding_reference_run(const EmbeddingArgs& args);

extern const OperatorInfo gather_rows_operator;
extern const OperatorInfo embedding_operator;

}  // namespace monotile::ops
