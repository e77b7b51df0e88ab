#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/embedding.hpp"

namespace monotile::ops {

extern const Implementation<EmbeddingArgs> embedding_reference, embedding_portable;
/// The oracle; host memory only, arguments checked.
void embedding_reference_run(const EmbeddingArgs& args);

extern const OperatorInfo embedding_operator;

}  // namespace monotile::ops
