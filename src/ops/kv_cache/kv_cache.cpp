#include "ops/kv_cache/kv_cache.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const char* op = KvAppendArgs::op_name;

constexpr const Implementation<KvAppendArgs>* kImplementations[] = {
    &kv_append_portable,
    &kv_append_codes,
    &kv_append_reference,
};

void check_source(const char* op, const char* argument, const TensorView& view, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 3, 3);
  check::dtype(op, argument, view, {DType::f32, DType::f16, DType::bf16});
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
}

void check_cache(const char* op, const char* argument, const TensorView& cache, const TensorView& source,
                 Device device) {
  check::present(op, argument, cache, device);
  check::rank(op, argument, cache, 4, 4);
  check::dtype(op, argument, cache, {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2, DType::i8});
  check::extent(op, argument, cache, 1, source.dim(1));
  check::extent(op, argument, cache, 3, source.dim(2));
  check::inner_stride(op, argument, cache);
  check::element_aligned(op, argument, cache);
  check::no_self_overlap(op, argument, cache);
}

}  // namespace

namespace ops {

void check_cache_scale(const char* op, const char* argument, const TensorView& scale, const TensorView& cache,
                 Device device) {
  if (!is_code(cache.dtype)) {
    if (scale.defined())
      check::fail(op, argument, "a view", std::string("none with a cache of ") + dtype_info(cache.dtype).name);
    return;
  }
  check::present(op, argument, scale, device);
  check::dtype(op, argument, scale, {DType::f32});
  check::element_aligned(op, argument, scale);
  if (scale.rank == 1) {
    if (scale.dim(0) != 1) check::extent(op, argument, scale, 0, cache.dim(1));
    if (scale.dim(0) > 1 && scale.step(0) < 1)
      check::fail(op, argument, "stride " + std::to_string(scale.step(0)), "1 or more");
    return;
  }
  check::rank(op, argument, scale, 3, 3);
  for (int axis = 0; axis < 3; ++axis) check::extent(op, argument, scale, axis, cache.dim(axis));
  check::no_self_overlap(op, argument, scale);
  check::disjoint(op, argument, scale, "cache", cache);
}

void check_kv_append(const char* op, const KvAppendArgs& args, Device device) {
  check_source(op, "k", args.k, device);
  check_source(op, "v", args.v, device);
  check::same_dtype(op, "v", args.v, "k", args.k);
  check::extent(op, "v", args.v, 0, args.k.dim(0));
  check::extent(op, "v", args.v, 1, args.k.dim(1));
  check_cache(op, "key_cache", args.key_cache, args.k, device);
  check_cache(op, "value_cache", args.value_cache, args.v, device);
  check::same_dtype(op, "value_cache", args.value_cache, "key_cache", args.key_cache);
  check::extent(op, "value_cache", args.value_cache, 0, args.key_cache.dim(0));
  check::extent(op, "value_cache", args.value_cache, 2, args.key_cache.dim(2));

  check::indices(op, "slots", args.slots, device);
  if (args.slots.dim(0) > args.k.dim(0)) {
    check::fail(op, "slots", std::to_string(args.slots.dim(0)) + " slots",
                "at most the " + std::to_string(args.k.dim(0)) + " tokens of k");
  }
  check::disjoint(op, "key_cache", args.key_cache, "value_cache", args.value_cache);
  for (const auto& [name, cache] :
       {std::pair<const char*, const TensorView*>{"key_cache", &args.key_cache}, {"value_cache", &args.value_cache}}) {
    check::disjoint(op, name, *cache, "k", args.k);
    check::disjoint(op, name, *cache, "v", args.v);
    check::disjoint(op, name, *cache, "slots", args.slots);
  }
  check_cache_scale(op, "key_scale", args.key_scale, args.key_cache, device);
  check_cache_scale(op, "value_scale", args.value_scale, args.value_cache, device);
  if (args.key_scale.rank == 3 && args.value_scale.rank == 3)
    check::disjoint(op, "key_scale", args.key_scale, "value_scale", args.value_scale);
}

}  // namespace ops

namespace {

void check_args(const KvAppendArgs& args, Device device) {
  check_kv_append(op, args, device);
  check::optional_status(op, args.status, args.slots.dim(0), device,
                         {{"key_cache", args.key_cache},
                          {"value_cache", args.value_cache},
                          {"k", args.k},
                          {"v", args.v},
                          {"slots", args.slots},
                          {"key_scale", args.key_scale},
                          {"value_scale", args.value_scale}});
}

/// Slots that the host can see are refused here where no status would tell.
void check_tables(const KvAppendArgs& args) {
  if (!entry::host_readable(args.slots) || args.status.defined()) return;
  const int64_t slots = args.key_cache.dim(0) * args.key_cache.dim(2);
  for (int64_t token = 0; token < args.slots.dim(0); ++token) {
    const int64_t slot = reference::get_index(args.slots, token * args.slots.step(0));
    if (slot < slots) continue;
    check::fail(op, "slots", "slot " + std::to_string(slot) + " of token " + std::to_string(token),
                "below pages x page_size = " + std::to_string(slots) + " (negative: skipped)");
  }
}

}  // namespace

template <>
Plan<KvAppendArgs> plan(Device device, const KvAppendArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  check_tables(args);
  const bool no_head = args.k.dim(1) == 0 || (args.k.dim(2) == 0 && args.v.dim(2) == 0);
  if (args.slots.dim(0) == 0 || no_head) return entry::empty_plan<KvAppendArgs>(device);
  return detail::choose<KvAppendArgs>(op, kImplementations, device, args, policy);
}

namespace ops {

const OperatorInfo kv_append_operator = {
    "kv_append",
    "kv_cache",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      KvAppendArgs args;
      args.key_cache = args.value_cache = dummy_view(info, DType::bf16, {4096, 8, 16, 128});
      args.k = args.v = dummy_view(info, DType::bf16, {64, 8, 128});
      args.slots = dummy_view(info, DType::i32, {64});
      return detail::explain<KvAppendArgs>(kImplementations, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<KvAppendArgs>(info, kv_append_reference_run, [](SelfTestCase& c) {
        KvAppendArgs args;
        args.k = c.random(DType::bf16, {6, 3, 40});
        args.v = c.random(DType::bf16, {6, 3, 24});
        args.key_cache = c.compared("key_cache", c.random(DType::f16, {4, 3, 5, 40}), 0.0);
        args.value_cache = c.compared("value_cache", c.random(DType::f16, {4, 3, 5, 24}), 0.0);
        args.slots = c.values(DType::i64, {19, 0, -1, 20, 7});
        args.status = c.compared("status", c.values(DType::i32, {0, 0, 0, 0, 0}), 0.0);
        return args;
      });
    },
};

}  // namespace ops

}  // namespace monotile
