#include "ops/reference.hpp"
#include "ops/embedding/embedding.hpp"

namespace monotile::ops {

void embedding_reference_run(const EmbeddingArgs& args) {
  for (int64_t token = 0; token < args.ids.dim(0); ++token) {
    const int64_t id = reference::get_index(args.ids, token * args.ids.step(0));
    const bool valid = id >= 0 && id < args.table.dim(0);
    if (!valid && args.status.defined()) reference::set(args.status, token, 1);
    for (int64_t col = 0; col < args.table.dim(1); ++col) {
      const double value = valid ? reference::get(args.table, id * args.table.step(0) + col) : 0.0;
      reference::set(args.y, token * args.y.step(0) + col, value * static_cast<double>(args.scale));
    }
  }
}

constinit const Implementation<EmbeddingArgs> embedding_reference =
    reference::implementation<EmbeddingArgs, embedding_reference_run>("embedding_reference");

}  // namespace monotile::ops
