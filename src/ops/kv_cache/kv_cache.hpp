#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/kv_cache.hpp"

namespace monotile::ops {

extern const Implementation<KvAppendArgs> kv_append_reference, kv_append_portable;
/// The oracle; host memory only, arguments checked.
void kv_append_reference_run(const KvAppendArgs& args);

extern const OperatorInfo kv_append_operator;

}  // namespace monotile::ops
