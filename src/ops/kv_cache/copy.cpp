// Block copies, gathers and swaps: checks, oracles, catalogue entries.

#include <cmath>
#include <cstring>

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/reference.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const Implementation<CopyBlocksArgs>* kCopy[] = {&copy_blocks_portable, &copy_blocks_reference};
constexpr const Implementation<KvGatherArgs>* kGather[] = {&kv_gather_portable, &kv_gather_reference};

void check_plain(const char* op, const char* argument, const TensorView& view) {
  const DTypeInfo info = dtype_info(view.dtype);
  if (info.block_elements != 1 || info.block_bytes == 0)
    check::fail(op, argument, std::string("dtype ") + info.name, "a plain dtype");
}

void check_cache(const char* op, const char* argument, const TensorView& cache, Device device) {
  check::present(op, argument, cache, device);
  check::rank(op, argument, cache, 4, 4);
  check_plain(op, argument, cache);
  check::inner_stride(op, argument, cache);
  check::element_aligned(op, argument, cache);
  check::no_self_overlap(op, argument, cache);
}

void check_pairs(const char* op, const TensorView& pairs, Device device) {
  check::present(op, "pairs", pairs, device);
  check::rank(op, "pairs", pairs, 2, 2);
  check::dtype(op, "pairs", pairs, {DType::i32, DType::i64});
  check::extent(op, "pairs", pairs, 1, 2);
  check::element_aligned(op, "pairs", pairs);
  if (pairs.dim(0) > 0 && !pairs.contiguous()) check::fail(op, "pairs", to_string(pairs), "packed pairs");
}

void check_args(const CopyBlocksArgs& a, Device device) {
  constexpr const char* op = CopyBlocksArgs::op_name;
  check_cache(op, "key_cache", a.key_cache, device);
  if (a.value_cache.defined()) {
    check_cache(op, "value_cache", a.value_cache, device);
    for (int axis = 0; axis < 3; ++axis) check::extent(op, "value_cache", a.value_cache, axis, a.key_cache.dim(axis));
    check::disjoint(op, "value_cache", a.value_cache, "key_cache", a.key_cache);
  }
  check_pairs(op, a.pairs, device);
  check::disjoint(op, "pairs", a.pairs, "key_cache", a.key_cache);
  check::optional_status(op, a.status, a.pairs.dim(0), device,
                         {{"key_cache", a.key_cache}, {"value_cache", a.value_cache}, {"pairs", a.pairs}});
  if (!entry::host_readable(a.pairs) || a.status.defined()) return;
  for (int64_t i = 0; i < 2 * a.pairs.dim(0); ++i) {
    const int64_t block = reference::get_index(a.pairs, i);
    if (block >= 0 && block < a.key_cache.dim(0)) continue;
    check::fail(op, "pairs", "block " + std::to_string(block) + " in pair " + std::to_string(i / 2),
                "0 to " + std::to_string(a.key_cache.dim(0) - 1));
  }
}

void check_args(const KvGatherArgs& a, Device device) {
  constexpr const char* op = KvGatherArgs::op_name;
  // As an append the other way round; what is written here is read there, so overlaps are the same.
  check_kv_append(op, {a.key_cache, a.value_cache, a.k_out, a.v_out, a.slots, {}, a.key_scale, a.value_scale}, device);
  for (const auto& [name, out] : {std::pair<const char*, const TensorView*>{"k_out", &a.k_out}, {"v_out", &a.v_out}}) {
    check::no_self_overlap(op, name, *out);
    check::extent(op, name, *out, 0, a.slots.dim(0));
    if (out->dim(2) > 256)
      check::fail(op, name, "heads of " + std::to_string(out->dim(2)) + " elements", "at most 256");
    check::disjoint(op, name, *out, "slots", a.slots);
    check::disjoint(op, name, *out, "key_scale", a.key_scale);
    check::disjoint(op, name, *out, "value_scale", a.value_scale);
  }
  check::disjoint(op, "k_out", a.k_out, "v_out", a.v_out);
  check::optional_status(op, a.status, a.slots.dim(0), device,
                         {{"k_out", a.k_out}, {"v_out", a.v_out}, {"key_cache", a.key_cache}, {"value_cache", a.value_cache}, {"slots", a.slots}});
  if (!entry::host_readable(a.slots) || a.status.defined()) return;
  const int64_t count = a.key_cache.dim(0) * a.key_cache.dim(2);
  for (int64_t t = 0; t < a.slots.dim(0); ++t) {
    const int64_t slot = reference::get_index(a.slots, t * a.slots.step(0));
    if (slot >= count) {
      check::fail(op, "slots", "slot " + std::to_string(slot) + " of token " + std::to_string(t),
                  "below pages x page_size = " + std::to_string(count));
    }
  }
}

void gather_token(const TensorView& cache, const TensorView& scales, int64_t slot, const TensorView& out,
                  int64_t token) {
  const int64_t page_size = cache.dim(2), slots = cache.dim(0) * page_size;
  for (int64_t head = 0; head < out.dim(1); ++head) {
    for (int64_t i = 0; i < out.dim(2); ++i) {
      double value = 0;
      if (slot >= 0 && slot < slots) {
        const int64_t page = slot / page_size, in_page = slot % page_size;
        value = reference::get(cache, page * cache.step(0) + head * cache.step(1) + in_page * cache.step(2) + i);
        if (scales.rank == 1)
          value = static_cast<double>(
              static_cast<float>(value) *
              static_cast<float>(reference::get(scales, scales.dim(0) == 1 ? 0 : head * scales.step(0))));
        if (scales.rank == 3) {
          const double scale =
              reference::get(scales, page * scales.step(0) + head * scales.step(1) + in_page * scales.step(2));
          value = static_cast<double>(static_cast<float>(value) * static_cast<float>(scale));
        }
      }
      reference::set(out, token * out.step(0) + head * out.step(1) + i, value);
    }
  }
}

}  // namespace

namespace ops {

void copy_blocks_reference_run(const CopyBlocksArgs& a) {
  for (int64_t i = 0; i < a.pairs.dim(0); ++i) {
    const int64_t from = reference::get_index(a.pairs, 2 * i), to = reference::get_index(a.pairs, 2 * i + 1),
                  pages = a.key_cache.dim(0);
    if (from < 0 || from >= pages || to < 0 || to >= pages) {
      if (a.status.defined()) reference::set(a.status, i, 1);
      continue;
    }
    for (const TensorView* cache : {&a.key_cache, &a.value_cache}) {
      if (!cache->defined()) continue;
      const int64_t size = dtype_info(cache->dtype).block_bytes;
      for (int64_t head = 0; head < cache->dim(1); ++head) {
        for (int64_t token = 0; token < cache->dim(2); ++token) {
          const int64_t inner = head * cache->step(1) + token * cache->step(2);
          std::memcpy(cache->as<char>() + (to * cache->step(0) + inner) * size,
                      cache->as<char>() + (from * cache->step(0) + inner) * size,
                      static_cast<size_t>(cache->dim(3) * size));
        }
      }
    }
  }
}

void kv_gather_reference_run(const KvGatherArgs& a) {
  for (int64_t token = 0; token < a.slots.dim(0); ++token) {
    const int64_t slot = reference::get_index(a.slots, token * a.slots.step(0));
    if (slot >= a.key_cache.dim(0) * a.key_cache.dim(2) && a.status.defined()) reference::set(a.status, token, 1);
    gather_token(a.key_cache, a.key_scale, slot, a.k_out, token);
    gather_token(a.value_cache, a.value_scale, slot, a.v_out, token);
  }
}

constinit const Implementation<CopyBlocksArgs> copy_blocks_reference =
    reference::implementation<CopyBlocksArgs, copy_blocks_reference_run>("copy_blocks_reference");
constinit const Implementation<KvGatherArgs> kv_gather_reference =
    reference::implementation<KvGatherArgs, kv_gather_reference_run>("kv_gather_reference");

void swap_blocks(Context& context, const TensorView& to, const TensorView& from, const TensorView& pairs) {
  constexpr const char* op = "swap_blocks";
  check_cache(op, "to", to, to.device);
  check_cache(op, "from", from, from.device);
  check_pairs(op, pairs, Device{});
  check::same_dtype(op, "from", from, "to", to);
  for (int axis = 1; axis < 4; ++axis) check::extent(op, "from", from, axis, to.dim(axis));
  if (!(to.device == context.device()) && !(from.device == context.device())) {
    check::fail(op, "to", "memory on " + to_string(to.device) + " and " + to_string(from.device),
                "one of the two on " + to_string(context.device()));
  }
  for (const auto& [name, cache] : {std::pair<const char*, const TensorView*>{"to", &to}, {"from", &from}}) {
    TensorView block = *cache;
    block.extent[0] = 1;
    if (cache->dim(0) > 0 && !block.contiguous())
      check::fail(op, name, to_string(*cache), "blocks that are one piece of memory each");
  }
  const int64_t size = dtype_info(to.dtype).block_bytes, block = to.dim(1) * to.dim(2) * to.dim(3) * size;
  for (int64_t i = 0; i < pairs.dim(0); ++i) {
    const int64_t source = reference::get_index(pairs, 2 * i), target = reference::get_index(pairs, 2 * i + 1);
    if (source < 0 || source >= from.dim(0) || target < 0 || target >= to.dim(0)) {
      check::fail(op, "pairs",
                  "pair " + std::to_string(i) + ": " + std::to_string(source) + " to " + std::to_string(target),
                  "0 to " + std::to_string(from.dim(0) - 1) + ", and 0 to " + std::to_string(to.dim(0) - 1));
    }
  }
  if (block == 0) return;
  for (int64_t i = 0; i < pairs.dim(0); ++i) {
    char* const target = to.as<char>() + reference::get_index(pairs, 2 * i + 1) * to.step(0) * size;
    const char* const source = from.as<char>() + reference::get_index(pairs, 2 * i) * from.step(0) * size;
    const size_t bytes = static_cast<size_t>(block);
    if (!(to.device == context.device())) {
      copy_to_host(context.stream(), target, source, bytes);
    } else if (!(from.device == context.device())) {
      copy_to_device(context.stream(), target, source, bytes);
    } else {
      copy_on_device(context.stream(), target, source, bytes);
    }
  }
}

}  // namespace ops

template <>
Plan<CopyBlocksArgs> plan(Device device, const CopyBlocksArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.pairs.dim(0) == 0 || args.key_cache.dim(1) * args.key_cache.dim(2) == 0)
    return entry::empty_plan<CopyBlocksArgs>(device);
  return detail::choose<CopyBlocksArgs>(CopyBlocksArgs::op_name, kCopy, device, args, policy);
}

template <>
Plan<KvGatherArgs> plan(Device device, const KvGatherArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.slots.dim(0) == 0 || args.k_out.dim(1) == 0) return entry::empty_plan<KvGatherArgs>(device);
  return detail::choose<KvGatherArgs>(KvGatherArgs::op_name, kGather, device, args, policy);
}

namespace ops {

const OperatorInfo copy_blocks_operator = {
    "copy_blocks",
    "kv_cache",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const TensorView cache = dummy_view(info, DType::bf16, {4096, 8, 16, 128});
      return detail::explain<CopyBlocksArgs>(kCopy, info, {cache, cache, dummy_view(info, DType::i32, {64, 2}), {}},
                                             policy);
    },
    [](const DeviceInfo& info) {
      return self_test<CopyBlocksArgs>(info, copy_blocks_reference_run, [](SelfTestCase& c) {
        CopyBlocksArgs a;
        a.key_cache = c.compared("key_cache", c.random(DType::bf16, {6, 2, 3, 40}), 0.0);
        a.value_cache = c.compared("value_cache", c.random(DType::bf16, {6, 2, 3, 7}), 0.0);
        a.pairs = c.values(DType::i32, {0, 3, 5, 1, 9, 2}).reshape({3, 2});
        a.status = c.compared("status", c.values(DType::i32, {0, 0, 0}), 0.0);
        return a;
      });
    },
};

const OperatorInfo kv_gather_operator = {
    "kv_gather",
    "kv_cache",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const TensorView cache = dummy_view(info, DType::bf16, {4096, 8, 16, 128}),
                       out = dummy_view(info, DType::bf16, {64, 8, 128});
      return detail::explain<KvGatherArgs>(kGather, info, {out, out, cache, cache, dummy_view(info, DType::i32, {64})},
                                           policy);
    },
    [](const DeviceInfo& info) {
      return self_test<KvGatherArgs>(info, kv_gather_reference_run, [](SelfTestCase& c) {
        KvGatherArgs a;
        a.key_cache = c.random(DType::i8, {4, 2, 3, 40}, -100, 100);
        a.value_cache = c.random(DType::i8, {4, 2, 3, 9}, -100, 100);
        a.key_scale = c.random(DType::f32, {4, 2, 3});
        a.value_scale = c.random(DType::f32, {2});
        a.k_out = c.output("k_out", DType::f16, {4, 2, 40}, 0.0);
        a.v_out = c.output("v_out", DType::f16, {4, 2, 9}, 0.0);
        a.slots = c.values(DType::i64, {11, 0, -1, 12});
        a.status = c.compared("status", c.values(DType::i32, {0, 0, 0, 0}), 0.0);
        return a;
      });
    },
};

}  // namespace ops

}  // namespace monotile
