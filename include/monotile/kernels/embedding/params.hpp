#pragma once
// What the embedding kernel is given: filled by the host, passed by value.

#include "monotile/lang/view.hpp"

namespace monotile::kernels {

/// Table is lang::view<const T> or lang::quant_view<Q>.
template <class Y, class Table>
struct EmbeddingParams {
  lang::view<Y> y;
  Table table;
  lang::any_index ids;
  int32_t* status;  ///< may be null
  int64_t tokens, vocabulary, cols;
  int64_t chunks;  ///< programs side by side along a row
  float scale;
};

}  // namespace monotile::kernels
