// Attention of drafted tokens, trees of them, against the fp64 oracle and against the plain kernel on each path of a tree: by matrix tiles, where
// a target has them, and by the kernel of rows.

#include <array>
#include <cmath>
#include <random>

#include "ops/attention/attention.hpp"
#include "tests/ops/attention_cases.hpp"

namespace monotile {
namespace {

using namespace test;  // NOLINT

using Kernel = const Implementation<AttentionArgs>*;

class Verify : public OnDevice {
 protected:
  bool has_tiles() const { return device().kind != DeviceKind::opencl; }
  std::vector<Kernel> kernels() const {
    if (!has_tiles()) return {&ops::attention_portable};
    return {&ops::attention_tiles, &ops::attention_portable};
  }
  /// Do the tiles take these dtypes and dimensions here?
  bool tiles_take(const Case& c) const {
    if (!has_tiles()) return false;
    if (device().kind == DeviceKind::cpu) return true;
    if (c.dtype == DType::f32 || c.cache != DType::none) return false;
    return device().kind != DeviceKind::cuda || c.dtype != DType::f16 ||
           c.dim_qk <= 128;  // not built there: see register_prefill.hpp
  }
  void check(Case c, uint64_t seed) const {
    if (c.tree_words == 0) c.tree_words = 1;
    if (tiles_take(c)) check_by(ops::attention_tiles, device(), c, seed);
    check_by(ops::attention_portable, device(), c, seed);
  }
};
MONOTILE_ON_DEVICES(Verify);

TEST_P(Verify, TreesAgainstPrefixes) {
  uint64_t seed = 1;
  for (const int64_t page : {0, 1, 16, 64}) {
    check({.heads = 4, .kv_heads = 2, .queries = {9, 1, 0, 32}, .lengths = {150, 1, 4, 32}, .page_size = page}, seed++);
    check({.queries = {7, 20}, .lengths = {70, 84}, .page_size = page, .tokens_first = page > 0}, seed++);
  }
  check({.queries = {33}, .lengths = {129}, .page_size = 16, .tree_words = 2}, seed++);
  check({.heads = 6, .kv_heads = 2, .queries = {64, 40}, .lengths = {64, 200}, .page_size = 16, .tree_words = 2},
        seed++);
  check({.queries = {150, 3}, .lengths = {290, 9}, .page_size = 16, .tree_words = 5}, seed++);
  check({.queries = {12}, .lengths = {40}, .tree_words = 7}, seed++);  // more words than are wanted
}

TEST_P(Verify, PagesOfEverySize) {
  uint64_t seed = 30;
  for (const int64_t page : {1, 2, 3, 7, 8, 32, 100, 128})
    check({.queries = {5, 13}, .lengths = {131, 13}, .page_size = page, .tokens_first = page % 2 != 0}, seed++);
}

// From one draft to a few more than a word has bits; sequences without drafts, some of them without keys.
TEST_P(Verify, AnyNumberOfDrafts) {
  uint64_t seed = 200;
  for (const int64_t drafts : {1, 2, 3, 5, 17, 31, 32, 33, 63, 65}) {
    const int64_t words = (drafts + 31) / 32;
    check({.queries = {drafts}, .lengths = {drafts}, .page_size = 8, .tree_words = words}, seed++);
    check({.queries = {drafts, 0, 1}, .lengths = {drafts + 50, 0, 9}, .tree_words = words}, seed++);
  }
  check({.queries = {0, 3, 0}, .lengths = {0, 20, 7}, .page_size = 16}, seed++);
  Problem none({.queries = {0, 0}, .lengths = {5, 0}, .page_size = 16, .tree_words = 1}, seed);
  Context context(device());
  ops::attention_verify(context, none.args([&](TestTensor& t) { return t.on(context.stream()); }));
  EXPECT_TRUE(none.out.guards_intact());
}

// Without ancestors and without tokens before them, drafts see themselves alone: each gives its own value.
TEST_P(Verify, ADraftThatSeesOnlyItself) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Case c{
        .dtype = dtype, .heads = 4, .kv_heads = 2, .queries = {7, 1, 40}, .lengths = {7, 1, 40}, .tree_words = 2};
    for (Kernel kernel : kernels()) {
      if (kernel == &ops::attention_tiles && !tiles_take(c)) continue;
      Problem p(c, 11);
      for (int64_t i = 0; i < p.tree.size(); ++i) p.tree.set_integer(i, 0);
      Stream stream(device());
      run_by(*kernel, p.args([&](TestTensor& t) { return t.on(stream); }), stream);
      p.out.fetch(stream);
      for (int64_t token = 0; token < 48; ++token) {
        for (int64_t i = 0; i < 4 * 64; ++i) {
          const int64_t kv_head = i / 64 / 2;
          const double own = p.values.get((token * 2 + kv_head) * 64 + i % 64);  // a bit of 16 is a thousandth
          ASSERT_NEAR(p.out.get(token * 256 + i), own, 1e-6 * std::abs(own))
              << kernel->name << ", draft " << token << ", " << i;
        }
      }
    }
  }
}

TEST_P(Verify, HeadDimsAndDtypes) {
  uint64_t seed = 50;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const int64_t dim : {1, 64, 80, 96, 128, 192, 256})
      check({.dtype = dtype, .dim_qk = dim, .dim_v = dim, .queries = {11}, .lengths = {90}, .page_size = 16}, seed++);
  }
  check({.dim_qk = 96, .dim_v = 40, .queries = {11}, .lengths = {90}}, seed++);
  check({.dtype = DType::f32, .dim_qk = 64, .dim_v = 200, .queries = {11}, .lengths = {90}, .page_size = 16}, seed++);
  for (const DType cache : {DType::f16, DType::bf16})
    check({.dtype = DType::f32, .cache = cache, .queries = {11}, .lengths = {90}, .page_size = 16}, seed++);
  for (const DType cache : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      check({.dtype = dtype,
             .cache = cache,
             .heads = 4,
             .kv_heads = 2,
             .queries = {11},
             .lengths = {90},
             .page_size = 16,
             .scales = Case::per_vector},
            seed++);
  }
}

TEST_P(Verify, ScoresAndUnalignedRows) {
  uint64_t seed = 90;
  check({.heads = 4, .queries = {11}, .lengths = {90}, .page_size = 16, .softcap = 2.5f, .sinks = true}, seed++);
  check({.queries = {11}, .lengths = {90}, .scale = -0.2f}, seed++);
  check({.dim_qk = 37, .dim_v = 51, .queries = {20}, .lengths = {90}, .placement = {.padding = {5, 3}}}, seed++);
  check({.dtype = DType::f32,
         .heads = 4,
         .queries = {11},
         .lengths = {11},
         .softcap = 2.5f,
         .sinks = true,
         .placement = {.padding = {3, 1}, .offset = 1}},
        seed++);
}

// A window counts positions, which follow from the depth of a draft, not from its number.
TEST_P(Verify, Windows) {
  uint64_t seed = 100;
  for (const int64_t window : {20, 21, 64, 130, 1000})
    check({.queries = {20, 6}, .lengths = {170, 30}, .page_size = 16, .window = window}, seed++);
  check({.queries = {40}, .lengths = {170}, .window = 40, .tree_words = 2}, seed++);
}

// Each path of a tree, run as a sequence of its own with the causal mask, gives what its leaf gives in the tree.
void check_paths(const Implementation<AttentionArgs>& kernel, Device device) {
  const int64_t prefix = 37, dim = 64;
  const std::vector<int32_t> parents{-1, 0, 0, 1, 2, -1, 4, 6, 5};
  const auto drafts = static_cast<int64_t>(parents.size());
  Problem tree({.heads = 1, .kv_heads = 1, .queries = {drafts}, .lengths = {prefix + drafts}, .tree_words = 1}, 7);
  std::vector<int32_t> rows(parents.size());
  ops::tree_mask_of_parents(parents, 1, rows.data());
  for (int64_t i = 0; i < drafts; ++i) tree.tree.set_integer(i, rows[static_cast<size_t>(i)]);
  Stream stream(device);
  run_by(kernel, tree.args([&](TestTensor& t) { return t.on(stream); }), stream);
  tree.out.fetch(stream);
  for (int64_t leaf = 0; leaf < drafts; ++leaf) {
    std::vector<int64_t> path;
    for (auto i = static_cast<int32_t>(leaf); i >= 0; i = parents[static_cast<size_t>(i)]) path.insert(path.begin(), i);
    const auto depth = static_cast<int64_t>(path.size());
    Problem chain({.heads = 1, .kv_heads = 1, .queries = {depth}, .lengths = {prefix + depth}}, 8);
    const auto copy_row = [&](TestTensor& to, int64_t row, const TestTensor& from, int64_t other) {
      for (int64_t d = 0; d < dim; ++d) to.set(row * dim + d, from.get(other * dim + d));
    };
    for (int64_t i = 0; i < prefix + depth; ++i) {
      const int64_t from = i < prefix ? i : prefix + path[static_cast<size_t>(i - prefix)];
      copy_row(chain.keys, i, tree.keys, from);
      copy_row(chain.values, i, tree.values, from);
      if (i >= prefix) copy_row(chain.q, i - prefix, tree.q, from - prefix);
    }
    run_by(kernel, chain.args([&](TestTensor& t) { return t.on(stream); }), stream);
    chain.out.fetch(stream);
    for (int64_t d = 0; d < dim; ++d)
      EXPECT_NEAR(chain.out.get((depth - 1) * dim + d), tree.out.get(leaf * dim + d), 0.02) << "leaf " << leaf;
  }
}
TEST_P(Verify, AnyPathIsACausalSequence) {
  for (Kernel kernel : kernels()) {
    SCOPED_TRACE(kernel->name);
    check_paths(*kernel, device());
  }
}

// A draft that is not an ancestor may be anything: its value reaches nobody else.
TEST_P(Verify, OtherBranchesDoNotLeak) {
  Problem p({.heads = 2, .kv_heads = 1, .queries = {6}, .lengths = {70}, .tree_words = 1}, 9);
  std::vector<int32_t> rows(6);
  ops::tree_mask_of_parents(std::vector<int32_t>{-1, 0, 0, 1, 2, 4}, 1, rows.data());
  for (int64_t i = 0; i < 6; ++i) p.tree.set_integer(i, rows[static_cast<size_t>(i)]);
  for (int64_t d = 0; d < 64; ++d) p.values.set((64 + 2) * 64 + d, NAN);  // seen by drafts 2, 4 and 5
  for (Kernel kernel : kernels()) {
    p.out.poison();
    Stream stream(device());
    run_by(*kernel, p.args([&](TestTensor& t) { return t.on(stream); }), stream);
    p.out.fetch(stream);
    for (int64_t row = 0; row < 6; ++row) {
      for (int64_t i = 0; i < 128; ++i)
        ASSERT_EQ(std::isnan(p.out.get(row * 128 + i)), row == 2 || row == 4 || row == 5)
            << kernel->name << ", " << row << ", " << i;
    }
  }
}

// Through the public call; the bits of a sequence do not depend on the others of its batch.
TEST_P(Verify, ASequenceAloneHasTheBitsThatItHasInTheBatch) {
  const Case whole{
      .heads = 4, .kv_heads = 2, .queries = {9, 20}, .lengths = {150, 90}, .page_size = 16, .tree_words = 1};
  Problem all(whole, 20), one(whole, 20);
  Context context(device());
  ops::attention_verify(context, all.args([&](TestTensor& t) { return t.on(context.stream()); }));
  all.out.fetch(context.stream());
  for (int64_t s = 0; s < 3; ++s) one.q_start.set_integer(s, s == 0 ? 0 : 9);
  AttentionArgs args = one.args([&](TestTensor& t) { return t.on(context.stream()); });
  ops::attention_verify(context, args);
  one.out.fetch(context.stream());
  for (int64_t i = 0; i < one.out.size(); ++i) {
    if (i < 9 * 4 * 64) {
      ASSERT_EQ(one.out.get(i), all.out.get(i)) << i;
    } else {
      ASSERT_TRUE(std::isnan(one.out.get(i))) << "written: " << i;
    }
  }
}

// Tables on the device that say too much: no bit is read outside the mask (guard zones, sanitizers).
TEST_P(Verify, TablesThatPointOutsideAreClampedAndReported) {
  for (const auto& [first, end, length] :
       std::vector<std::array<int64_t, 3>>{{0, 90, 70}, {-4, 6, 70}, {5, 2, 70}, {0, 6, -1}}) {
    for (Kernel kernel : kernels()) {
      Problem p({.queries = {6}, .lengths = {70}, .page_size = 16, .tree_words = 1}, 30);
      p.q_start.set_integer(0, first);
      p.q_start.set_integer(1, end);
      p.kv_length.set_integer(0, length);
      TestTensor status = TestTensor::of(DType::i32, {0.0});
      Stream stream(device());
      AttentionArgs args = p.args([&](TestTensor& t) { return t.on(stream); });
      args.status = status.on(stream);
      run_by(*kernel, args, stream);
      p.out.fetch(stream);
      status.fetch(stream);
      EXPECT_EQ(status.get(0), 1) << kernel->name << ": " << first << " " << end << " " << length;
      EXPECT_TRUE(p.out.guards_intact());
    }
  }
}

TEST(VerifyErrors, SayWhatIsAllowed) {
  const auto refused = [](const Case& c, const auto& change, const std::vector<std::string>& parts) {
    Problem p(c, 40);
    AttentionArgs args = p.args([](TestTensor& t) { return t.host(); });
    change(args, p);
    Context context(Device{});
    try {
      ops::attention_verify(context, args);
      ADD_FAILURE() << "not refused: " << parts[1];
    } catch (const Error& error) {
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const Case c{.queries = {40}, .lengths = {70}, .tree_words = 2};
  refused(c, [](AttentionArgs& a, Problem&) { a.tree_mask = {}; }, {"attention_verify", "tree_mask", "not given"});
  refused(c, [](AttentionArgs& a, Problem&) { a.tree_mask.extent[1] = 1; }, {"tree_mask", "1 words for 40 drafts"});
  refused(c, [](AttentionArgs& a, Problem&) { a.tree_mask.extent[0] = 39; }, {"tree_mask", "39", "40"});
  refused(c, [](AttentionArgs& a, Problem&) { a.tree_mask.dtype = DType::f32; }, {"tree_mask", "f32", "i32"});
  refused(c, [](AttentionArgs& a, Problem&) { a.window = 39; }, {"window", "39", "40 or more"});
  refused(c, [](AttentionArgs& a, Problem&) { a.causal = false; }, {"causal", "true"});
  refused(c, [](AttentionArgs&, Problem& p) { p.kv_length.set_integer(0, 39); }, {"kv_length", "39", "40 drafts"});
  Case biased = c;
  biased.radius = 3;
  refused(biased, [](AttentionArgs&, Problem&) {}, {"relative_bias", "together with tree_mask"});
}

TEST(VerifyErrors, ParentsOutOfOrder) {
  int32_t rows[2] = {};
  const auto message = [&](std::vector<int32_t> parents, int64_t words) -> std::string {
    try {
      ops::tree_mask_of_parents(parents, words, rows);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(message({-1, 1}, 1).find("1 of draft 1"), std::string::npos);
  EXPECT_NE(message({-2}, 1).find("-2 of draft 0"), std::string::npos);
  EXPECT_NE(message(std::vector<int32_t>(33, -1), 1).find("33 drafts"), std::string::npos);
  EXPECT_EQ(message({-1, 0}, 1), "");
  EXPECT_EQ(rows[1], 1);
}

}  // namespace
}  // namespace monotile
