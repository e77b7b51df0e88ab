#include "ops/reference.hpp"
#include "ops/kv_cache/kv_cache.hpp"

namespace monotile::ops {

namespace {

void copy_token(const TensorView& cache, int64_t slot, const TensorView& source, int64_t token) {
  const int64_t page_size = cache.dim(2);
  const int64_t target = slot / page_size * cache.step(0) + slot % page_size * cache.step(2);
  for (int64_t head = 0; head < source.dim(1); ++head) {
    for (int64_t i = 0; i < source.dim(2); ++i) {
      const double value = reference::get(source, token * source.step(0) + head * source.step(1) + i);
      reference::set(cache, target + head * cache.step(1) + i, value);
    }
  }
}

}  // namespace

void kv_append_reference_run(const KvAppendArgs& args) {
  const int64_t slots = args.key_cache.dim(0) * args.key_cache.dim(2);
  for (int64_t token = 0; token < args.slots.dim(0); ++token) {
    const int64_t slot = reference::get_index(args.slots, token * args.slots.step(0));
    if (slot >= slots && args.status.defined()) reference::set(args.status, token, 1);
    if (slot < 0 || slot >= slots) continue;
    copy_token(args.key_cache, slot, args.k, token);
    copy_token(args.value_cache, slot, args.v, token);
  }
}

constinit const Implementation<KvAppendArgs> kv_append_reference =
    reference::implementation<KvAppendArgs, kv_append_reference_run>("kv_append_reference");

}  // namespace monotile::ops
