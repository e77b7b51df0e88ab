// Known answers for the oracles and the host side: cases of public bug reports and small ones worked out by hand.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "monotile/random.hpp"
#include "ops/activation/activation.hpp"
#include "ops/attention/attention.hpp"
#include "ops/check.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/norm/norm.hpp"
#include "ops/rope/rope.hpp"
#include "ops/sampling/sampling.hpp"
#include "ops/softmax/softmax.hpp"
#include "tests/ops/test_util.hpp"

namespace monotile::test {
namespace {

using namespace monotile::ops;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

// ---- Accessors ----

TEST(ReferenceAccess, RoundsOnceAndHalfToEven) {
  // 1 + 2^-11 is a tie in fp16 (to even: 1); a hair above must go up although fp32 cannot hold the hair.
  EXPECT_EQ(reference::round_to(DType::f16, 1.0 + 0x1p-11), 1.0);
  EXPECT_EQ(reference::round_to(DType::f16, 1.0 + 0x1p-11 + 0x1p-40), 1.0 + 0x1p-10);
  EXPECT_EQ(reference::round_to(DType::bf16, 1.0 + 0x1p-8 + 0x1p-40), 1.0 + 0x1p-7);
  EXPECT_EQ(reference::round_to(DType::bf16, 1.0 + 0x1p-8), 1.0);
  EXPECT_EQ(reference::round_to(DType::f16, 65519.0), 65504.0);
  EXPECT_EQ(reference::round_to(DType::f16, 65520.0), kInf);
  EXPECT_EQ(reference::round_to(DType::f16, -0x1p-24), -0x1p-24);
  EXPECT_EQ(reference::round_to(DType::f16, 0x1p-25), 0.0);
  EXPECT_EQ(reference::round_to(DType::f16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(reference::round_to(DType::bf16, 0x1.ffp127), kInf);
  EXPECT_TRUE(std::isnan(reference::round_to(DType::f16, kNaN)));
}

TEST(ReferenceAccess, EveryHalfComesBack) {
  for (int bits = 0; bits < 65536; ++bits) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      uint16_t stored = static_cast<uint16_t>(bits), back = 0;
      TensorView from(&stored, dtype, {1}), to(&back, dtype, {1});
      const double value = reference::get(from, 0);
      reference::set(to, 0, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(reference::get(to, 0)));
      } else {
        ASSERT_EQ(stored, back);
      }
    }
  }
}

// ---- GGUF blocks: each byte of a block written by hand ----

TEST(ReferenceDequantise, Q4_0) {
  TestTensor block(DType::q4_0, {32});
  uint8_t* bytes = block.host().as<uint8_t>();
  bytes[0] = 0x00, bytes[1] = 0x38;  // 0.5
  for (int i = 0; i < 16; ++i) bytes[2 + i] = static_cast<uint8_t>(i | (15 - i) << 4);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(block.get(i), 0.5 * (i - 8));
    EXPECT_EQ(block.get(16 + i), 0.5 * (15 - i - 8));
  }
}

TEST(ReferenceDequantise, Q5_0) {
  TestTensor block(DType::q5_0, {32});
  uint8_t* bytes = block.host().as<uint8_t>();
  bytes[0] = 0x00, bytes[1] = 0xc0;  // -2
  for (int i = 0; i < 16; ++i) bytes[6 + i] = static_cast<uint8_t>(i | i << 4);
  bytes[2] = 0x01, bytes[3] = 0x00, bytes[4] = 0x00, bytes[5] = 0x80;  // the fifth bit of elements 0 and 31
  EXPECT_EQ(block.get(0), -2.0 * (16 - 16));
  EXPECT_EQ(block.get(1), -2.0 * (1 - 16));
  EXPECT_EQ(block.get(30), -2.0 * (14 - 16));
  EXPECT_EQ(block.get(31), -2.0 * (31 - 16));
}

TEST(ReferenceDequantise, Q8_0) {
  TestTensor blocks(DType::q8_0, {64});
  uint8_t* bytes = blocks.host().as<uint8_t>();
  for (int b = 0; b < 2; ++b) {
    bytes[34 * b] = 0x00, bytes[34 * b + 1] = b == 0 ? 0x3c : 0x40;  // 1, 2
    for (int i = 0; i < 32; ++i) bytes[34 * b + 2 + i] = static_cast<uint8_t>(i - 16);
  }
  for (int i = 0; i < 64; ++i) EXPECT_EQ(blocks.get(i), (i < 32 ? 1.0 : 2.0) * (i % 32 - 16));
}

TEST(ReferenceDequantise, Q4_K) {
  TestTensor block(DType::q4_k, {256});
  uint8_t* bytes = block.host().as<uint8_t>();
  bytes[0] = 0x00, bytes[1] = 0x3c, bytes[2] = 0x00, bytes[3] = 0x38;  // d = 1, dmin = 0.5
  const int scales[8] = {1, 2, 3, 63, 17, 33, 48, 60}, minima[8] = {5, 0, 62, 7, 16, 31, 49, 63};
  uint8_t* packed = bytes + 4;
  for (int i = 0; i < 4; ++i) {
    packed[i] = static_cast<uint8_t>(scales[i] | (scales[i + 4] >> 4) << 6);
    packed[i + 4] = static_cast<uint8_t>(minima[i] | (minima[i + 4] >> 4) << 6);
    packed[i + 8] = static_cast<uint8_t>((scales[i + 4] & 15) | (minima[i + 4] & 15) << 4);
  }
  for (int i = 0; i < 128; ++i) bytes[16 + i] = static_cast<uint8_t>((i % 16) | (15 - i % 16) << 4);
  for (int i = 0; i < 256; ++i) {
    const int sub = i / 32, j = i % 32, code = sub % 2 == 0 ? j % 16 : 15 - j % 16;
    EXPECT_EQ(block.get(i), scales[sub] * code - 0.5 * minima[sub]) << i;
  }
}

TEST(ReferenceDequantise, Q6_K) {
  TestTensor block(DType::q6_k, {256});
  uint8_t* bytes = block.host().as<uint8_t>();
  std::memset(bytes, 0, 210);
  bytes[208] = 0x00, bytes[209] = 0x3c;
  for (int i = 0; i < 16; ++i) bytes[192 + i] = static_cast<uint8_t>(i - 8);
  int codes[256];
  for (int i = 0; i < 256; ++i) {
    codes[i] = (i * 37 + 11) % 64;
    const int half = i / 128, r = i % 128;  // element r of a half: row r / 32 of four rows of 32
    const int row = r / 32, col = r % 32;
    bytes[half * 64 + (row & 1) * 32 + col] |= static_cast<uint8_t>((codes[i] & 15) << (row >= 2 ? 4 : 0));
    bytes[128 + half * 32 + col] |= static_cast<uint8_t>((codes[i] >> 4) << (2 * row));
  }
  for (int i = 0; i < 256; ++i) EXPECT_EQ(block.get(i), (i / 16 - 8) * (codes[i] - 32)) << i;
}

// ---- Norm ----

TestTensor norm(TestTensor x, double eps = 1e-6) {
  const int64_t cols = x.host().dim(-1), rows = x.size() / cols;
  TestTensor gamma(x.dtype(), {cols}), y(x.dtype(), {rows, cols});
  gamma.fill(1.0);
  rms_norm_reference_run({.y = y.host(),
                          .residual = {},
                          .x = x.host(),
                          .gamma = gamma.host(),
                          .beta = {},
                          .eps = static_cast<float>(eps)});
  return y;
}

TEST(ReferenceNorm, HalfSquaresDoNotOverflow) {  // N-01
  EXPECT_EQ(norm(TestTensor::of(DType::f16, {1, 8}, {300, -300, 300, -300, 300, -300, 300, -300})).values(),
            (std::vector<double>{1, -1, 1, -1, 1, -1, 1, -1}));
  EXPECT_EQ(norm(TestTensor::of(DType::f16, {1, 3}, {65504, 65504, 65504})).values(), (std::vector<double>{1, 1, 1}));
}

TEST(ReferenceNorm, LargeMeanKeepsItsDigits) {  // N-02's input: nothing here may cancel
  const TestTensor y = norm(TestTensor::of(DType::f32, {1, 4}, {40000, 40001, 40002, 40003}));
  const double root = std::sqrt((40000.0 * 40000 + 40001.0 * 40001 + 40002.0 * 40002 + 40003.0 * 40003) / 4);
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(y.get(i), (40000 + static_cast<double>(i)) / root, 1e-7);
}

TEST(ReferenceNorm, ResidualOffsetAndBeta) {
  TestTensor x = TestTensor::of(DType::f32, {1, 2}, {1, 2}), residual = TestTensor::of(DType::f32, {1, 2}, {2, 2});
  TestTensor gamma = TestTensor::of(DType::f32, {1, -1}), beta = TestTensor::of(DType::f32, {10, 20}),
             y(DType::f32, {1, 2});
  rms_norm_reference_run({y.host(), residual.host(), x.host(), gamma.host(), beta.host(), 0.0f, 1.0f});
  EXPECT_EQ(residual.values(), (std::vector<double>{3, 4}));
  EXPECT_NEAR(y.get(0), 3 / std::sqrt(12.5) * 2 + 10, 1e-6);
  EXPECT_EQ(y.get(1), 20.0);  // gamma -1 with offset 1 is 0
  EXPECT_EQ(x.values(), (std::vector<double>{1, 2}));
}

TEST(ReferenceNorm, NormalisesTheStoredSum) {
  // 1 + 2^-9 is stored as 1 in bf16: both elements must come out equal.
  TestTensor x = TestTensor::of(DType::bf16, {1, 2}, {0x1p-9, 0}),
             residual = TestTensor::of(DType::bf16, {1, 2}, {1, 1});
  TestTensor gamma = TestTensor::of(DType::f32, {1, 1}), y(DType::bf16, {1, 2});
  rms_norm_reference_run(
      {.y = y.host(), .residual = residual.host(), .x = x.host(), .gamma = gamma.host(), .beta = {}, .eps = 0.0f});
  EXPECT_EQ(residual.values(), (std::vector<double>{1, 1}));
  EXPECT_EQ(y.get(0), y.get(1));
}

TEST(ReferenceNorm, StridedHeadsEqualAPackedCopy) {  // N-03
  TestTensor buffer = TestTensor::random(DType::bf16, {4, 4096}, 7), gamma = TestTensor::random(DType::bf16, {128}, 8);
  TensorView q = buffer.host().slice(1, 0, 2048);
  q.rank = 3;
  q.extent = {4, 16, 128};
  q.stride = {4096, 128, 1};
  TestTensor packed(DType::bf16, {4, 16, 128});
  for (int64_t i = 0; i < packed.size(); ++i) packed.set(i, reference::get(q, i / 2048 * 4096 + i % 2048));
  TestTensor a(DType::bf16, {4, 16, 128}, {.padding = {5, 3}}), b(DType::bf16, {4, 16, 128});
  rms_norm_reference_run({.y = a.host(), .residual = {}, .x = q, .gamma = gamma.host(), .beta = {}});
  rms_norm_reference_run({.y = b.host(), .residual = {}, .x = packed.host(), .gamma = gamma.host(), .beta = {}});
  EXPECT_TRUE(is_identical(a, b));
  EXPECT_TRUE(a.guards_intact());
}

// ---- RoPE ----

TEST(ReferenceRopeTable, AnglesAreExactEnough) {
  std::vector<float> cos(131073 * 16), sin(cos.size());
  build_rope_table(cos.data(), sin.data(), 131073, 32, 10000.0);
  EXPECT_NEAR(cos[1857 * 16 + 1], 0.306693, 1e-6);
  EXPECT_NEAR(sin[1857 * 16 + 1], 0.951809, 1e-6);
  for (const int64_t position : {int64_t{0}, int64_t{1}, int64_t{257}, int64_t{4096}, int64_t{8191}, int64_t{131072}}) {
    for (int64_t pair = 0; pair < 16; ++pair) {
      const long double angle =
          static_cast<long double>(position) * std::pow(10000.0L, -static_cast<long double>(pair) / 16.0L);
      const double bound = static_cast<double>(position) * 0x1p-23 + 0x1p-24;
      EXPECT_LE(std::abs(cos[static_cast<size_t>(position * 16 + pair)] - std::cos(angle)), bound);
      EXPECT_LE(std::abs(sin[static_cast<size_t>(position * 16 + pair)] - std::sin(angle)), bound);
    }
  }
}

TEST(ReferenceRopeTable, Llama3Scaling) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::llama3;
  scaling.factor = 8, scaling.low_freq_factor = 1, scaling.high_freq_factor = 4, scaling.original_context = 8192;
  const std::vector<double> plain = rope_frequencies(128, 500000.0), scaled = rope_frequencies(128, 500000.0, scaling);
  ASSERT_EQ(plain.size(), 64u);
  const auto ratio = [&](size_t pair) { return scaled[pair] / plain[pair]; };
  for (size_t pair = 0; pair <= 28; ++pair) EXPECT_EQ(ratio(pair), 1.0) << pair;
  EXPECT_NEAR(ratio(29), 0.828168, 1e-6);
  EXPECT_NEAR(ratio(31), 0.493507, 1e-6);
  EXPECT_NEAR(ratio(34), 0.190211, 1e-6);
  for (size_t pair = 35; pair < 64; ++pair) EXPECT_NEAR(ratio(pair), 0.125, 1e-15) << pair;
}

TEST(ReferenceRopeTable, LinearAndDivisors) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::linear;
  scaling.factor = 4;
  EXPECT_EQ(rope_frequencies(4, 100.0, scaling), (std::vector<double>{0.25, 0.025}));
  scaling = {};
  scaling.frequency_divisors = {1.0f, 2.0f};
  EXPECT_EQ(rope_frequencies(4, 100.0, scaling), (std::vector<double>{1.0, 0.05}));
}

TEST(ReferenceRopeTable, RefusesBadSizes) {
  const auto refused = [](const std::string& word, auto call) {
    expect_error(ErrorCode::invalid_argument, {"rope table", word}, call);
  };
  refused("rotary_dim", [] { rope_frequencies(3, 10000.0); });
  refused("rotary_dim", [] { rope_frequencies(0, 10000.0); });
  refused("base", [] { rope_frequencies(4, 0.0); });
  refused("base", [] { rope_frequencies(4, std::nan("")); });
  refused("frequency_divisors", [] { rope_frequencies(4, 10.0, {.frequency_divisors = {1.0f}}); });
  refused("frequency_divisors", [] { rope_frequencies(2, 10.0, {.frequency_divisors = {0.0f}}); });
  refused("factor", [] { rope_frequencies(4, 10.0, {.kind = RopeScaling::Kind::linear, .factor = 0.0}); });
  refused("high_freq_factor", [] {
    rope_frequencies(4, 10.0, {.kind = RopeScaling::Kind::llama3, .low_freq_factor = 4.0, .high_freq_factor = 4.0});
  });
  refused("max_position", [] { build_rope_table(nullptr, nullptr, -1, 2, 10.0); });
  refused("cos, sin", [] { build_rope_table(nullptr, nullptr, 1, 2, 10.0); });
}

TEST(ReferenceRope, PairsPartAndClamp) {
  // A quarter turn at position 1, none at position 0; elements 4, 5 are beyond rotary_dim.
  TestTensor cos = TestTensor::of(DType::f32, {2, 2}, {1, 1, 0, 0}),
             sin = TestTensor::of(DType::f32, {2, 2}, {0, 0, 1, 1});
  TestTensor q = TestTensor::of(DType::f32, {3, 1, 6}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}),
             out(DType::f32, {3, 1, 6});
  TestTensor positions = TestTensor::of(DType::i64, {0, 1, 9}), status = TestTensor::of(DType::i32, {0, 0, 0});
  RopeArgs args{.q_out = out.host(),
                .k_out = {},
                .q = q.host(),
                .k = {},
                .positions = positions.host(),
                .cos = cos.host(),
                .sin = sin.host(),
                .status = status.host(),
                .rotary_dim = 4,
                .interleaved = false};
  rope_reference_run(args);
  EXPECT_EQ(out.values(), (std::vector<double>{1, 2, 3, 4, 5, 6, -3, -4, 1, 2, 5, 6, -3, -4, 1, 2, 5, 6}));
  EXPECT_EQ(status.values(), (std::vector<double>{0, 0, 1}));
  args.interleaved = true;
  rope_reference_run(args);
  EXPECT_EQ(out.values(), (std::vector<double>{1, 2, 3, 4, 5, 6, -2, 1, -4, 3, 5, 6, -2, 1, -4, 3, 5, 6}));
}

// ---- Activations ----

double activation(Activation kind, double gate, double up = 1.0) {
  TestTensor g = TestTensor::of(DType::f32, {1, 1}, {gate}), u = TestTensor::of(DType::f32, {1, 1}, {up}),
             y(DType::f32, {1, 1});
  gated_activation_reference_run({y.host(), g.host(), u.host(), kind});
  return y.get(0);
}

TEST(ReferenceActivation, SaturatesWithoutNaN) {
  for (const double x : {8.0, 10.5, 11.0, 100.0, 1e30})
    EXPECT_EQ(activation(Activation::gelu_tanh, x), static_cast<double>(static_cast<float>(x)));
  for (const double x : {-8.0, -10.5, -100.0, -1e30}) EXPECT_NEAR(activation(Activation::gelu_tanh, x), 0.0, 1e-6);
  for (const Activation kind : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf}) {
    EXPECT_EQ(activation(kind, kInf), kInf);
    EXPECT_EQ(activation(kind, -kInf), 0.0);
    EXPECT_EQ(activation(kind, 0.0), 0.0);
    EXPECT_TRUE(std::isnan(activation(kind, kNaN)));
  }
  EXPECT_EQ(activation(Activation::silu, -200.0), 0.0);
}

TEST(ReferenceActivation, KnownValues) {
  EXPECT_NEAR(activation(Activation::silu, 1.0, 3.0), 3.0 * 0.7310585786300049, 1e-6);
  EXPECT_NEAR(activation(Activation::gelu_erf, 1.0), 0.8413447460685429, 1e-7);
  EXPECT_NEAR(activation(Activation::gelu_tanh, 1.0), 0.8411919906082768, 1e-7);
  EXPECT_NEAR(activation(Activation::gelu_erf, -5.0), -5.0 * 2.866515718791939e-07, 1e-12);
}

// ---- Softmax ----

TestTensor softmax_of(TestTensor x, bool log, double scale = 1.0) {
  TestTensor y(DType::f32, {1, x.size()});
  softmax_reference_run({y.host(), x.host(), static_cast<float>(scale), log});
  return y;
}

TEST(ReferenceSoftmax, RowsWithoutAnyWeight) {  // S-01
  EXPECT_EQ(softmax_of(TestTensor::of(DType::f32, {1, 3}, {-kInf, -kInf, -kInf}), false).values(),
            (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(softmax_of(TestTensor::of(DType::f32, {1, 3}, {-kInf, -kInf, -kInf}), true).values(),
            (std::vector<double>{-kInf, -kInf, -kInf}));
  EXPECT_EQ(softmax_of(TestTensor::of(DType::f32, {1, 3}, {-kInf, 7, -kInf}), false).values(),
            (std::vector<double>{0, 1, 0}));
}

TEST(ReferenceSoftmax, KnownValues) {
  const TestTensor y = softmax_of(TestTensor::of(DType::f32, {1, 2}, {0, std::numbers::ln2 / 2}), false, 2.0);
  EXPECT_NEAR(y.get(0), 1.0 / 3, 1e-7);
  EXPECT_NEAR(y.get(1), 2.0 / 3, 1e-7);
  TestTensor x(DType::f32, {1, 1000});
  x.fill(-1000.0);
  const TestTensor z = softmax_of(x, true);
  for (int64_t i = 0; i < 1000; ++i) EXPECT_NEAR(z.get(i), -6.907755, 1e-6);
}

// ---- Embedding and cache ----

TEST(ReferenceEmbedding, ScaleStatusAndZeros) {
  TestTensor table = TestTensor::of(DType::f32, {2, 2}, {1, 2, 3, 4}), ids = TestTensor::of(DType::i32, {1, -1, 2, 0}),
             y(DType::f16, {4, 2});
  TestTensor status = TestTensor::of(DType::i32, {0, 0, 0, 0});
  embedding_reference_run({y.host(), table.host(), ids.host(), status.host(), 0.5f});
  EXPECT_EQ(y.values(), (std::vector<double>{1.5, 2, 0, 0, 0, 0, 0.5, 1}));
  EXPECT_EQ(status.values(), (std::vector<double>{0, 1, 1, 0}));
}

TEST(ReferenceKvAppend, OnlyNamedSlotsChange) {  // five slots for eight padded keys; negative ones skipped
  TestTensor k = TestTensor::random(DType::f32, {8, 2, 3}, 1), v = TestTensor::random(DType::f32, {8, 2, 3}, 2);
  TestTensor keys(DType::f32, {3, 2, 2, 3}, {.padding = {5, 2, 1}}), values(DType::f32, {3, 2, 2, 3});
  TestTensor slots = TestTensor::of(DType::i64, {3, -1, 0, 5, -7}),
             status = TestTensor::of(DType::i32, {0, 0, 0, 0, 0});
  kv_append_reference_run({keys.host(), values.host(), k.host(), v.host(), slots.host(), status.host()});
  EXPECT_TRUE(keys.guards_intact() && values.guards_intact());
  EXPECT_EQ(status.values(), (std::vector<double>(5, 0.0)));
  const int64_t token_of_slot[6] = {2, -1, -1, 0, -1, 3};
  for (int64_t i = 0; i < keys.size(); ++i) {
    const int64_t page = i / 12, head = i / 6 % 2, slot = page * 2 + i / 3 % 2, token = token_of_slot[slot];
    if (token < 0) {
      EXPECT_TRUE(std::isnan(keys.get(i)) && std::isnan(values.get(i))) << i;
    } else {
      EXPECT_EQ(keys.get(i), k.get((token * 2 + head) * 3 + i % 3));
      EXPECT_EQ(values.get(i), v.get((token * 2 + head) * 3 + i % 3));
    }
  }
}

TEST(ReferenceKvAppend, SlotPastTheEndSetsStatus) {
  TestTensor k = TestTensor::of(DType::f32, {1, 1, 1}, {2}), keys(DType::f32, {1, 1, 2, 1}),
             values(DType::f32, {1, 1, 2, 1});
  TestTensor slots = TestTensor::of(DType::i32, {2}), status = TestTensor::of(DType::i32, {0});
  kv_append_reference_run({keys.host(), values.host(), k.host(), k.host(), slots.host(), status.host()});
  EXPECT_EQ(status.get(0), 1.0);
  EXPECT_TRUE(std::isnan(keys.get(0)) && std::isnan(keys.get(1)) && keys.guards_intact());
}

// ---- Attention ----

struct DenseCase {
  std::vector<double> out, lse;
};

/// One head of size 1, q = 0 (uniform weights), v[j] = j + 1.
DenseCase uniform_attention(int64_t queries, int64_t keys, bool causal, int64_t window = 0) {
  TestTensor q(DType::f32, {queries, 1, 1}), k(DType::f32, {keys, 1, 1}), v(DType::f32, {keys, 1, 1}),
      out(DType::f32, {queries, 1, 1});
  TestTensor lse(DType::f32, {queries, 1});
  q.fill(0.0);
  k.fill(1.0);
  for (int64_t j = 0; j < keys; ++j) v.set(j, static_cast<double>(j + 1));
  TestTensor kv_start = TestTensor::of(DType::i32, {0}),
             kv_length = TestTensor::of(DType::i32, {static_cast<double>(keys)});
  TestTensor q_start = TestTensor::of(DType::i32, {0, static_cast<double>(queries)});
  AttentionArgs args;
  args.out = out.host(), args.q = q.host(), args.key_cache = k.host(), args.value_cache = v.host(),
  args.log_sum_exp = lse.host();
  args.kv_start = kv_start.host(), args.kv_length = kv_length.host(), args.q_start = q_start.host();
  args.causal = causal, args.window = window, args.max_query = queries;
  attention_reference_run(args);
  return {out.values(), lse.values()};
}

TEST(ReferenceAttention, CausalAlignsBottomRight) {  // S-02
  EXPECT_EQ(uniform_attention(2, 5, true).out, (std::vector<double>{2.5, 3.0}));
  const DenseCase more_queries = uniform_attention(5, 2, true);
  EXPECT_EQ(more_queries.out, (std::vector<double>{0, 0, 0, 1, 1.5}));
  EXPECT_EQ(more_queries.lse[0], -kInf);
  EXPECT_EQ(more_queries.lse[3], 0.0);
  EXPECT_NEAR(more_queries.lse[4], std::numbers::ln2, 1e-6);
  EXPECT_EQ(uniform_attention(3, 128, true).out, (std::vector<double>{63.5, 64.0, 64.5}));
}

TEST(ReferenceAttention, WindowAndFull) {
  EXPECT_EQ(uniform_attention(2, 5, true, 2).out, (std::vector<double>{3.5, 4.5}));
  EXPECT_EQ(uniform_attention(2, 5, false).out, (std::vector<double>{3, 3}));
  EXPECT_EQ(uniform_attention(2, 5, false, 2).out, (std::vector<double>{4.5, 4.5}));
}

TEST(ReferenceAttention, NoKeys) {  // S-01: zeros and -inf
  const DenseCase result = uniform_attention(2, 0, true);
  EXPECT_EQ(result.out, (std::vector<double>{0, 0}));
  EXPECT_EQ(result.lse, (std::vector<double>{-kInf, -kInf}));
}

TEST(ReferenceAttention, ScoresScaleAndSoftcap) {
  // Scores 2 and 4 before the scale; the cap turns x into 2 tanh(x / 2).
  TestTensor q = TestTensor::of(DType::f32, {1, 1, 2}, {1, 1}), k = TestTensor::of(DType::f32, {2, 1, 2}, {1, 1, 2, 2});
  TestTensor v = TestTensor::of(DType::f32, {2, 1, 1}, {0, 1}), out(DType::f32, {1, 1, 1}), lse(DType::f32, {1, 1});
  TestTensor kv_start = TestTensor::of(DType::i32, {0}), kv_length = TestTensor::of(DType::i32, {2}),
             q_start = TestTensor::of(DType::i32, {0, 1});
  AttentionArgs args;
  args.out = out.host(), args.q = q.host(), args.key_cache = k.host(), args.value_cache = v.host(),
  args.log_sum_exp = lse.host();
  args.kv_start = kv_start.host(), args.kv_length = kv_length.host(), args.q_start = q_start.host();
  const auto check = [&](double first, double second) {
    attention_reference_run(args);
    EXPECT_NEAR(out.get(0), 1.0 / (1.0 + std::exp(first - second)), 1e-6);
    EXPECT_NEAR(lse.get(0), std::log(std::exp(first) + std::exp(second)), 1e-6);
  };
  check(2 / std::numbers::sqrt2, 4 / std::numbers::sqrt2);
  args.scale = 0.5f;
  check(1, 2);
  args.softcap = 2.0f;
  check(2 * std::tanh(0.5), 2 * std::tanh(1.0));
}

TEST(ReferenceAttention, PagedEqualsDense) {
  // Two sequences, four heads on two kv_heads, pages of 4 in scattered order; unused pages and entries hold NaN and
  // nonsense.
  const int64_t lengths[2] = {7, 4}, starts[2] = {1, 9};
  TestTensor q = TestTensor::random(DType::f32, {5, 4, 6}, 1), k = TestTensor::random(DType::f32, {14, 2, 6}, 2),
             v = TestTensor::random(DType::f32, {14, 2, 3}, 3);
  TestTensor keys(DType::f32, {6, 2, 4, 6}), values(DType::f32, {6, 2, 4, 3}), a(DType::f32, {5, 4, 3}),
      b(DType::f32, {5, 4, 3});
  TestTensor table = TestTensor::of(DType::i32, {2, 3}, {5, 2, -1, 0, 99, -7});
  for (int64_t s = 0; s < 2; ++s) {
    for (int64_t j = 0; j < lengths[s]; ++j) {
      const int64_t page = static_cast<int64_t>(table.get(s * 3 + j / 4));
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t i = 0; i < 6; ++i)
          keys.set(((page * 2 + h) * 4 + j % 4) * 6 + i, k.get(((starts[s] + j) * 2 + h) * 6 + i));
        for (int64_t i = 0; i < 3; ++i)
          values.set(((page * 2 + h) * 4 + j % 4) * 3 + i, v.get(((starts[s] + j) * 2 + h) * 3 + i));
      }
    }
  }
  TestTensor kv_start = TestTensor::of(DType::i32, {1, 9}), kv_length = TestTensor::of(DType::i32, {7, 4}),
             q_start = TestTensor::of(DType::i32, {0, 3, 5});
  AttentionArgs args;
  args.q = q.host(), args.kv_length = kv_length.host(), args.q_start = q_start.host(), args.max_query = 3;
  args.out = a.host(), args.key_cache = k.host(), args.value_cache = v.host(), args.kv_start = kv_start.host();
  attention_reference_run(args);
  args.out = b.host(), args.key_cache = keys.host(), args.value_cache = values.host(), args.kv_start = {},
  args.block_table = table.host();
  plan<AttentionArgs>(Device{}, args);  // nonsense past the used length is no error
  attention_reference_run(args);
  EXPECT_TRUE(is_identical(a, b));
  for (int64_t i = 0; i < a.size(); ++i) EXPECT_TRUE(std::isfinite(a.get(i)));
}

TEST(ReferenceAttention, LengthAgainstTable) {  // P-02
  TestTensor q = TestTensor::random(DType::f32, {1, 1, 2}, 1), keys = TestTensor::random(DType::f32, {4, 1, 16, 2}, 2),
             out(DType::f32, {1, 1, 2});
  TestTensor table = TestTensor::of(DType::i32, {1, 2}, {3, 0}), kv_length = TestTensor::of(DType::i32, {32}),
             q_start = TestTensor::of(DType::i32, {0, 1});
  AttentionArgs args;
  args.q = q.host(), args.out = out.host(), args.key_cache = args.value_cache = keys.host(),
  args.block_table = table.host();
  args.kv_length = kv_length.host(), args.q_start = q_start.host();
  EXPECT_NO_THROW(plan<AttentionArgs>(Device{}, args));
  kv_length.set(0, 33);
  expect_error(ErrorCode::invalid_argument, {"attention", "kv_length", "33", "32"},
               [&] { plan<AttentionArgs>(Device{}, args); });
  kv_length.set(0, -1);
  expect_error(ErrorCode::invalid_argument, {"attention", "kv_length", "-1"},
               [&] { plan<AttentionArgs>(Device{}, args); });
  kv_length.set(0, 17);
  for (const double bad : {-1.0, 4.0}) {
    table.assign({3, bad});
    expect_error(ErrorCode::invalid_argument, {"attention", "block_table", "column 1"},
                 [&] { plan<AttentionArgs>(Device{}, args); });
  }
  kv_length.set(0, 16);  // the bad entry is no longer used
  EXPECT_NO_THROW(plan<AttentionArgs>(Device{}, args));
  table.assign({-1, 1});  // given away: wholly before the window
  kv_length.set(0, 20);
  args.window = 4;
  EXPECT_NO_THROW(plan<AttentionArgs>(Device{}, args));
  args.window = 5;
  expect_error(ErrorCode::invalid_argument, {"attention", "block_table", "column 0"},
               [&] { plan<AttentionArgs>(Device{}, args); });
}

TEST(ReferenceAttention, BadPageIsClampedAndFlagged) {
  TestTensor q = TestTensor::random(DType::f32, {2, 1, 2}, 1), keys = TestTensor::random(DType::f32, {2, 1, 2, 2}, 2),
             out(DType::f32, {2, 1, 2});
  TestTensor table = TestTensor::of(DType::i32, {2, 1}, {7, 1}), kv_length = TestTensor::of(DType::i32, {2, 2}),
             q_start = TestTensor::of(DType::i32, {0, 1, 2});
  TestTensor status = TestTensor::of(DType::i32, {0, 0}), good = out;
  AttentionArgs args;
  args.q = q.host(), args.key_cache = args.value_cache = keys.host(), args.block_table = table.host();
  args.kv_length = kv_length.host(), args.q_start = q_start.host(), args.status = status.host();
  args.out = out.host();
  attention_reference_run(args);
  EXPECT_EQ(status.values(), (std::vector<double>{1, 0}));
  table.set(0, 1);
  args.out = good.host();
  attention_reference_run(args);
  EXPECT_TRUE(is_identical(out, good));
}

// ---- GEMM ----

TEST(ReferenceGemm, HandMade) {
  TestTensor a = TestTensor::of(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6}),
             b = TestTensor::of(DType::f16, {2, 3}, {1, 0, -1, 2, 2, 2});
  TestTensor c(DType::f32, {2, 2}, {.padding = {3}}),
      bias = TestTensor::of(DType::f32, {10, 20}), residual = TestTensor::of(DType::f32, {2, 2}, {100, 200, 300, 400});
  gemm_reference_run({c.host(), a.host(), b.host(), {}, {}, ProductCast::none});
  EXPECT_EQ(c.values(), (std::vector<double>{-2, 12, -2, 30}));
  gemm_reference_run({c.host(), a.host(), b.host(), bias.host(), residual.host(), ProductCast::none});
  EXPECT_EQ(c.values(), (std::vector<double>{108, 232, 308, 450}));
  EXPECT_TRUE(c.guards_intact());
}

TEST(ReferenceGemm, InnerDimensionOneAndZero) {  // G-01
  TestTensor a = TestTensor::of(DType::bf16, {1, 1}, {3}), b(DType::bf16, {128, 1}, {.padding = {2}}),
             c(DType::f32, {1, 128});
  for (int64_t i = 0; i < 128; ++i) b.set(i, static_cast<double>(i));
  gemm_reference_run({c.host(), a.host(), b.host(), {}, {}, ProductCast::none});
  for (int64_t i = 0; i < 128; ++i) EXPECT_EQ(c.get(i), 3.0 * static_cast<double>(i));

  TestTensor none_a(DType::f32, {2, 0}), none_b(DType::f32, {3, 0}), out(DType::f32, {2, 3}),
      bias = TestTensor::of(DType::f32, {1, 2, 3});
  run_on<GemmArgs>(Device{}, {&out},
                   [&](const At& at) { return GemmArgs{at(out), at(none_a), at(none_b), {}, {}, ProductCast::none}; });
  EXPECT_EQ(out.values(), (std::vector<double>(6, 0.0)));
  run_on<GemmArgs>(Device{}, {&out}, [&](const At& at) {
    return GemmArgs{at(out), at(none_a), at(none_b), at(bias), {}, ProductCast::none};
  });
  EXPECT_EQ(out.values(), (std::vector<double>{1, 2, 3, 1, 2, 3}));
}

TEST(ReferenceGemm, LargeActivationsStayFinite) {  // 70000 is beyond fp16
  TestTensor a = TestTensor::of(DType::f32, {1, 1}, {70000}), b = TestTensor::of(DType::f16, {1, 1}, {0x1p-10}),
             c(DType::f32, {1, 1});
  gemm_reference_run({c.host(), a.host(), b.host(), {}, {}, ProductCast::none});
  EXPECT_EQ(c.get(0), 68.359375);
}

TEST(ReferenceGemm, Int8Blocks) {
  // Second block all zero; the first has max 127, so codes are the values rounded half to even.
  TestTensor a(DType::f32, {1, 64}), b = TestTensor(DType::q8_0, {1, 64}), c(DType::f32, {1, 1});
  a.fill(0.0);
  a.set(0, 127), a.set(1, 0.5), a.set(2, 1.5), a.set(3, -2.5), a.set(4, 99.4);
  uint8_t* bytes = b.host().as<uint8_t>();
  std::memset(bytes, 0, 68);
  for (int block = 0; block < 2; ++block) bytes[34 * block + 1] = 0x3c;  // scale 1
  for (int i = 0; i < 5; ++i) {
    std::memset(bytes + 2, 0, 32);
    bytes[2 + i] = 1;
    gemm_reference_run({c.host(), a.host(), b.host(), {}, {}, ProductCast::int8_block});
    const double wanted[5] = {127, 0, 2, -2, 99};
    EXPECT_EQ(c.get(0), wanted[i]) << i;
  }
}

// ---- Sampling ----

TEST(ReferenceRandom, PhiloxKnownAnswers) {  // the published test vectors of Philox4x32-10
  const auto expect = [](random::Words counter, uint64_t key, std::array<uint32_t, 4> wanted) {
    const random::Words got = random::philox4x32_10(counter, key);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(got.w[i], wanted[i]);
  };
  expect({{0, 0, 0, 0}}, 0, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  expect({{~0u, ~0u, ~0u, ~0u}}, ~uint64_t{0}, {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  expect({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0x299f31d0a4093822u,
         {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST(ReferenceRandom, GumbelIsAccurate) {
  static_assert(random::uniform(0) > 0.0f && random::uniform(~0u) < 1.0f);
  RandomData data(3);
  for (int i = 0; i < 200000; ++i) {
    uint32_t bits = static_cast<uint32_t>(data.bits());
    if (i < 1000) bits = static_cast<uint32_t>(i);                                      // u near 0
    if (i >= 1000 && i < 2000) bits = ~static_cast<uint32_t>(i - 1000);                 // u near 1
    const long double below = (2.0L * static_cast<uint32_t>(~bits) + 1.0L) * 0x1p-33L;  // 1 - u, exact
    const long double exponential = -std::log1p(-below);
    EXPECT_NEAR(static_cast<double>(random::gumbel_q24(bits)) * 0x1p-24, static_cast<double>(-std::log(exponential)),
                0x1p-23)
        << bits;
  }
}

TEST(ReferenceRandom, BitsDependOnEveryPartOfTheCounter) {
  using random::Purpose;
  const uint32_t first = random::bits(1, 2, Purpose::sample, 3);
  for (const uint32_t other :
       {random::bits(2, 2, Purpose::sample, 3), random::bits(uint64_t{1} << 32 | 1, 2, Purpose::sample, 3),
        random::bits(1, 3, Purpose::sample, 3), random::bits(1, (int64_t{1} << 32) + 2, Purpose::sample, 3),
        random::bits(1, 2, Purpose::accept, 3), random::bits(1, 2, Purpose::sample, 4)}) {
    EXPECT_NE(first, other);
  }
}

struct Draws {
  std::vector<double> ids, status;
};

/// One row of logits, drawn at `count` positions.
struct SampleRow {
  std::vector<double> logits;
  double temperature = 1, top_k = 0, top_p = 1, min_p = 0;
  Draws draw(int64_t count, int64_t seed = 11) const {
    const int64_t cols = static_cast<int64_t>(logits.size());
    TestTensor table(DType::f32, {count, cols}), ids(DType::i32, {count}), status(DType::i32, {count});
    TestTensor t(DType::f32, {count}), k(DType::i32, {count}), p(DType::f32, {count}), m(DType::f32, {count}),
        seeds(DType::i64, {count}), positions(DType::i64, {count});
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t i = 0; i < cols; ++i) table.set(r * cols + i, logits[static_cast<size_t>(i)]);
      seeds.set_integer(r, seed);
      positions.set_integer(r, r);
    }
    t.fill(temperature), k.fill(top_k), p.fill(top_p), m.fill(min_p);
    SampleArgs args;
    args.ids = ids.host(), args.status = status.host(), args.logits = table.host(), args.temperature = t.host(),
    args.top_k = k.host();
    args.top_p = p.host(), args.min_p = m.host(), args.seeds = seeds.host(), args.positions = positions.host();
    sample_reference_run(args);
    return {ids.values(), status.values()};
  }
  /// Which tokens ever come out, and how often.
  std::vector<int> counts(int64_t draws) const {
    std::vector<int> result(logits.size(), 0);
    for (const double id : draw(draws).ids) ++result[static_cast<size_t>(id)];
    return result;
  }
  std::vector<size_t> kept(int64_t draws = 400) const {
    std::vector<size_t> result;
    const std::vector<int> list = counts(draws);
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] > 0) result.push_back(i);
    }
    return result;
  }
};

TEST(ReferenceArgmax, TiesNaNAndNoToken) {
  TestTensor logits = TestTensor::of(DType::f32, {5, 3},
                                     {1, 3, 3, kNaN, -2, kNaN, -kInf, -kInf, -kInf, kNaN, -kInf, kNaN, 0, kInf, kInf});
  TestTensor ids(DType::i32, {5}), status(DType::i32, {5});
  argmax_reference_run({ids.host(), logits.host(), status.host()});
  EXPECT_EQ(ids.values(), (std::vector<double>{1, 1, 0, 0, 1}));
  EXPECT_EQ(status.values(), (std::vector<double>{row_ok, row_ok, row_no_valid_token, row_no_valid_token, row_ok}));
}

TEST(ReferenceSample, TopKBeyondTheVocabulary) {  // T-01
  std::vector<double> logits(128);
  for (size_t i = 0; i < 128; ++i) logits[i] = std::sin(static_cast<double>(i));
  SampleRow row{.logits = logits};
  const std::vector<double> off = row.draw(200).ids;
  for (const double k : {9999999.0, 128.0, 129.0, -1.0}) {
    row.top_k = k;
    EXPECT_EQ(row.draw(200).ids, off) << k;
  }
  row.top_k = 1;
  EXPECT_EQ(row.kept(), (std::vector<size_t>{33}));  // sin(33) = 0.99991 is the largest
}

TEST(ReferenceSample, GreedyRowsKeepMaskedTokensOut) {  // T-02
  for (const double temperature : {0.0, 1e-8, 1e-45, -1.0}) {
    const Draws draws = SampleRow{.logits = {2, -kInf, 5, -kInf}, .temperature = temperature}.draw(20);
    EXPECT_EQ(draws.ids, (std::vector<double>(20, 2.0)));
    EXPECT_EQ(draws.status, (std::vector<double>(20, 0.0)));
  }
  const std::vector<int> uniform = SampleRow{.logits = {0, 0, 0, 0}}.counts(4000);
  for (const int count : uniform) EXPECT_NEAR(count, 1000, 120);  // 4.4 standard deviations of 27
}

TEST(ReferenceSample, RowsWithoutTokens) {  // T-04
  EXPECT_EQ(SampleRow{.logits = std::vector<double>(8, -kInf)}.draw(1).status[0], row_no_valid_token);
  EXPECT_EQ(SampleRow{.logits = std::vector<double>(8, -kInf)}.draw(1).ids[0], 0.0);
  const std::vector<double> one = {-kInf, -kInf, -kInf, -9, -kInf, -kInf, -kInf, -kInf};
  for (const double min_p : {0.0, 1.0})
    EXPECT_EQ((SampleRow{.logits = one, .min_p = min_p}.kept()), (std::vector<size_t>{3}));
  const Draws bad = SampleRow{.logits = {1, kNaN, 3}}.draw(1);
  EXPECT_EQ(bad.status[0], row_has_nan);
  EXPECT_EQ(bad.ids[0], 0.0);
}

TEST(ReferenceSample, OrderOfFilters) {  // T-06
  EXPECT_EQ((SampleRow{.logits = {3, 2, 1}, .temperature = 0.5, .top_p = 0.8}.kept()), (std::vector<size_t>{0}));
  const std::vector<double> p = {std::log(0.4), std::log(0.3), std::log(0.2), std::log(0.1)};
  EXPECT_EQ((SampleRow{.logits = p, .top_k = 2, .top_p = 0.55}.kept()), (std::vector<size_t>{0}));
  EXPECT_EQ((SampleRow{.logits = p, .top_p = 0.55}.kept()), (std::vector<size_t>{0, 1}));
  EXPECT_EQ((SampleRow{.logits = p, .min_p = 0.45}.kept()), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ((SampleRow{.logits = p}.kept()), (std::vector<size_t>{0, 1, 2, 3}));
  EXPECT_EQ((SampleRow{.logits = p, .top_p = 1e-9}.kept()), (std::vector<size_t>{0}));
  EXPECT_EQ((SampleRow{.logits = p, .min_p = 5.0}.kept()), (std::vector<size_t>{0}));
  EXPECT_EQ((SampleRow{.logits = {1, 1, 1, 1}, .top_k = 2}.kept()),
            (std::vector<size_t>{0, 1}));  // ties to the lower id
}

TEST(ReferenceSample, FrequenciesFollowTheDistribution) {
  const std::vector<double> p = {0.4, 0.3, 0.2, 0.1};
  std::vector<double> logits;
  for (const double value : p) logits.push_back(std::log(value) * 2);  // temperature 2 takes the 2 away
  const int64_t draws = 20000;
  const std::vector<int> counts = SampleRow{.logits = logits, .temperature = 2}.counts(draws);
  double chi = 0;
  for (size_t i = 0; i < 4; ++i) chi += std::pow(counts[i] - p[i] * draws, 2) / (p[i] * draws);
  EXPECT_LT(chi, 16.3);  // 0.1 % of three degrees of freedom; the draws are fixed, so this never flickers
}

TEST(ReferenceSample, SeedDecides) {
  const SampleRow row{.logits = std::vector<double>(50, 0.0)};
  EXPECT_EQ(row.draw(30, 5).ids, row.draw(30, 5).ids);
  EXPECT_NE(row.draw(30, 5).ids, row.draw(30, 6).ids);
}

// ---- Catalogue, tiers, empty calls ----

class ReferenceCatalogue : public OnDevice {};
MONOTILE_ON_DEVICES(ReferenceCatalogue);

TEST_P(ReferenceCatalogue, SelfTestsPass) {
  EXPECT_GE(operators().size(), 13u);
  for (const OperatorInfo& info : operators()) EXPECT_EQ(info.self_test(device_info(device())), "") << info.name;
}

TEST_P(ReferenceCatalogue, OneImplementationIsChosen) {
  for (const OperatorInfo& info : operators()) {
    int chosen = 0;
    for (const Choice& choice : info.explain(device_info(device()), TierPolicy{})) {
      chosen += choice.chosen ? 1 : 0;
      EXPECT_FALSE(choice.why.empty());
    }
    EXPECT_EQ(chosen, 1) << info.name;
  }
}

TEST(ReferenceTier, CanBeForced) {
  for (const OperatorInfo& info : operators()) {
    const std::vector<Choice> list = info.explain(device_info(Device{}), parse_tier("reference"));
    ASSERT_FALSE(list.empty());
    EXPECT_TRUE(list.back().chosen && list.back().tier == Tier::reference) << info.name;
  }
}

TEST(ReferenceEmpty, NothingToWriteReturnsAtOnce) {
  const auto none = [](DType dtype, std::initializer_list<int64_t> extents) {
    return TensorView(nullptr, dtype, extents);
  };
  TestTensor g(DType::bf16, {8}), table(DType::f32, {1, 2}), cache(DType::bf16, {1, 1, 2, 8});
  Context context{Device{}};
  rms_norm(context, none(DType::bf16, {0, 8}), none(DType::bf16, {0, 8}), g.host());
  rope(context, none(DType::bf16, {0, 2, 4}), {}, none(DType::i32, {0}), table.host(), table.host());
  silu_mul(context, none(DType::bf16, {0, 8}), none(DType::bf16, {0, 8}), none(DType::bf16, {0, 8}));
  silu_mul(context, none(DType::bf16, {3, 0}), none(DType::bf16, {3, 0}), none(DType::bf16, {3, 0}));
  softmax(context, none(DType::f32, {0, 8}), none(DType::f32, {0, 8}));
  gemm(context, none(DType::f32, {0, 8}), none(DType::f32, {0, 4}), TestTensor(DType::f32, {8, 4}).host());
  embedding(context, none(DType::f32, {0, 2}), table.host(), none(DType::i64, {0}));
  kv_append(context, cache.host(), TestTensor(cache).host(), none(DType::bf16, {0, 1, 8}), none(DType::bf16, {0, 1, 8}),
            none(DType::i32, {0}));
  argmax(context, none(DType::i32, {0}), none(DType::f32, {0, 9}));
  EXPECT_TRUE(std::isnan(cache.get(0)));
}

// ---- Overlap ----

TEST(ReferenceOverlap, InterleavedSlicesAreToldApart) {
  TestTensor packed(DType::bf16, {4, 96});
  const TensorView all = packed.host(), left = all.slice(1, 0, 48), right = all.slice(1, 48, 96),
                   middle = all.slice(1, 47, 49);
  EXPECT_FALSE(check::overlap(left, right));
  EXPECT_FALSE(check::overlap(right, left));
  EXPECT_TRUE(check::overlap(left, middle));
  EXPECT_TRUE(check::overlap(middle, right));
  EXPECT_TRUE(check::overlap(left, left));
  EXPECT_TRUE(check::overlap(all, right));
  EXPECT_FALSE(check::overlap(all.slice(0, 0, 2), all.slice(0, 2, 4)));
  EXPECT_FALSE(check::overlap(left.slice(0, 1, 2), right));
  EXPECT_TRUE(check::overlap(left.slice(0, 1, 2), left));
  EXPECT_FALSE(check::overlap(all.slice(0, 0, 0), all));
}

}  // namespace
}  // namespace monotile::test
