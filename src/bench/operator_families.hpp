#pragma once
// How the definitions are spread over files: each adds its own to the list that operators.cpp returns.

#include <memory>
#include <vector>

#include "bench/operator.hpp"
#include "bench/typed_operator.hpp"

namespace monotile::bench {

using OperatorList = std::vector<std::unique_ptr<Operator>>;

template <class Args>
void add(OperatorList& list, Definition<Args> definition) {
  list.push_back(std::make_unique<TypedOperator<Args>>(std::move(definition)));
}

inline std::vector<DType> float_dtypes() { return {DType::f16, DType::bf16, DType::f32}; }

/// The numbers below `count`, in an order in which neighbours lie far apart: places in a cache that has been in use.
std::vector<int64_t> scattered(int64_t count);

void add_row_operators(OperatorList& list);       ///< quantisation, fused norms, heads, copies
void add_expert_operators(OperatorList& list);    ///< routing and the way of rows to experts and back
void add_sampling_operators(OperatorList& list);  ///< from logits to tokens

}  // namespace monotile::bench
