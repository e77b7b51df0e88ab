#include "ops/reference.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/quant/quant.hpp"

namespace monotile::ops {

namespace {

void copy_token(const TensorView& cache, const TensorView& scales, int64_t slot, const TensorView& source,
                int64_t token) {
  const int64_t page_size = cache.dim(2), page = slot / page_size, in_page = slot % page_size;
  const int64_t target = page * cache.step(0) + in_page * cache.step(2);
  for (int64_t head = 0; head < source.dim(1); ++head) {
    const auto value = [&](int64_t i) {
      return reference::get(source, token * source.step(0) + head * source.step(1) + i);
    };
    float scale = 1.0f;
    if (scales.rank == 1)
      scale = static_cast<float>(reference::get(scales, scales.dim(0) == 1 ? 0 : head * scales.step(0)));
    if (scales.rank == 3) {
      double most = 0;
      for (int64_t i = 0; i < source.dim(2); ++i)
        most = std::isfinite(value(i)) ? std::max(most, std::abs(value(i))) : most;
      scale = most == 0 ? 1.0f : std::max(static_cast<float>(most) / largest_code(cache.dtype), 0x1p-126f);
      reference::set(scales, page * scales.step(0) + head * scales.step(1) + in_page * scales.step(2),
                     static_cast<double>(scale));
    }
    for (int64_t i = 0; i < source.dim(2); ++i) {
      double stored = value(i);
      if (is_code(cache.dtype)) stored = static_cast<double>(static_cast<float>(stored) * (1.0f / scale));
      if (cache.dtype == DType::i8)
        stored = std::isnan(stored) ? 0.0 : std::clamp(std::nearbyint(stored), -128.0, 127.0);
      reference::set(cache, target + head * cache.step(1) + i, stored);
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
    copy_token(args.key_cache, args.key_scale, slot, args.k, token);
    copy_token(args.value_cache, args.value_scale, slot, args.v, token);
  }
}

constinit const Implementation<KvAppendArgs> kv_append_reference =
    reference::implementation<KvAppendArgs, kv_append_reference_run>("kv_append_reference");

}  // namespace monotile::ops
