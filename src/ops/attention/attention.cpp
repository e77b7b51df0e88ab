#include "ops/attention/attention.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const char* op = AttentionArgs::op_name;

constexpr const Implementation<AttentionArgs>* kImplementations[] = {
    &attention_decode_tiles,
    &attention_portable,
    &attention_tiles,
    &attention_codes,
    &attention_widened,
    &attention_reference,
};

constexpr int64_t kLargestDim = 256;

/// The closed list of dtypes: q and out of one of f32, f16, bf16; both caches of one of these, or of codes.
void check_cache(const char* argument, const TensorView& view, int rank, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, rank, rank);
  check::dtype(op, argument, view, {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2, DType::i8});
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
}
void check_floats(const char* argument, const TensorView& view, int rank, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, rank, rank);
  check::dtype(op, argument, view, {DType::f32, DType::f16, DType::bf16});
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
}

void check_dim(const char* argument, const TensorView& view) {
  if (view.dim(-1) < 1 || view.dim(-1) > kLargestDim)
    check::fail(op, argument, "head dimension " + std::to_string(view.dim(-1)), "1 to 256");
}

void check_table(const char* argument, const TensorView& view, int64_t length, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 1, 1);
  check::dtype(op, argument, view, {DType::i32});
  check::extent(op, argument, view, 0, length);
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
}

/// What belongs to masks and scores: one table each.
void check_score_tables(const AttentionArgs& args, int64_t sequences, Device device) {
  const auto table = [&](const char* argument, const TensorView& view, DType dtype, int rank, int64_t first) {
    if (!view.defined()) return;
    check::present(op, argument, view, device);
    check::rank(op, argument, view, rank, rank);
    check::dtype(op, argument, view, {dtype});
    check::extent(op, argument, view, 0, first);
    check::inner_stride(op, argument, view);
    check::element_aligned(op, argument, view);
    check::disjoint(op, "out", args.out, argument, view);
    check::disjoint(op, "log_sum_exp", args.log_sum_exp, argument, view);
  };
  const int64_t heads = args.q.dim(1);
  table("prefix_length", args.prefix_length, DType::i32, 1, sequences);
  table("key_ranges", args.key_ranges, DType::i32, 3, sequences);
  table("alibi_slopes", args.alibi_slopes, DType::f32, 1, heads);
  table("relative_bias", args.relative_bias, DType::f32, 2, heads);
  table("sinks", args.sinks, DType::f32, 1, heads);
  const bool paged = args.block_table.defined();
  const int64_t capacity = paged ? args.block_table.dim(1) * args.key_cache.dim(2) : args.key_cache.dim(0);
  const int64_t most_keys = args.max_kv_length > 0 ? args.max_kv_length : capacity;
  if (args.key_ranges.defined()) {
    check::extent(op, "key_ranges", args.key_ranges, 2, 2);
    if (args.key_ranges.step(1) != 2)
      check::fail(op, "key_ranges", "stride " + std::to_string(args.key_ranges.step(1)) + " of positions", "2");
    if (args.key_ranges.dim(1) < most_keys)
      check::fail(op, "key_ranges", std::to_string(args.key_ranges.dim(1)) + " positions",
                  std::to_string(most_keys) + " or more (max_kv_length)");
  }
  if (args.relative_bias.defined() && args.relative_bias.dim(1) % 2 == 0)
    check::fail(op, "relative_bias", std::to_string(args.relative_bias.dim(1)) + " distances",
                "an odd number: from -r to r");
}

/// Drafted tokens: their mask, and what is not defined for them.
void check_tree(const AttentionArgs& args, Device device) {
  const TensorView& mask = args.tree_mask;
  if (!mask.defined()) return;
  check::present(op, "tree_mask", mask, device);
  check::rank(op, "tree_mask", mask, 2, 2);
  check::dtype(op, "tree_mask", mask, {DType::i32});
  check::extent(op, "tree_mask", mask, 0, args.q.dim(0));
  check::inner_stride(op, "tree_mask", mask);
  check::element_aligned(op, "tree_mask", mask);
  check::disjoint(op, "out", args.out, "tree_mask", mask);
  check::disjoint(op, "log_sum_exp", args.log_sum_exp, "tree_mask", mask);
  if (mask.dim(1) < (args.max_query + 31) / 32)
    check::fail(op, "tree_mask", std::to_string(mask.dim(1)) + " words for " + std::to_string(args.max_query) + " drafts",
                "a bit for each of max_query");
  const auto refuse = [](const char* argument, const TensorView& view) {
    if (view.defined()) check::fail(op, argument, "given together with tree_mask", "one of the two");
  };
  refuse("prefix_length", args.prefix_length);
  refuse("key_ranges", args.key_ranges);
  refuse("alibi_slopes", args.alibi_slopes);
  refuse("relative_bias", args.relative_bias);
  if (!args.causal) check::fail(op, "causal", "false together with tree_mask", "true");
  if (args.window > 0 && args.window < args.max_query)
    check::fail(op, "window", std::to_string(args.window) + " with tree_mask",
                "0 (off), or max_query = " + std::to_string(args.max_query) + " or more");
}

void check_coded_queries(const AttentionArgs& args, Device device) {
  check::present(op, "q", args.q, device);
  check::rank(op, "q", args.q, 3, 3);
  check::dtype(op, "q", args.q, {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3});
  check::inner_stride(op, "q", args.q);
  check::present(op, "key_cache", args.key_cache, device);
  check::same_dtype(op, "key_cache", args.key_cache, "q", args.q);
  check::present(op, "q_scale", args.q_scale, device);
  check::rank(op, "q_scale", args.q_scale, 1, 1);
  check::dtype(op, "q_scale", args.q_scale, {DType::f32});
  check::element_aligned(op, "q_scale", args.q_scale);
  if (args.q_scale.dim(0) != 1) check::extent(op, "q_scale", args.q_scale, 0, args.q.dim(1));
  check::disjoint(op, "out", args.out, "q_scale", args.q_scale);
  check::disjoint(op, "log_sum_exp", args.log_sum_exp, "q_scale", args.q_scale);
}

void check_args(const AttentionArgs& args, Device device) {
  const bool paged = args.block_table.defined();
  if (is_code(args.q.dtype)) {
    check_coded_queries(args, device);
  } else {
    check_floats("q", args.q, 3, device);
    if (args.q_scale.defined())
      check::fail(op, "q_scale", "a view", std::string("none with queries of ") + dtype_info(args.q.dtype).name);
  }
  check_dim("q", args.q);
  check_cache("key_cache", args.key_cache, paged ? 4 : 3, device);
  check_cache("value_cache", args.value_cache, paged ? 4 : 3, device);
  check::same_dtype(op, "value_cache", args.value_cache, "key_cache", args.key_cache);
  check::extent(op, "key_cache", args.key_cache, -1, args.q.dim(2));
  check_dim("value_cache", args.value_cache);
  for (int axis = 0; axis < args.key_cache.rank - 1; ++axis)
    check::extent(op, "value_cache", args.value_cache, axis, args.key_cache.dim(axis));
  const int64_t kv_heads = args.key_cache.dim(1);
  if (args.q.dim(1) > 0 && (kv_heads < 1 || args.q.dim(1) % kv_heads != 0)) {
    check::fail(op, "q", std::to_string(args.q.dim(1)) + " heads for " + std::to_string(kv_heads) + " kv_heads",
                "a multiple of kv_heads");
  }

  check_floats("out", args.out, 3, device);
  if (is_code(args.q.dtype)) {
    check::dtype(op, "out", args.out, {DType::f16, DType::bf16});
  } else {
    check::same_dtype(op, "out", args.out, "q", args.q);
  }
  check::extent(op, "out", args.out, 0, args.q.dim(0));
  check::extent(op, "out", args.out, 1, args.q.dim(1));
  check::extent(op, "out", args.out, 2, args.value_cache.dim(-1));
  check::no_self_overlap(op, "out", args.out);
  check::disjoint(op, "out", args.out, "q", args.q);
  check::disjoint(op, "out", args.out, "key_cache", args.key_cache);
  check::disjoint(op, "out", args.out, "value_cache", args.value_cache);

  check::present(op, "kv_length", args.kv_length, device);
  check::rank(op, "kv_length", args.kv_length, 1, 1);
  const int64_t sequences = args.kv_length.dim(0);
  check_table("kv_length", args.kv_length, sequences, device);
  check_table("q_start", args.q_start, sequences + 1, device);
  if (paged) {
    check::present(op, "block_table", args.block_table, device);
    check::rank(op, "block_table", args.block_table, 2, 2);
    check::dtype(op, "block_table", args.block_table, {DType::i32});
    check::extent(op, "block_table", args.block_table, 0, sequences);
    check::inner_stride(op, "block_table", args.block_table);
    check::element_aligned(op, "block_table", args.block_table);
    if (args.key_cache.dim(2) < 1)
      check::fail(op, "key_cache", "page_size " + std::to_string(args.key_cache.dim(2)), "1 or more");
    if (args.kv_start.defined()) check::fail(op, "kv_start", "given together with block_table", "one of the two");
  } else {
    check_table("kv_start", args.kv_start, sequences, device);
  }
  if (args.log_sum_exp.defined()) {
    check::present(op, "log_sum_exp", args.log_sum_exp, device);
    check::rank(op, "log_sum_exp", args.log_sum_exp, 2, 2);
    check::dtype(op, "log_sum_exp", args.log_sum_exp, {DType::f32});
    check::extent(op, "log_sum_exp", args.log_sum_exp, 0, args.q.dim(0));
    check::extent(op, "log_sum_exp", args.log_sum_exp, 1, args.q.dim(1));
    check::inner_stride(op, "log_sum_exp", args.log_sum_exp);
    check::element_aligned(op, "log_sum_exp", args.log_sum_exp);
    check::no_self_overlap(op, "log_sum_exp", args.log_sum_exp);
    check::disjoint(op, "log_sum_exp", args.log_sum_exp, "out", args.out);
    check::disjoint(op, "log_sum_exp", args.log_sum_exp, "q", args.q);
  }
  for (const auto& [name, scale, cache] :
       {std::tuple<const char*, const TensorView*, const TensorView*>{"key_scale", &args.key_scale, &args.key_cache},
        {"value_scale", &args.value_scale, &args.value_cache}}) {
    if (!paged && scale->rank > 1) check::rank(op, name, *scale, 1, 1);
    check_cache_scale(op, name, *scale, *cache, device);
    check::disjoint(op, "out", args.out, name, *scale);
    check::disjoint(op, "log_sum_exp", args.log_sum_exp, name, *scale);
  }
  check_score_tables(args, sequences, device);
  check_tree(args, device);
  check::optional_status(op, args.status, sequences, device,
                         {{"out", args.out}, {"q", args.q}, {"key_cache", args.key_cache}, {"value_cache", args.value_cache}, {"block_table", args.block_table},
                          {"kv_start", args.kv_start}, {"q_start", args.q_start}, {"kv_length", args.kv_length}, {"log_sum_exp", args.log_sum_exp}});
  for (const check::Named& table : {check::Named{"block_table", args.block_table}, check::Named{"kv_start", args.kv_start},
                                    check::Named{"q_start", args.q_start}, check::Named{"kv_length", args.kv_length}}) {
    check::disjoint(op, "out", args.out, table.name, table.view);
    check::disjoint(op, "log_sum_exp", args.log_sum_exp, table.name, table.view);
  }

  if (!(args.scale - args.scale == 0.0f))
    check::fail(op, "scale", std::to_string(args.scale), "a finite number; 0 means 1 / sqrt(dim_qk)");
  if (!(args.softcap >= 0.0f) || !(args.softcap - args.softcap == 0.0f))
    check::fail(op, "softcap", std::to_string(args.softcap), "finite, 0 (off) or more");
  if (args.window < 0) check::fail(op, "window", std::to_string(args.window), "0 (off) or more");
  if (args.max_query < 1) check::fail(op, "max_query", std::to_string(args.max_query), "1 or more");
  const int64_t capacity = paged ? args.block_table.dim(1) * args.key_cache.dim(2) : args.key_cache.dim(0);
  if (args.max_kv_length < 0 || args.max_kv_length > capacity) {
    check::fail(op, "max_kv_length", std::to_string(args.max_kv_length),
                "0 to " + std::to_string(capacity) +
                    (paged ? " (columns of block_table x page_size)" : " (rows of key_cache)"));
  }
}

std::string of_sequence(const char* what, int64_t value, int64_t sequence) {
  return std::string(what) + " " + std::to_string(value) + " of sequence " + std::to_string(sequence);
}

void check_pages(const AttentionArgs& args, int64_t s, int64_t queries, int64_t length) {
  const int64_t page_size = args.key_cache.dim(2), pages = args.key_cache.dim(0);
  // The first query sees the earliest keys; pages that lie wholly before its window may already have been given away.
  const int64_t earliest = args.causal ? length - queries : length - 1;
  const int64_t first =
      args.window > 0 && !args.prefix_length.defined() ? std::max<int64_t>(0, earliest - args.window + 1) : 0;
  for (int64_t column = first / page_size; column * page_size < length; ++column) {
    const int64_t page = reference::get_index(args.block_table, s * args.block_table.step(0) + column);
    if (page >= 0 && page < pages) continue;
    check::fail(op, "block_table", of_sequence("page", page, s) + ", column " + std::to_string(column),
                "0 to " + std::to_string(pages - 1));
  }
}

/// Tables that the host can see: lengths against capacity, query ranges, and the pages that will be read.
void check_tables(const AttentionArgs& args) {
  if (!entry::host_readable(args.kv_length) || !entry::host_readable(args.q_start)) return;
  const bool paged = args.block_table.defined();
  const int64_t capacity = paged ? args.block_table.dim(1) * args.key_cache.dim(2) : args.key_cache.dim(0);
  const int64_t most_keys = args.max_kv_length > 0 ? args.max_kv_length : capacity;
  for (int64_t s = 0; s < args.kv_length.dim(0); ++s) {
    const int64_t begin = reference::get_index(args.q_start, s), end = reference::get_index(args.q_start, s + 1);
    if (begin < 0 || end < begin || end > args.q.dim(0)) {
      check::fail(op, "q_start", of_sequence("range", begin, s) + " to " + std::to_string(end),
                  "ascending, within the " + std::to_string(args.q.dim(0)) + " tokens of q");
    }
    if (end - begin > args.max_query) {
      check::fail(op, "q_start", of_sequence("query count", end - begin, s),
                  "at most max_query = " + std::to_string(args.max_query));
    }
    const int64_t length = reference::get_index(args.kv_length, s);
    if (length < 0 || length > most_keys) {
      check::fail(op, "kv_length", of_sequence("length", length, s), "0 to " + std::to_string(most_keys));
    }
    if (args.tree_mask.defined() && length < end - begin) {
      check::fail(op, "kv_length", of_sequence("length", length, s),
                  "the " + std::to_string(end - begin) + " drafts of tree_mask or more");
    }
    if (end == begin || args.status.defined()) continue;
    if (paged) {
      check_pages(args, s, end - begin, length);
    } else if (entry::host_readable(args.kv_start)) {
      const int64_t start = reference::get_index(args.kv_start, s);
      if (start < 0 || start > capacity - length) {
        check::fail(op, "kv_start", of_sequence("first row", start, s) + " with " + std::to_string(length) + " keys",
                    "within the " + std::to_string(capacity) + " rows of key_cache");
      }
    }
  }
}

AttentionArgs typical(const DeviceInfo& info, int64_t tokens, int64_t max_query) {
  AttentionArgs args;
  const int64_t sequences = tokens / max_query;
  args.q = args.out = dummy_view(info, DType::bf16, {tokens, 32, 128});
  args.key_cache = args.value_cache = dummy_view(info, DType::bf16, {4096, 8, 16, 128});
  args.block_table = dummy_view(info, DType::i32, {sequences, 256});
  args.q_start = dummy_view(info, DType::i32, {sequences + 1});
  args.kv_length = dummy_view(info, DType::i32, {sequences});
  args.max_query = max_query;
  return args;
}

/// Three sequences of which the last has no queries, pages of 8, four heads on two, a window, a soft-cap.
AttentionArgs small_case(SelfTestCase& c, bool decode) {
  AttentionArgs args;
  const int64_t tokens = decode ? 2 : 11;
  args.q = c.random(DType::bf16, {tokens, 4, 64});
  args.key_cache = c.random(DType::bf16, {9, 2, 8, 64});
  args.value_cache = c.random(DType::bf16, {9, 2, 8, 32});
  args.out = c.output("out", DType::bf16, {tokens, 4, 32}, 1e-2);
  args.log_sum_exp = c.output("log_sum_exp", DType::f32, {tokens, 4}, 1e-4);
  const TensorView pages = c.values(DType::i32, {3, 8, 1, -5, 0, 2, 5, 4, 7, 7, 7, 7});
  args.block_table = pages.reshape({3, 4});
  args.q_start = decode ? c.values(DType::i32, {0, 1, 2, 2}) : c.values(DType::i32, {0, 4, 11, 11});
  args.kv_length = c.values(DType::i32, {19, 30, 3});
  args.max_query = decode ? 1 : 7;
  args.window = 13;
  args.softcap = 2.0f;
  return args;
}

/// The small case as drafts: a chain of four, and a tree of seven.
AttentionArgs small_tree(SelfTestCase& c) {
  AttentionArgs args = small_case(c, false);
  args.tree_mask = c.values(DType::i32, {0, 1, 3, 7, 0, 1, 1, 3, 3, 5, 0}).reshape({11, 1});
  return args;
}

template <bool kDecode>
std::string test_attention(const DeviceInfo& info) {
  return self_test<AttentionArgs>(info, attention_reference_run,
                                  [](SelfTestCase& c) { return small_case(c, kDecode); });
}

std::string test_verify(const DeviceInfo& info) {
  return self_test<AttentionArgs>(info, attention_reference_run, [](SelfTestCase& c) { return small_tree(c); });
}

}  // namespace

template <>
Plan<AttentionArgs> plan(Device device, const AttentionArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  check_tables(args);
  if (args.out.size() == 0 || args.kv_length.dim(0) == 0) return entry::empty_plan<AttentionArgs>(device);
  return detail::choose<AttentionArgs>(op, kImplementations, device, args, policy);
}

namespace ops {

const OperatorInfo attention_prefill_operator = {
    "attention_prefill",
    "attention",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      return detail::explain<AttentionArgs>(kImplementations, info, typical(info, 2048, 2048), policy);
    },
    test_attention<false>,
};
const OperatorInfo attention_decode_operator = {
    "attention_decode",
    "attention",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      return detail::explain<AttentionArgs>(kImplementations, info, typical(info, 16, 1), policy);
    },
    test_attention<true>,
};
const OperatorInfo attention_verify_operator = {
    "attention_verify",
    "attention",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      AttentionArgs args = typical(info, 128, 32);
      args.tree_mask = dummy_view(info, DType::i32, {128, 1});
      return detail::explain<AttentionArgs>(kImplementations, info, args, policy);
    },
    test_verify,
};

void attention_verify(Context& context, const AttentionArgs& args) {
  if (!args.tree_mask.defined()) check::fail("attention_verify", "tree_mask", "not given", "i32 [tokens, words]");
  run(context, args);
}

void tree_mask_of_parents(std::span<const int32_t> parents, int64_t words, int32_t* rows) {
  constexpr const char* call = "tree_mask_of_parents";
  const auto count = static_cast<int64_t>(parents.size());
  if (count > 32 * words)
    check::fail(call, "words", std::to_string(words) + " for " + std::to_string(count) + " drafts", "a bit for each draft");
  for (int64_t i = 0; i < count; ++i) {
    const int64_t parent = parents[static_cast<size_t>(i)];
    if (parent < -1 || parent >= i)
      check::fail(call, "parents", std::to_string(parent) + " of draft " + std::to_string(i),
                  "-1, or a draft before it");
    int32_t* const row = rows + i * words;
    for (int64_t w = 0; w < words; ++w) row[w] = parent < 0 ? 0 : rows[parent * words + w];
    if (parent >= 0) row[parent / 32] = static_cast<int32_t>(static_cast<uint32_t>(row[parent / 32]) | 1u << parent % 32);
  }
}

}  // namespace ops

}  // namespace monotile
