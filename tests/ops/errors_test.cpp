// Every operator refuses what its contract does not allow, and says which operator, which argument, what came and what
// is allowed.

#include <gtest/gtest.h>

#include <limits>

#include "monotile/ops/activation.hpp"
#include "monotile/ops/attention.hpp"
#include "monotile/ops/embedding.hpp"
#include "monotile/ops/gemm.hpp"
#include "monotile/ops/kv_cache.hpp"
#include "monotile/ops/norm.hpp"
#include "monotile/ops/rope.hpp"
#include "monotile/ops/sampling.hpp"
#include "monotile/ops/softmax.hpp"
#include "tests/ops/test_util.hpp"

namespace monotile::test {
namespace {

using namespace monotile::ops;

// Changes to a view.
TensorView with_dtype(TensorView view, DType dtype) { return view.dtype = dtype, view; }
TensorView with_extent(TensorView view, int axis, int64_t extent) {
  return view.extent[static_cast<size_t>(axis)] = extent, view;
}
TensorView with_stride(TensorView view, int axis, int64_t stride) {
  return view.stride[static_cast<size_t>(axis)] = stride, view;
}
TensorView with_data(TensorView view, void* data) { return view.data = data, view; }
TensorView moved(TensorView view, int64_t bytes) { return view.data = view.as<char>() + bytes, view; }
TensorView on(TensorView view, Device device) { return view.device = device, view; }
TensorView with_rank(TensorView view, int rank) {
  for (int i = view.rank; i < rank; ++i) view.extent[static_cast<size_t>(i)] = view.stride[static_cast<size_t>(i)] = 1;
  return view.rank = rank, view;
}

/// A valid call on the host that can be broken one argument at a time.
template <class Args>
class Breaker {
 public:
  explicit Breaker(Args good) : good_(good) { EXPECT_NO_THROW(plan<Args>(Device{}, good_)); }

  /// `change` alters a copy; the call must then be refused by a text that holds all `words`.
  template <class Change>
  void refuses(std::vector<std::string> words, Change change) const {
    Args broken = good_;
    change(broken);
    words.insert(words.begin(), std::string(Args::op_name) + ": ");
    words.push_back("allowed: ");
    expect_error(ErrorCode::invalid_argument, words, [&] { plan<Args>(Device{}, broken); });
  }

  /// The faults that every tensor argument can have.
  void refuses_common(const char* name, TensorView Args::*member, DType bad_dtype) const {
    SCOPED_TRACE(name);
    const std::string argument = std::string(name) + ": ";
    const auto with = [&](std::vector<std::string> words, auto change) {
      words.insert(words.begin(), argument);
      refuses(words, [&](Args& args) { args.*member = change(args.*member); });
    };
    const auto broken = [&](const std::string& given, auto change) { with({given}, change); };
    broken("null", [](TensorView v) { return with_data(v, nullptr); });
    broken("cuda:0", [](TensorView v) { return on(v, Device{DeviceKind::cuda, 0}); });
    broken("emulated:32", [](TensorView v) { return on(v, Device{DeviceKind::emulated, 32}); });
    broken("rank", [](TensorView v) { return with_rank(v, 5); });
    broken("negative extent", [](TensorView v) { return with_extent(v, 0, -1); });
    broken("dtype", [&](TensorView v) { return with_dtype(v, bad_dtype); });
    if ((good_.*member).dim(-1) > 1) {
      broken("innermost stride 2", [](TensorView v) { return with_stride(v, v.rank - 1, 2); });
    }
    if (dtype_info((good_.*member).dtype).block_bytes > 1)
      broken("misaligned", [](TensorView v) { return moved(v, 1); });
  }
  /// Also: may not be left out.
  void refuses_undefined(const char* name, TensorView Args::*member) const {
    refuses({std::string(name) + ": ", "undefined"}, [&](Args& args) { args.*member = {}; });
  }
  /// `other` made to share memory with `member`, shifted by one element.
  void refuses_overlap(TensorView Args::*member, TensorView Args::*other, const std::string& word) const {
    refuses({word, "shared"}, [&](Args& args) { args.*other = with_data(args.*other, (args.*member).data); });
  }

 private:
  Args good_;
};

struct NormTensors {
  TestTensor x{DType::bf16, {4, 64}}, y = x, residual = x, gamma{DType::bf16, {64}}, beta = gamma;
  RmsNormArgs args() { return {y.host(), residual.host(), x.host(), gamma.host(), beta.host(), 1e-6f, 0.0f}; }
};

TEST(Errors, RmsNorm) {
  NormTensors t;
  const Breaker<RmsNormArgs> good(t.args());
  good.refuses_common("x", &RmsNormArgs::x, DType::i32);
  good.refuses_common("y", &RmsNormArgs::y, DType::f16);
  good.refuses_common("residual", &RmsNormArgs::residual, DType::f16);
  good.refuses_common("gamma", &RmsNormArgs::gamma, DType::f16);
  good.refuses_common("beta", &RmsNormArgs::beta, DType::f32);
  good.refuses_undefined("x", &RmsNormArgs::x);
  good.refuses_undefined("y", &RmsNormArgs::y);
  good.refuses_undefined("gamma", &RmsNormArgs::gamma);
  good.refuses({"y: ", "[3, 64]", "[4, 64]"}, [](RmsNormArgs& a) { a.y = with_extent(a.y, 0, 3); });
  good.refuses({"gamma: ", "63", "64"}, [](RmsNormArgs& a) { a.gamma = with_extent(a.gamma, 0, 63); });
  good.refuses({"x: ", "0 columns"}, [](RmsNormArgs& a) { a.x = with_extent(a.x, 1, 0); });
  good.refuses({"x: ", "columns", "2^20"}, [](RmsNormArgs& a) { a.x = with_extent(a.x, 1, (1 << 20) + 1); });
  good.refuses({"y: ", "overlap"}, [](RmsNormArgs& a) { a.y = with_stride(a.y, 0, 63); });
  good.refuses({"y: ", "overlap"}, [](RmsNormArgs& a) { a.y = with_stride(a.y, 0, 0); });
  good.refuses({"x: ", "negative stride"}, [](RmsNormArgs& a) { a.x = with_stride(a.x, 0, -64); });
  good.refuses({"eps: "}, [](RmsNormArgs& a) { a.eps = -1.0f; });
  good.refuses({"eps: "}, [](RmsNormArgs& a) { a.eps = std::numeric_limits<float>::quiet_NaN(); });
  good.refuses({"y: ", "shared with x"}, [](RmsNormArgs& a) { a.y = moved(a.x, 2); });
  good.refuses_overlap(&RmsNormArgs::x, &RmsNormArgs::residual, "residual: ");
  good.refuses_overlap(&RmsNormArgs::y, &RmsNormArgs::residual, "residual: ");
  good.refuses_overlap(&RmsNormArgs::gamma, &RmsNormArgs::y, "gamma");
  RmsNormArgs in_place = t.args();
  in_place.y = in_place.x;
  EXPECT_NO_THROW(plan<RmsNormArgs>(Device{}, in_place));
}

TEST(Errors, RmsNormTransposedViewIsRefused) {  // never read as if it were contiguous
  TestTensor x(DType::f32, {32, 32}), y(DType::f32, {32, 32}), gamma(DType::f32, {32});
  TensorView transposed = x.host();
  transposed.stride = {1, 32};
  expect_error(ErrorCode::invalid_argument, {"rms_norm", "x", "innermost stride 32", "allowed: 1"}, [&] {
    plan<RmsNormArgs>(Device{}, {.y = y.host(), .residual = {}, .x = transposed, .gamma = gamma.host(), .beta = {}});
  });
}

TEST(Errors, RmsNormDtypeCombinations) {
  TestTensor f32(DType::f32, {2, 8}), f16(DType::f16, {2, 8}), y16 = f16, y32 = f32, r16 = f16, r32 = f32,
                                                               g32(DType::f32, {8}), g16(DType::f16, {8});
  const auto accepted = [](TestTensor& x, TestTensor* residual, TestTensor& gamma, TestTensor& y) {
    try {
      plan<RmsNormArgs>(Device{}, {.y = y.host(),
                                   .residual = residual ? residual->host() : TensorView{},
                                   .x = x.host(),
                                   .gamma = gamma.host(),
                                   .beta = {}});
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_TRUE(accepted(f32, nullptr, g32, y32));
  EXPECT_TRUE(accepted(f16, nullptr, g16, y16));
  EXPECT_TRUE(accepted(f16, nullptr, g32, y16));
  EXPECT_TRUE(accepted(f16, &r32, g16, y16));
  EXPECT_TRUE(accepted(f16, &r32, g32, y16));
  EXPECT_TRUE(accepted(f16, &r16, g32, y16));
  EXPECT_FALSE(accepted(f32, nullptr, g16, y32));
  EXPECT_FALSE(accepted(f32, &r16, g32, y32));
  EXPECT_FALSE(accepted(f16, nullptr, g16, y32));
  EXPECT_FALSE(accepted(f32, nullptr, g32, y16));
}

TEST(Errors, Rope) {
  TestTensor q(DType::f16, {3, 4, 8}), k(DType::f16, {3, 2, 8}), q_out = q, k_out = k, positions(DType::i32, {3}),
                                                                 cos(DType::f32, {5, 4}), sin = cos;
  TestTensor status(DType::i32, {3});
  const Breaker<RopeArgs> good(RopeArgs{q_out.host(), k_out.host(), q.host(), k.host(), positions.host(), cos.host(),
                                        sin.host(), status.host(), 0, false});
  good.refuses_common("q", &RopeArgs::q, DType::i32);
  good.refuses_common("q_out", &RopeArgs::q_out, DType::bf16);
  good.refuses_common("k", &RopeArgs::k, DType::bf16);
  good.refuses_common("k_out", &RopeArgs::k_out, DType::bf16);
  good.refuses_common("positions", &RopeArgs::positions, DType::f32);
  good.refuses_common("cos", &RopeArgs::cos, DType::f16);
  good.refuses_common("sin", &RopeArgs::sin, DType::f16);
  good.refuses_common("status", &RopeArgs::status, DType::i64);
  for (const auto& [name, member] : {std::pair<const char*, TensorView RopeArgs::*>{"q", &RopeArgs::q},
                                     {"q_out", &RopeArgs::q_out},
                                     {"k", &RopeArgs::k},
                                     {"k_out", &RopeArgs::k_out},
                                     {"positions", &RopeArgs::positions},
                                     {"cos", &RopeArgs::cos},
                                     {"sin", &RopeArgs::sin}}) {
    good.refuses_undefined(name, member);
  }
  for (const int bad : {-2, 1, 3, 10})
    good.refuses({"rotary_dim: ", std::to_string(bad)}, [&](RopeArgs& a) { a.rotary_dim = bad; });
  good.refuses({"cos: ", "extent 4", "3"}, [](RopeArgs& a) { a.rotary_dim = 6; });
  good.refuses({"sin: ", "extent 4", "5"}, [](RopeArgs& a) { a.sin = with_extent(a.sin, 0, 4); });
  good.refuses({"k: ", "extent 2"}, [](RopeArgs& a) { a.k = with_extent(a.k, 0, 2); });
  good.refuses({"k: ", "extent 6"}, [](RopeArgs& a) { a.k = with_extent(a.k, 2, 6); });
  good.refuses({"positions: ", "extent 2", "3"}, [](RopeArgs& a) { a.positions = with_extent(a.positions, 0, 2); });
  good.refuses({"cos: ", "no positions"}, [](RopeArgs& a) { a.cos = with_extent(a.cos, 0, 0); });
  good.refuses({"q_out: ", "partly shared with q"}, [](RopeArgs& a) { a.q_out = moved(a.q, 2); });
  good.refuses_overlap(&RopeArgs::q_out, &RopeArgs::k_out, "k_out");
  good.refuses_overlap(&RopeArgs::q_out, &RopeArgs::k, "shared with k");
  good.refuses({"q_out: ", "overlap"}, [](RopeArgs& a) { a.q_out = with_stride(a.q_out, 1, 7); });
}

TEST(Errors, RopeAcceptsSlicesOfOneBuffer) {
  TestTensor packed(DType::bf16, {3, 6, 8}), positions(DType::i32, {3}), cos(DType::f32, {5, 4}), sin = cos;
  const TensorView q = packed.host().slice(1, 0, 4), k = packed.host().slice(1, 4, 6);
  EXPECT_NO_THROW(
      plan<RopeArgs>(Device{}, RopeArgs{q, k, q, k, positions.host(), cos.host(), sin.host(), {}, 0, false}));
}

TEST(Errors, GatedActivation) {
  TestTensor y(DType::f32, {3, 8}), gate = y, up = y;
  const Breaker<GatedActivationArgs> good(GatedActivationArgs{y.host(), gate.host(), up.host(), Activation::silu});
  good.refuses_common("y", &GatedActivationArgs::y, DType::q8_0);
  good.refuses_common("gate", &GatedActivationArgs::gate, DType::f16);
  good.refuses_common("up", &GatedActivationArgs::up, DType::f16);
  good.refuses_undefined("y", &GatedActivationArgs::y);
  good.refuses_undefined("gate", &GatedActivationArgs::gate);
  good.refuses_undefined("up", &GatedActivationArgs::up);
  good.refuses({"up: ", "[3, 7]", "[3, 8]"}, [](GatedActivationArgs& a) { a.up = with_extent(a.up, 1, 7); });
  good.refuses({"y: ", "partly shared with gate"}, [](GatedActivationArgs& a) { a.y = moved(a.gate, 4); });
  good.refuses({"y: ", "partly shared with up"}, [](GatedActivationArgs& a) { a.y = moved(a.up, -4); });
  good.refuses({"y: ", "overlap"}, [](GatedActivationArgs& a) { a.y = with_stride(a.y, 0, 4); });
  good.refuses({"activation: ", "7"}, [](GatedActivationArgs& a) { a.activation = static_cast<Activation>(7); });
  GatedActivationArgs packed{y.host(), {}, {}, Activation::silu};
  TestTensor both(DType::f32, {3, 16});
  packed.gate = both.host().slice(1, 0, 8), packed.up = both.host().slice(1, 8, 16);
  EXPECT_NO_THROW(plan<GatedActivationArgs>(Device{}, packed));
  packed.y = packed.gate;
  EXPECT_NO_THROW(plan<GatedActivationArgs>(Device{}, packed));
}

TEST(Errors, Softmax) {
  TestTensor y(DType::f16, {3, 8}), x = y;
  const Breaker<SoftmaxArgs> good(SoftmaxArgs{y.host(), x.host(), 1.0f, false});
  good.refuses_common("x", &SoftmaxArgs::x, DType::i8);
  good.refuses_common("y", &SoftmaxArgs::y, DType::bf16);
  good.refuses_undefined("x", &SoftmaxArgs::x);
  good.refuses_undefined("y", &SoftmaxArgs::y);
  good.refuses({"x: ", "0 columns"}, [](SoftmaxArgs& a) { a.x = with_extent(a.x, 1, 0); });
  good.refuses({"y: ", "[2, 8]"}, [](SoftmaxArgs& a) { a.y = with_extent(a.y, 0, 2); });
  good.refuses({"y: ", "partly shared with x"}, [](SoftmaxArgs& a) { a.y = moved(a.x, 2); });
  good.refuses({"y: ", "partly shared with x"}, [](SoftmaxArgs& a) { a.y = with_dtype(a.x, DType::f32); });
  good.refuses({"scale: "}, [](SoftmaxArgs& a) { a.scale = std::numeric_limits<float>::infinity(); });
}

TEST(Errors, Embedding) {
  TestTensor table(DType::bf16, {5, 8}), y(DType::f32, {3, 8}), ids = TestTensor::of(DType::i32, {0, 4, 2}),
                                                                status = TestTensor::of(DType::i32, {0, 0, 0});
  const Breaker<EmbeddingArgs> good(EmbeddingArgs{y.host(), table.host(), ids.host(), {}, 1.0f});
  good.refuses_common("table", &EmbeddingArgs::table, DType::i8);
  good.refuses_common("y", &EmbeddingArgs::y, DType::q4_0);
  good.refuses_common("ids", &EmbeddingArgs::ids, DType::f32);
  Breaker<EmbeddingArgs>(EmbeddingArgs{y.host(), table.host(), ids.host(), status.host(), 1.0f})
      .refuses_common("status", &EmbeddingArgs::status, DType::f32);
  good.refuses_undefined("table", &EmbeddingArgs::table);
  good.refuses_undefined("y", &EmbeddingArgs::y);
  good.refuses_undefined("ids", &EmbeddingArgs::ids);
  good.refuses({"y: ", "extent 7", "8"}, [](EmbeddingArgs& a) { a.y = with_extent(a.y, 1, 7); });
  good.refuses({"y: ", "extent 2", "3"}, [](EmbeddingArgs& a) { a.y = with_extent(a.y, 0, 2); });
  good.refuses_overlap(&EmbeddingArgs::table, &EmbeddingArgs::y, "y: ");
  TestTensor blocks(DType::q8_0, {5, 64}), wide(DType::f32, {3, 64});
  const Breaker<EmbeddingArgs> quantised(EmbeddingArgs{wide.host(), blocks.host(), ids.host(), {}, 1.0f});
  quantised.refuses({"table: ", "48", "32"}, [](EmbeddingArgs& a) { a.table = with_extent(a.table, 1, 48); });
  quantised.refuses({"table: ", "stride 80", "32"}, [](EmbeddingArgs& a) { a.table = with_stride(a.table, 0, 80); });
  for (const double bad : {-1.0, 5.0}) {
    ids.set(1, bad);
    const EmbeddingArgs args{y.host(), table.host(), ids.host(), {}, 1.0f};
    expect_error(ErrorCode::invalid_argument, {"embedding: ids: ", "token 1", "0 to 4"},
                 [&] { plan<EmbeddingArgs>(Device{}, args); });
    EXPECT_NO_THROW(
        plan<EmbeddingArgs>(Device{}, EmbeddingArgs{y.host(), table.host(), ids.host(), status.host(), 1.0f}));
  }
}

TEST(Errors, KvAppend) {
  TestTensor k(DType::f16, {3, 2, 8}), v = k, key_cache(DType::bf16, {4, 2, 5, 8}), value_cache = key_cache;
  TestTensor slots = TestTensor::of(DType::i32, {0, -1, 19}), status = TestTensor::of(DType::i32, {0, 0, 0});
  const KvAppendArgs args{key_cache.host(), value_cache.host(), k.host(), v.host(), slots.host(), {}};
  const Breaker<KvAppendArgs> good(args);
  good.refuses_common("key_cache", &KvAppendArgs::key_cache, DType::i32);
  good.refuses_common("value_cache", &KvAppendArgs::value_cache, DType::f16);
  good.refuses_common("k", &KvAppendArgs::k, DType::i8);
  good.refuses_common("v", &KvAppendArgs::v, DType::f32);
  good.refuses_common("slots", &KvAppendArgs::slots, DType::f32);
  for (const auto& [name, member] :
       {std::pair<const char*, TensorView KvAppendArgs::*>{"key_cache", &KvAppendArgs::key_cache},
        {"value_cache", &KvAppendArgs::value_cache},
        {"k", &KvAppendArgs::k},
        {"v", &KvAppendArgs::v},
        {"slots", &KvAppendArgs::slots}}) {
    good.refuses_undefined(name, member);
  }
  good.refuses({"v: ", "extent 2", "3"}, [](KvAppendArgs& a) { a.v = with_extent(a.v, 0, 2); });
  good.refuses({"key_cache: ", "extent 1", "2"}, [](KvAppendArgs& a) { a.key_cache = with_extent(a.key_cache, 1, 1); });
  good.refuses({"value_cache: ", "extent 4", "5"},
               [](KvAppendArgs& a) { a.value_cache = with_extent(a.value_cache, 2, 4); });
  good.refuses({"value_cache: ", "extent 3", "4"},
               [](KvAppendArgs& a) { a.value_cache = with_extent(a.value_cache, 0, 3); });
  good.refuses({"slots: ", "4 slots", "3 tokens"}, [](KvAppendArgs& a) { a.slots = with_extent(a.slots, 0, 4); });
  good.refuses_overlap(&KvAppendArgs::key_cache, &KvAppendArgs::value_cache, "key_cache: ");
  good.refuses({"key_cache: ", "overlap"}, [](KvAppendArgs& a) { a.key_cache = with_stride(a.key_cache, 2, 4); });
  slots.set(2, 20);
  expect_error(ErrorCode::invalid_argument, {"kv_append: slots: ", "slot 20", "token 2"},
               [&] { plan<KvAppendArgs>(Device{}, args); });
  KvAppendArgs flagged = args;
  flagged.status = status.host();
  EXPECT_NO_THROW(plan<KvAppendArgs>(Device{}, flagged));
  Breaker<KvAppendArgs>(flagged).refuses_common("status", &KvAppendArgs::status, DType::f32);
}

TEST(Errors, AttentionPaged) {
  TestTensor q(DType::f16, {4, 6, 8}), out(DType::f16, {4, 6, 4}), keys(DType::bf16, {5, 2, 3, 8}),
      values(DType::bf16, {5, 2, 3, 4});
  TestTensor table = TestTensor::of(DType::i32, {2, 3}, {0, 1, 2, 3, 4, 0}),
             q_start = TestTensor::of(DType::i32, {0, 3, 4}), kv_length = TestTensor::of(DType::i32, {9, 2});
  TestTensor lse(DType::f32, {4, 6}), status(DType::i32, {2});
  AttentionArgs args;
  args.out = out.host(), args.q = q.host(), args.key_cache = keys.host(), args.value_cache = values.host(),
  args.block_table = table.host();
  args.q_start = q_start.host(), args.kv_length = kv_length.host(), args.log_sum_exp = lse.host(),
  args.status = status.host(), args.max_query = 3;
  const Breaker<AttentionArgs> good(args);
  good.refuses_common("q", &AttentionArgs::q, DType::i8);
  good.refuses_common("out", &AttentionArgs::out, DType::f32);
  good.refuses_common("key_cache", &AttentionArgs::key_cache, DType::u8);
  good.refuses_common("value_cache", &AttentionArgs::value_cache, DType::f16);
  good.refuses_common("block_table", &AttentionArgs::block_table, DType::i64);
  good.refuses_common("q_start", &AttentionArgs::q_start, DType::i64);
  good.refuses_common("kv_length", &AttentionArgs::kv_length, DType::i64);
  good.refuses_common("log_sum_exp", &AttentionArgs::log_sum_exp, DType::f16);
  good.refuses_common("status", &AttentionArgs::status, DType::i64);
  for (const auto& [name, member] : {std::pair<const char*, TensorView AttentionArgs::*>{"q", &AttentionArgs::q},
                                     {"out", &AttentionArgs::out},
                                     {"key_cache", &AttentionArgs::key_cache},
                                     {"value_cache", &AttentionArgs::value_cache},
                                     {"q_start", &AttentionArgs::q_start},
                                     {"kv_length", &AttentionArgs::kv_length}}) {
    good.refuses_undefined(name, member);
  }
  good.refuses({"key_cache: ", "rank 4", "rank 3"},
               [](AttentionArgs& a) { a.block_table = {}; });  // then the caches would have to be dense
  good.refuses({"q: ", "7 heads", "multiple"},
               [](AttentionArgs& a) { a.q = with_extent(a.q, 1, 7), a.out = with_extent(a.out, 1, 7); });
  good.refuses({"q: ", "head dimension 257"}, [](AttentionArgs& a) { a.q = with_extent(a.q, 2, 257); });
  good.refuses({"key_cache: ", "extent 7", "8"},
               [](AttentionArgs& a) { a.key_cache = with_extent(a.key_cache, 3, 7); });
  good.refuses({"value_cache: ", "extent 4", "5"},
               [](AttentionArgs& a) { a.value_cache = with_extent(a.value_cache, 0, 4); });
  good.refuses({"out: ", "extent 3", "4"}, [](AttentionArgs& a) { a.out = with_extent(a.out, 0, 3); });
  good.refuses({"block_table: ", "extent 1", "2"},
               [](AttentionArgs& a) { a.block_table = with_extent(a.block_table, 0, 1); });
  good.refuses({"q_start: ", "extent 2", "3"}, [](AttentionArgs& a) { a.q_start = with_extent(a.q_start, 0, 2); });
  TestTensor scale(DType::f32, {5, 2, 3}), one = TestTensor::of(DType::f32, {1.0}), three = TestTensor::of(DType::f32, {1, 1, 1});
  const auto codes = [&](AttentionArgs& a) {
    a.key_cache = with_dtype(a.key_cache, DType::f8_e4m3), a.value_cache = with_dtype(a.value_cache, DType::f8_e4m3);
    a.key_scale = scale.host(), a.value_scale = one.host();
  };
  good.refuses({"key_scale: ", "none with a cache of bf16"}, [&](AttentionArgs& a) { a.key_scale = one.host(); });
  good.refuses({"value_scale: ", "undefined view"}, [&](AttentionArgs& a) { codes(a), a.value_scale = {}; });
  good.refuses({"key_scale: ", "extent 3", "2"}, [&](AttentionArgs& a) { codes(a), a.key_scale = three.host(); });
  good.refuses({"key_scale: ", "extent 4", "5"}, [&](AttentionArgs& a) { codes(a), a.key_scale = with_extent(a.key_scale, 0, 4); });
  good.refuses({"key_scale: ", "f16", "f32"}, [&](AttentionArgs& a) { codes(a), a.key_scale = with_dtype(a.key_scale, DType::f16); });
  const auto coded = [&](AttentionArgs& a) { codes(a), a.q = with_dtype(a.q, DType::f8_e4m3), a.q_scale = one.host(); };
  good.refuses({"q_scale: ", "none with queries of f16"}, [&](AttentionArgs& a) { a.q_scale = one.host(); });
  good.refuses({"q_scale: ", "undefined view"}, [&](AttentionArgs& a) { coded(a), a.q_scale = {}; });
  good.refuses({"key_cache: ", "bf16", "f8_e4m3"}, [&](AttentionArgs& a) { a.q = with_dtype(a.q, DType::f8_e4m3), a.q_scale = one.host(); });
  good.refuses({"q: ", "f8_e5m2"}, [&](AttentionArgs& a) { coded(a), a.q = with_dtype(a.q, DType::f8_e5m2); });
  good.refuses({"out: ", "f32"}, [&](AttentionArgs& a) { coded(a), a.out = with_dtype(a.out, DType::f32); });
  good.refuses({"max_query: ", "0"}, [](AttentionArgs& a) { a.max_query = 0; });
  good.refuses({"q_start: ", "query count 3", "max_query = 2"}, [](AttentionArgs& a) { a.max_query = 2; });
  good.refuses({"max_kv_length: ", "10", "9"}, [](AttentionArgs& a) { a.max_kv_length = 10; });
  good.refuses({"kv_length: ", "length 9", "0 to 8"}, [](AttentionArgs& a) { a.max_kv_length = 8; });
  good.refuses({"window: ", "-1"}, [](AttentionArgs& a) { a.window = -1; });
  good.refuses({"softcap: ", "-1"}, [](AttentionArgs& a) { a.softcap = -1.0f; });
  good.refuses({"scale: ", "nan"}, [](AttentionArgs& a) { a.scale = std::numeric_limits<float>::quiet_NaN(); });
  good.refuses({"kv_start: ", "one of the two"}, [](AttentionArgs& a) { a.kv_start = a.kv_length; });
  good.refuses_overlap(&AttentionArgs::q, &AttentionArgs::out, "out: ");
  good.refuses_overlap(&AttentionArgs::out, &AttentionArgs::key_cache, "key_cache");
  q_start.assign({0, 3, 2});
  good.refuses({"q_start: ", "sequence 1", "ascending"}, [](AttentionArgs&) {});
  q_start.assign({0, 3, 5});
  good.refuses({"q_start: ", "4 tokens"}, [](AttentionArgs&) {});
}

TEST(Errors, AttentionDense) {
  TestTensor q(DType::f32, {2, 2, 8}), out = q, keys(DType::f32, {10, 2, 8}), values = keys;
  TestTensor q_start = TestTensor::of(DType::i32, {0, 2}), kv_length = TestTensor::of(DType::i32, {6}),
             kv_start = TestTensor::of(DType::i32, {4});
  AttentionArgs args;
  args.out = out.host(), args.q = q.host(), args.key_cache = keys.host(), args.value_cache = values.host(),
  args.kv_start = kv_start.host();
  args.q_start = q_start.host(), args.kv_length = kv_length.host(), args.max_query = 2;
  const Breaker<AttentionArgs> good(args);
  good.refuses_common("kv_start", &AttentionArgs::kv_start, DType::i64);
  good.refuses_undefined("kv_start", &AttentionArgs::kv_start);
  for (const double bad : {-1.0, 5.0}) {
    kv_start.set(0, bad);
    good.refuses({"kv_start: ", "sequence 0", "10 rows"}, [](AttentionArgs&) {});
  }
}

TEST(Errors, Gemm) {
  TestTensor a(DType::bf16, {3, 64}), b(DType::q8_0, {5, 64}), c(DType::f32, {3, 5}), bias(DType::bf16, {5}),
      residual(DType::bf16, {3, 5});
  const GemmArgs args{c.host(), a.host(), b.host(), bias.host(), residual.host(), ProductCast::int8_block};
  const Breaker<GemmArgs> good(args);
  good.refuses_common("a", &GemmArgs::a, DType::q8_0);
  good.refuses_common("b", &GemmArgs::b, DType::i8);
  good.refuses_common("c", &GemmArgs::c, DType::f16);
  good.refuses_common("bias", &GemmArgs::bias, DType::f16);
  good.refuses_common("residual", &GemmArgs::residual, DType::f16);
  good.refuses_undefined("a", &GemmArgs::a);
  good.refuses_undefined("b", &GemmArgs::b);
  good.refuses_undefined("c", &GemmArgs::c);
  good.refuses({"b: ", "extent 32", "64"}, [](GemmArgs& g) { g.b = with_extent(g.b, 1, 32); });
  good.refuses({"b: ", "48", "32 elements of a q8_0 block"},
               [](GemmArgs& g) { g.b = with_extent(g.b, 1, 48), g.a = with_extent(g.a, 1, 48); });
  good.refuses({"c: ", "extent 4", "3"}, [](GemmArgs& g) { g.c = with_extent(g.c, 0, 4); });
  good.refuses({"c: ", "extent 4", "5"}, [](GemmArgs& g) { g.c = with_extent(g.c, 1, 4); });
  good.refuses({"bias: ", "extent 4", "5"}, [](GemmArgs& g) { g.bias = with_extent(g.bias, 0, 4); });
  good.refuses({"residual: ", "[3, 4]"}, [](GemmArgs& g) { g.residual = with_extent(g.residual, 1, 4); });
  good.refuses_overlap(&GemmArgs::a, &GemmArgs::c, "c: ");
  good.refuses_overlap(&GemmArgs::b, &GemmArgs::c, "c: ");
  good.refuses({"c: ", "partly shared with residual"},
               [](GemmArgs& g) { g.residual = moved(with_dtype(g.c, DType::f32), 4); });
  good.refuses({"cast: ", "9"}, [](GemmArgs& g) { g.cast = static_cast<ProductCast>(9); });
  TestTensor plain(DType::bf16, {5, 64});
  good.refuses({"cast: ", "int8_block", "bf16"}, [&](GemmArgs& g) { g.b = plain.host(); });
  GemmArgs in_place = args;
  in_place.residual = in_place.c;
  EXPECT_NO_THROW(plan<GemmArgs>(Device{}, in_place));
}

TEST(Errors, Argmax) {
  TestTensor logits(DType::f32, {3, 8}), ids(DType::i32, {3}), status(DType::i32, {3});
  const Breaker<ArgmaxArgs> good(ArgmaxArgs{ids.host(), logits.host(), status.host()});
  good.refuses_common("logits", &ArgmaxArgs::logits, DType::i32);
  good.refuses_common("ids", &ArgmaxArgs::ids, DType::i64);
  good.refuses_common("status", &ArgmaxArgs::status, DType::i64);
  good.refuses_undefined("logits", &ArgmaxArgs::logits);
  good.refuses_undefined("ids", &ArgmaxArgs::ids);
  good.refuses({"ids: ", "extent 2", "3"}, [](ArgmaxArgs& a) { a.ids = with_extent(a.ids, 0, 2); });
  good.refuses({"logits: ", "0 columns"}, [](ArgmaxArgs& a) { a.logits = with_extent(a.logits, 1, 0); });
}

TEST(Errors, Sample) {
  TestTensor logits(DType::f32, {3, 8}), ids(DType::i32, {3}), status(DType::i32, {3}), f(DType::f32, {3}),
      i(DType::i32, {3}), l(DType::i64, {3});
  const Breaker<SampleArgs> good(
      SampleArgs{ids.host(), logits.host(), f.host(), i.host(), f.host(), f.host(), l.host(), l.host(), status.host()});
  good.refuses_common("logits", &SampleArgs::logits, DType::i32);
  good.refuses_common("ids", &SampleArgs::ids, DType::i64);
  good.refuses_common("temperature", &SampleArgs::temperature, DType::f16);
  good.refuses_common("top_k", &SampleArgs::top_k, DType::f32);
  good.refuses_common("top_p", &SampleArgs::top_p, DType::i32);
  good.refuses_common("min_p", &SampleArgs::min_p, DType::i32);
  good.refuses_common("seeds", &SampleArgs::seeds, DType::i32);
  good.refuses_common("positions", &SampleArgs::positions, DType::i32);
  good.refuses_common("status", &SampleArgs::status, DType::f32);
  good.refuses({"top_k: ", "extent 2", "3"}, [](SampleArgs& a) { a.top_k = with_extent(a.top_k, 0, 2); });
  EXPECT_NO_THROW(plan<SampleArgs>(Device{}, SampleArgs{ids.host(), logits.host(), {}, {}, {}, {}, {}, {}, {}}));
}

TEST(Errors, DeviceThatIsAbsent) {
  const Device nowhere{DeviceKind::cuda, 99};
  TestTensor y(DType::f32, {1, 8}), x = y;
  expect_error(ErrorCode::not_found, {"cuda:99"}, [&] {
    plan<SoftmaxArgs>(nowhere, SoftmaxArgs{on(y.host(), nowhere), on(x.host(), nowhere), 1.0f, false});
  });
}

TEST(Errors, ForcedTierThatIsAbsent) {
  TestTensor logits(DType::f32, {1, 8}), ids(DType::i32, {1});
  expect_error(ErrorCode::unsupported, {"argmax", "vendor"}, [&] {
    plan<ArgmaxArgs>(Device{}, ArgmaxArgs{ids.host(), logits.host(), {}}, parse_tier("vendor"));
  });
}

TEST(Errors, SizesThatWouldWrap) {
  TestTensor y(DType::f32, {1, 8}), x = y;
  TensorView huge = x.host();
  huge.extent = {int64_t{1} << 45, int64_t{1} << 20};
  expect_error(ErrorCode::invalid_argument, {"softmax", "x", "2^63"}, [&] {
    plan<SoftmaxArgs>(Device{}, SoftmaxArgs{y.host(), huge, 1.0f, false});
  });
}

}  // namespace
}  // namespace monotile::test
