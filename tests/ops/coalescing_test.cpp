// How the kernels' waves use sectors of global memory, counted by the emulated GPUs for both wave widths. Shapes are whole and aligned: what is asked
// here is that neighbouring lanes read and write neighbouring bytes, and that vectors are used at all.

#include "monotile/lang/backend/emulated/global_memory.hpp"
#include "monotile/ops/activation.hpp"
#include "monotile/ops/embedding.hpp"
#include "monotile/ops/gemm.hpp"
#include "monotile/ops/kv_cache.hpp"
#include "monotile/ops/norm.hpp"
#include "monotile/ops/quant.hpp"
#include "monotile/ops/rope.hpp"
#include "monotile/ops/softmax.hpp"
#include "ops/gemm/gemm.hpp"
#include "tests/ops/attention_cases.hpp"
#include "tests/ops/test_util.hpp"

namespace monotile::test {
namespace {

using emulated::GlobalAccesses;

class CoalescingEmulated : public ::testing::TestWithParam<int> {
 protected:
  Device device() const { return {DeviceKind::emulated, static_cast<int16_t>(GetParam())}; }

  /// At most `most` sectors touched for each that is needed, and at least `loaded` and `stored` bytes moved by the counted words.
  template <class Args, class Make>
  void check(const char* what, Make make, uint64_t loaded, uint64_t stored, double most = 1.01) {
    SCOPED_TRACE(what);
    const emulated::CountGlobalAccesses count;
    run_on<Args>(device(), {}, make, TierPolicy{.tier = Tier::portable});
    expect("loads", count.loads(), loaded, most);
    expect("stores", count.stores(), stored, most);
  }
  static void expect(const char* which, const GlobalAccesses& got, uint64_t bytes, double most) {
    EXPECT_GE(got.bytes, bytes) << which;
    EXPECT_LE(static_cast<double>(got.sectors), most * static_cast<double>(got.needed))
        << which << ": " << got.accesses << " accesses of " << got.bytes << " bytes";
  }
};
INSTANTIATE_TEST_SUITE_P(On, CoalescingEmulated, ::testing::Values(32, 64),
                         [](const auto& info) { return "emulated" + std::to_string(info.param); });

TEST_P(CoalescingEmulated, StreamingOperators) {
  constexpr int64_t kRows = 8, kCols = 2048, kBytes = kRows * kCols * 2;
  TestTensor x = TestTensor::random(DType::f16, {kRows, kCols}, 1),
             up = TestTensor::random(DType::f16, {kRows, kCols}, 2), gamma = TestTensor::random(DType::f16, {kCols}, 3),
             y(DType::f16, {kRows, kCols}), codes(DType::f8_e4m3, {kRows, kCols}), scales(DType::f32, {kRows, 1});
  check<ops::RmsNormArgs>(
      "rms_norm",
      [&](const At& at) { return ops::RmsNormArgs{.y = at(y), .residual = {}, .x = at(x), .gamma = at(gamma)}; },
      kBytes, kBytes);
  check<ops::SoftmaxArgs>(
      "softmax", [&](const At& at) { return ops::SoftmaxArgs{.y = at(y), .x = at(x)}; }, kBytes, kBytes);
  check<ops::GatedActivationArgs>(
      "silu_mul",
      [&](const At& at) {
        return ops::GatedActivationArgs{at(y), at(x), at(up)};
      },
      2 * kBytes, kBytes);
  check<ops::QuantiseArgs>(
      "quantise",
      [&](const At& at) {
        return ops::QuantiseArgs{at(codes), at(scales), {}, at(x)};
      },
      kBytes, kBytes / 2);
}

TEST_P(CoalescingEmulated, RowsByIndex) {
  constexpr int64_t kTokens = 16, kHeads = 4, kDim = 128, kBytes = kTokens * kHeads * kDim * 2;
  TestTensor q = TestTensor::random(DType::f16, {kTokens, kHeads, kDim}, 1),
             k = TestTensor::random(DType::f16, {kTokens, kHeads, kDim}, 2), q_out(DType::f16, {kTokens, kHeads, kDim}),
             k_out(DType::f16, {kTokens, kHeads, kDim}), cos = TestTensor::random(DType::f32, {32, kDim / 2}, 3),
             sin = TestTensor::random(DType::f32, {32, kDim / 2}, 4);
  TestTensor positions(DType::i32, {kTokens}), slots(DType::i32, {kTokens});
  for (int64_t t = 0; t < kTokens; ++t) positions.set_integer(t, t * 7 % 32), slots.set_integer(t, t * 11 % 32);
  // The table is fp32: eight elements of a lane are two accesses, each of which takes half of every sector.
  check<ops::RopeArgs>(
      "rope",
      [&](const At& at) {
        return ops::RopeArgs{.q_out = at(q_out),
                             .k_out = at(k_out),
                             .q = at(q),
                             .k = at(k),
                             .positions = at(positions),
                             .cos = at(cos),
                             .sin = at(sin),
                             .status = {}};
      },
      2 * kBytes, 2 * kBytes, 2.01);
  TestTensor keys(DType::f16, {2, kHeads, 16, kDim}), values(DType::f16, {2, kHeads, 16, kDim});
  check<ops::KvAppendArgs>(
      "kv_append",
      [&](const At& at) { return ops::KvAppendArgs{at(keys), at(values), at(q), at(k), at(slots), {}, {}, {}}; },
      2 * kBytes, 2 * kBytes);
  // Four lanes read 32 bytes of a row of codes at a time: a sector, but half of one of AMD's.
  TestTensor codes = TestTensor::random(DType::f8_e4m3, {2, kHeads, 16, kDim}, 7, {}, -100, 100),
             more_codes = codes, scales = TestTensor::random(DType::f32, {kHeads}, 8);
  check<ops::KvGatherArgs>(
      "kv_gather",
      [&](const At& at) {
        return ops::KvGatherArgs{at(q_out), at(k_out), at(codes), at(more_codes), at(slots), {}, at(scales), at(scales)};
      },
      kBytes, 2 * kBytes, GetParam() == 64 ? 2.01 : 1.01);
  TestTensor table = TestTensor::random(DType::f16, {32, 1024}, 5), rows(DType::f16, {kTokens, 1024});
  check<ops::EmbeddingArgs>(
      "embedding",
      [&](const At& at) {
        return ops::EmbeddingArgs{at(rows), at(table), at(positions), {}};
      },
      kTokens * 1024 * 2, kTokens * 1024 * 2);
  // Short rows of fp32, and long ones in chunks.
  for (const int64_t cols : {128, 5120}) {
    TestTensor from = TestTensor::random(DType::f32, {32, cols}, 6), to(DType::f32, {kTokens, cols});
    check<ops::GatherRowsArgs>(
        "gather_rows",
        [&](const At& at) {
          return ops::GatherRowsArgs{at(to), at(from), at(positions), {}};
        },
        kTokens * cols * 4, kTokens * cols * 4);
  }
}

/// Copies of operands into shared memory; results leave by other ways, which are not counted.
TEST_P(CoalescingEmulated, CopiesOfMatrixTiles) {
  TestTensor a = TestTensor::random(DType::bf16, {128, 128}, 1), b = TestTensor::random(DType::bf16, {128, 128}, 2),
             c(DType::f32, {128, 128});
  Stream stream(device());
  ops::GemmArgs args;
  args.a = a.on(stream), args.b = b.on(stream), args.c = c.on(stream);
  {
    const emulated::CountGlobalAccesses count;
    run_plan(plan_of(ops::gemm_tiles, args, device()), stream, args);
    expect("gemm", count.loads(), 2 * 128 * 128 * 2, 1.01);
  }
  Case attention;
  attention.queries = attention.lengths = {128};
  Problem p(attention, 1);
  const emulated::CountGlobalAccesses count;
  run_on<ops::AttentionArgs>(
      device(), {}, [&](const At& at) { return p.args(at); }, TierPolicy{.tier = Tier::portable});
  // AMD's rows of queries go straight to registers as operands, once per tile: two lanes have 16 bytes of a row, a quarter of a sector of 64.
  expect("attention", count.loads(), 6 * 128 * 64 * 2, GetParam() == 64 ? 2.01 : 1.01);
}

}  // namespace
}  // namespace monotile::test
