#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/attention.hpp"

namespace monotile::ops {

extern const Implementation<AttentionArgs> attention_reference, attention_portable, attention_tiles,
    attention_decode_tiles, attention_codes, attention_widened;
/// Relative times: the kernel of rows, and the kernel of matrix tiles.
struct PrefillCost {
  double rows, tiles;
};
PrefillCost prefill_cost(const AttentionArgs& args);
/// The oracle; host memory only, arguments checked. Query rows that belong to no sequence are left alone.
void attention_reference_run(const AttentionArgs& args);
void merge_states_reference(const MergeStatesArgs& args);

extern const OperatorInfo attention_prefill_operator, attention_decode_operator, attention_verify_operator,
    merge_states_operator;

}  // namespace monotile::ops
