#pragma once
// Loops of prefill attention that the proof program times beside each other (attention_variants.cu).

#include <vector>

#include "monotile/kernels/attention/params.hpp"
#include "monotile/kernels/attention/scores.hpp"
#include "monotile/device.hpp"
#include "runtime/kernel_table.hpp"

namespace proof {

struct Variant {
  const char* name;
  int dim, bm, bn;  ///< head dimension, rows of a tile, keys of a block
  void (*launch)(monotile::Stream&, const monotile::Grid&, const monotile::kernels::PrefillParams<monotile::kernels::SpanMask>&);
  int queue;  ///< PrefillParams::queue
};
std::vector<Variant> attention_variants();

}  // namespace proof
