#pragma once
// Calls of attention with everything that its arguments can say, for the tests of its kernels.

#include <algorithm>
#include <numeric>
#include <random>

#include "ops/attention/attention.hpp"
#include "tests/ops/test_util.hpp"

namespace monotile::test {

using ops::AttentionArgs;

struct Case {
  DType dtype = DType::bf16, cache = DType::none;  ///< of queries and results; cache: none is the dtype of the queries
  bool coded_queries = false;                      ///< of the cache's dtype
  int64_t heads = 2, kv_heads = 1, dim_qk = 64, dim_v = 64;
  std::vector<int64_t> queries{70}, lengths{70};
  int64_t page_size = 0;      ///< 0: dense
  bool tokens_first = false;  ///< pages [token, kv head, dim] instead of [kv head, token, dim]
  int64_t window = 0;
  float softcap = 0.0f, scale = 0.0f;
  bool causal = true;
  int64_t prefix = -1;   ///< of every sequence
  int64_t document = 0;  ///< length of each document
  bool alibi = false, sinks = false;
  int64_t radius = -1;     ///< of a relative bias
  int64_t tree_words = 0;  ///< > 0: queries are drafted tokens of random trees, with so many words of ancestors each
  Placement placement{};
  /// Of a cache of codes: scales [1], [kv_heads] or, paged, one for each head vector.
  enum Scales { one, per_head, per_vector } scales = one;
};

/// The tensors of a call. Slots of pages that hold no key stay NaN.
struct Problem {
  Case c;
  TestTensor q, keys, values, table, kv_start, q_start, kv_length, out, lse, prefix, ranges, slopes, bias, sinks, tree,
      key_scale, value_scale, q_scale;

  explicit Problem(const Case& wanted, uint64_t seed) : c(wanted) {
    if (c.cache == DType::none) c.cache = c.dtype;
    const auto sequences = static_cast<int64_t>(c.queries.size());
    const int64_t tokens = std::accumulate(c.queries.begin(), c.queries.end(), int64_t{0});
    const int64_t longest = *std::max_element(c.lengths.begin(), c.lengths.end());
    const double most = c.coded_queries ? 200 : 2;
    q = TestTensor::random(c.coded_queries ? c.cache : c.dtype, {tokens, c.heads, c.dim_qk}, seed, c.placement, -most, most);
    if (c.coded_queries)
      q_scale = TestTensor::random(DType::f32, {c.scales == Case::one ? 1 : c.heads}, seed + 10, {}, 0.005, 0.015);
    out = TestTensor(c.dtype, {tokens, c.heads, c.dim_v}, c.placement);
    lse = TestTensor(DType::f32, {tokens, c.heads});
    q_start = TestTensor(DType::i32, {sequences + 1});
    kv_length = TestTensor(DType::i32, {sequences});
    int64_t start = 0;
    for (int64_t s = 0; s < sequences; ++s) {
      q_start.set_integer(s, start);
      start += c.queries[static_cast<size_t>(s)];
      kv_length.set_integer(s, c.lengths[static_cast<size_t>(s)]);
    }
    q_start.set_integer(sequences, start);
    if (is_code(c.cache) && c.scales != Case::per_vector) {
      const int64_t n = c.scales == Case::one ? 1 : c.kv_heads;
      key_scale = TestTensor::random(DType::f32, {n}, seed + 8, {}, 0.01, 0.03);
      value_scale = TestTensor::random(DType::f32, {n}, seed + 9, {}, 0.01, 0.03);
    }
    if (c.page_size > 0) {
      fill_pages(seed, sequences, longest);
    } else {
      const int64_t rows = std::accumulate(c.lengths.begin(), c.lengths.end(), int64_t{0}) + 1;
      const double more = is_code(c.cache) ? 60 : 1;
      keys = TestTensor::random(c.cache, {rows, c.kv_heads, c.dim_qk}, seed + 2, c.placement, -1.5 * more, 1.5 * more);
      values = TestTensor::random(c.cache, {rows, c.kv_heads, c.dim_v}, seed + 3, c.placement, -more, more);
      kv_start = TestTensor(DType::i32, {sequences});
      int64_t first = 0;
      for (int64_t s = 0; s < sequences; ++s) {
        kv_start.set_integer(s, first);
        first += c.lengths[static_cast<size_t>(s)];
      }
    }
    if (c.prefix >= 0) {
      prefix = TestTensor(DType::i32, {sequences});
      for (int64_t s = 0; s < sequences; ++s) prefix.set_integer(s, c.prefix);
    }
    if (c.document > 0) {
      const int64_t positions = longest + 3;
      ranges = TestTensor(DType::i32, {sequences, positions, 2});
      for (int64_t i = 0; i < sequences * positions; ++i) {
        const int64_t first = i % positions / c.document * c.document;
        ranges.set_integer(2 * i, first);
        ranges.set_integer(2 * i + 1, first + c.document);
      }
    }
    if (c.alibi) slopes = TestTensor::random(DType::f32, {c.heads}, seed + 5, {}, 0.01, 0.2);
    if (c.radius >= 0) bias = TestTensor::random(DType::f32, {c.heads, 2 * c.radius + 1}, seed + 6, {}, -2, 2);
    if (c.sinks) sinks = TestTensor::random(DType::f32, {c.heads}, seed + 7, {}, -1, 2);
    if (c.tree_words > 0) grow_trees(seed, tokens);
  }
  /// Bits that count for nothing are set at random: of the token itself, and of drafts that do not exist.
  void grow_trees(uint64_t seed, int64_t tokens) {
    tree = TestTensor(DType::i32, {tokens, c.tree_words});
    std::mt19937 random(static_cast<uint32_t>(seed));
    int64_t token = 0;
    for (const int64_t drafts : c.queries) {
      std::vector<int32_t> parents, rows(static_cast<size_t>(drafts * c.tree_words));
      for (int64_t i = 0; i < drafts; ++i)  // often the last one: deep trees
        parents.push_back(
            static_cast<int32_t>(random() % 3 != 0 ? i - 1 : static_cast<int64_t>(random() % (i + 1)) - 1));
      ops::tree_mask_of_parents(parents, c.tree_words, rows.data());
      for (int64_t i = 0; i < drafts; ++i, ++token) {
        for (int64_t w = 0; w < c.tree_words; ++w) {
          auto word = static_cast<uint32_t>(rows[static_cast<size_t>(i * c.tree_words + w)]);
          for (int64_t bit = 0; bit < 32; ++bit) {
            if (32 * w + bit == i || 32 * w + bit >= drafts) word |= static_cast<uint32_t>(random() & 1) << bit;
          }
          tree.set_integer(token * c.tree_words + w, static_cast<int32_t>(word));
        }
      }
    }
  }
  void fill_pages(uint64_t seed, int64_t sequences, int64_t longest) {
    const int64_t columns = (longest + c.page_size - 1) / c.page_size + 1, pages = columns * sequences + 3;
    const int64_t outer = c.tokens_first ? c.page_size : c.kv_heads, inner = c.tokens_first ? c.kv_heads : c.page_size;
    keys = TestTensor(c.cache, {pages, outer, inner, c.dim_qk}, c.placement);
    values = TestTensor(c.cache, {pages, outer, inner, c.dim_v}, c.placement);
    const bool codes = is_code(c.cache), scaled = codes && c.scales == Case::per_vector;
    if (scaled) {
      key_scale = TestTensor(DType::f32, {pages, c.kv_heads, c.page_size}, {.padding = {3, 1}});
      value_scale = TestTensor(DType::f32, {pages, c.kv_heads, c.page_size});
    }
    table = TestTensor(DType::i32, {sequences, columns});
    const TestTensor some = TestTensor::random(DType::f32, {4096}, seed + 4, {}, -1.5, 1.5);
    int64_t next = pages - 1, turn = 0;  // pages in falling order
    for (int64_t s = 0; s < sequences; ++s) {
      const int64_t length = c.lengths[static_cast<size_t>(s)];
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t first = column * c.page_size;
        table.set_integer(s * columns + column, first < length ? next : -7);
        if (first >= length) continue;
        for (int64_t h = 0; h < c.kv_heads; ++h) {
          for (int64_t i = 0; i < std::min(c.page_size, length - first); ++i) {
            const int64_t row =
                next * c.kv_heads * c.page_size + (c.tokens_first ? i * c.kv_heads + h : h * c.page_size + i);
            const double more = codes ? 60 : 1;
            for (int64_t d = 0; d < c.dim_qk; ++d) keys.set(row * c.dim_qk + d, more * some.get(turn++ * 7 % 4093));
            for (int64_t d = 0; d < c.dim_v; ++d) values.set(row * c.dim_v + d, more * some.get(turn++ * 5 % 4091));
            if (!scaled) continue;
            const int64_t vector = (next * c.kv_heads + h) * c.page_size + i;
            key_scale.set(vector, 0.02 + 0.01 * some.get(turn++ % 4093));
            value_scale.set(vector, 0.02 + 0.01 * some.get(turn++ % 4093));
          }
        }
        --next;
      }
    }
  }
  AttentionArgs args(const At& at) {
    AttentionArgs a{.out = at(out), .q = at(q), .key_cache = at(keys), .value_cache = at(values)};
    if (c.page_size > 0) {
      a.block_table = at(table);
      if (c.tokens_first) {
        for (TensorView* t : {&a.key_cache, &a.value_cache}) {
          std::swap(t->extent[1], t->extent[2]);
          std::swap(t->stride[1], t->stride[2]);
        }
      }
    } else {
      a.kv_start = at(kv_start);
    }
    a.q_start = at(q_start);
    a.kv_length = at(kv_length);
    a.log_sum_exp = at(lse);
    a.scale = c.scale;
    a.softcap = c.softcap;
    a.window = c.window;
    a.causal = c.causal;
    if (c.prefix >= 0) a.prefix_length = at(prefix);
    if (c.document > 0) a.key_ranges = at(ranges);
    if (c.alibi) a.alibi_slopes = at(slopes);
    if (c.radius >= 0) a.relative_bias = at(bias);
    if (c.sinks) a.sinks = at(sinks);
    if (c.tree_words > 0) a.tree_mask = at(tree);
    if (is_code(c.cache)) {
      if (c.coded_queries) a.q_scale = at(q_scale);
      a.key_scale = at(key_scale);
      a.value_scale = at(value_scale);
    }
    a.max_query = std::max<int64_t>(1, *std::max_element(c.queries.begin(), c.queries.end()));
    a.max_kv_length = *std::max_element(c.lengths.begin(), c.lengths.end());
    return a;
  }
};

/// Bounds of the error: norm of the difference over norm of the result.
inline double bound(DType dtype) { return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 1e-3 : 5e-3; }

/// What `launch` leaves in the problem's outputs, against the fp64 oracle.
template <class Launch>
void check_problem(Problem& p, double lse_error, Launch launch, double out_error = 0) {
  SCOPED_TRACE(testing::Message() << dtype_info(p.c.dtype).name << "/" << dtype_info(p.c.cache).name << " heads "
                                  << p.c.heads << "/" << p.c.kv_heads << " dims " << p.c.dim_qk << "/" << p.c.dim_v
                                  << " page " << p.c.page_size << (p.c.tokens_first ? " tokens first" : "")
                                  << " window " << p.c.window << " causal " << p.c.causal << " sequences "
                                  << p.c.queries.size() << " first " << p.c.queries[0] << "x" << p.c.lengths[0]);
  run_reference<AttentionArgs>(ops::attention_reference_run, [&](const At& at) { return p.args(at); });
  const TestTensor wanted = p.out, wanted_lse = p.lse;
  p.out.poison();
  p.lse.poison();
  launch();
  EXPECT_LE(relative_norm(p.out, wanted), out_error > 0 ? out_error : bound(p.c.dtype));
  EXPECT_TRUE(p.out.guards_intact());
  EXPECT_TRUE(is_near(p.lse, wanted_lse, {.relative = lse_error, .absolute = lse_error}));
}

/// Runs one implementation, whatever the dispatcher would choose.
inline void run_by(const Implementation<AttentionArgs>& implementation, const AttentionArgs& args, Stream& stream) {
  const Device device = args.q.device;
  const char* why_not = implementation.supports(args, device_info(device));
  ASSERT_EQ(why_not, nullptr) << why_not;
  run_plan(plan_of(implementation, args, device), stream, args);
}
inline void check_by(const Implementation<AttentionArgs>& implementation, Device device, const Case& c, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Problem p(c, seed);
  check_problem(p, 1e-3, [&] {
    Stream stream(device);
    run_by(implementation, p.args([&](TestTensor& t) { return t.on(stream); }), stream);
    p.out.fetch(stream);
    p.lse.fetch(stream);
  });
}

}  // namespace monotile::test
