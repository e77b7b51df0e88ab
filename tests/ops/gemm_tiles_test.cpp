// Products by tiles: the kernel itself, whatever the dispatcher would choose, on every device.

#include <algorithm>
#include <cmath>

#include "monotile/lang/backend/emulated/shared_memory.hpp"
#include "monotile/ops/gemm.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tile_configs.hpp"
#include "runtime/kernels.hpp"
#include "test_util.hpp"

namespace monotile::test {
namespace {

using ops::GemmArgs;

/// One product, and how far its tensors lie from packed and aligned.
struct Case {
  DType a = DType::bf16, c = DType::bf16;
  int64_t m = 1, n = 1, k = 1;
  int64_t padding = 0, offset = 0;
  DType bias = DType::none, residual = DType::none;
  bool in_place = false;  ///< the residual is c
};

std::string describe(const Case& s) {
  return std::string(dtype_info(s.a).name) + " -> " + dtype_info(s.c).name + " m " + std::to_string(s.m) + " n " +
         std::to_string(s.n) + " k " + std::to_string(s.k) + " padding " + std::to_string(s.padding) + " offset " +
         std::to_string(s.offset);
}

class GemmTilesTest : public OnDevice {
 protected:
  struct Operands {
    TestTensor a, b, bias, residual, c;
  };
  static Operands operands(const Case& s) {
    Operands o;
    const Placement placement{.padding = {s.padding}, .offset = s.offset};
    o.a = TestTensor::random(s.a, {s.m, s.k}, 1, placement);
    o.b = TestTensor::random(s.a, {s.n, s.k}, 2, placement);
    o.c = TestTensor(s.c, {s.m, s.n}, placement);
    if (s.bias != DType::none) o.bias = TestTensor::random(s.bias, {s.n}, 3, {.offset = s.offset});
    if (s.residual != DType::none) o.residual = TestTensor::random(s.residual, {s.m, s.n}, 4, placement);
    if (s.in_place) o.c.fill_random(5);
    return o;
  }
  static GemmArgs args_of(const Case& s, Operands& o, const At& at) {
    GemmArgs args;
    args.c = at(o.c), args.a = at(o.a), args.b = at(o.b);
    if (s.bias != DType::none) args.bias = at(o.bias);
    if (s.residual != DType::none) args.residual = at(o.residual);
    if (s.in_place) args.residual = args.c;
    return args;
  }
  /// By default with the tile that the cost model chooses.
  void run_tiles(const Case& s, Operands& o) {
    Stream stream(device());
    const GemmArgs args = args_of(s, o, [&](TestTensor& t) { return t.on(stream); });
    const DeviceInfo& info = device_info(device());
    const char* why_not = ops::gemm_tiles.supports(args, info);
    ASSERT_EQ(why_not, nullptr) << why_not;
    Plan<GemmArgs> plan;
    plan.implementation = &ops::gemm_tiles;
    plan.device = &info;
    ops::gemm_tiles.plan(args, info, plan);
    if (forced_ != nullptr) {
      plan.kernel = reinterpret_cast<const void*>(forced_);
      plan.config = {static_cast<int64_t>(config_), split_};
    }
    Buffer workspace(device(), std::max<size_t>(plan.workspace_bytes, 1));
    plan.run(stream, args, workspace.data());
    stream.synchronize();
    o.c.fetch(stream);
  }
  /// Every element within k 2^-24 sum |a||b| + one output rounding of the oracle, nothing else written, and the same
  /// bits from a second run.
  void check(const Case& s) {
    SCOPED_TRACE(describe(s));
    Operands o = operands(s);
    const std::vector<double> a = o.a.values(), b = o.b.values();
    std::vector<double> bounds(static_cast<size_t>(s.m * s.n));
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double size = 0, steps = 0;
        for (int64_t k = 0; k < s.k; ++k)
          size += std::abs(a[static_cast<size_t>(i * s.k + k)] * b[static_cast<size_t>(j * s.k + k)]);
        if (s.bias != DType::none) steps += std::abs(o.bias.get(j));
        if (s.residual != DType::none) steps += std::abs(o.residual.get(i * s.n + j));
        if (s.in_place) steps += std::abs(o.c.get(i * s.n + j));
        bounds[static_cast<size_t>(i * s.n + j)] =
            static_cast<double>(s.k) * 0x1p-24 * size + 3 * 0x1p-24 * (steps + size);
      }
    }
    const TestTensor start = o.c;
    run_reference<GemmArgs>(ops::gemm_reference_run, [&](const At& at) { return args_of(s, o, at); });
    const TestTensor wanted = o.c;
    o.c = start;
    run_tiles(s, o);
    if (HasFatalFailure()) return;
    EXPECT_TRUE(o.c.guards_intact()) << "bytes outside c were written";
    for (int64_t i = 0; i < o.c.size(); ++i) {
      const double got = o.c.get(i), right = wanted.get(i), bound = bounds[static_cast<size_t>(i)];
      ASSERT_LE(std::abs(got - right), bound + (s.c == DType::f32 ? 0.5 : 1.0) * ulp(s.c, std::abs(right) + bound))
          << "element " << i << " is " << got << ", wanted " << right;
    }
    const TestTensor first = o.c;
    o.c = start;
    run_tiles(s, o);
    EXPECT_TRUE(is_identical(o.c, first)) << "a second run";
  }

  void (*forced_)() = nullptr;  ///< a kernel to take instead of the chosen one, its configuration and split
  uint32_t config_ = 0;
  int split_ = 1;
};
MONOTILE_ON_DEVICES(GemmTilesTest);

TEST_P(GemmTilesTest, WholeTiles) {
  for (const DType t : {DType::bf16, DType::f16}) {
    for (const DType c : {t, DType::f32}) check({.a = t, .c = c, .m = 128, .n = 256, .k = 192});
  }
}

TEST_P(GemmTilesTest, SizesAroundTheTile) {
  for (const int64_t m : {1, 63, 65, 129}) {
    for (const int64_t n : {1, 7, 127, 136}) {
      for (const int64_t k : {1, 8, 63, 72, 200}) check({.m = m, .n = n, .k = k, .padding = (8 - k % 8) % 8});
    }
  }
}

/// Rows that start on 16 bytes but do not end there: what lies behind them is neither read nor written.
TEST_P(GemmTilesTest, PaddedRows) {
  check({.m = 77, .n = 301, .k = 69, .padding = 3});
  check({.a = DType::f16, .c = DType::f16, .m = 130, .n = 197, .k = 13, .padding = 3});
}

/// Pitches and bases that no copy engine and no vector load takes.
TEST_P(GemmTilesTest, Unaligned) {
  for (const int64_t padding : {0, 1, 3}) {
    for (const int64_t offset : {0, 1, 5}) {
      check({.m = 70, .n = 131, .k = 77, .padding = padding, .offset = offset});
      check({.a = DType::f16, .c = DType::f32, .m = 3, .n = 129, .k = 130, .padding = padding, .offset = offset});
    }
  }
}

TEST_P(GemmTilesTest, BiasAndResidual) {
  for (const DType other : {DType::bf16, DType::f32}) {
    for (const int64_t offset : {0, 1}) {
      const Case base{.m = 67, .n = 141, .k = 80, .padding = 3 + 8 * offset, .offset = offset};
      Case s = base;
      s.bias = other;
      check(s);
      s = base;
      s.residual = other;
      check(s);
      s.bias = DType::f32;
      s.c = DType::f32;
      check(s);
      s.residual = DType::none;
      s.in_place = true;
      check(s);
    }
  }
}

/// More tiles than a GPU takes at once, and so many steps that rings go round.
TEST_P(GemmTilesTest, ManyTilesAndSteps) {
  check({.m = slow() ? 257 : 1100, .n = slow() ? 257 : 2050, .k = 128});
  check({.m = 33, .n = 66, .k = 2056});
}

/// Every tile that this target has, whatever the model thinks of it: several tiles with tails, more steps than stages.
TEST_P(GemmTilesTest, EveryConfiguration) {
  for (const DType t : {DType::bf16, DType::f16}) {
    for (config_ = 0; config_ < ops::tiles::kConfigs; ++config_) {
      forced_ = find_kernel(ops::tiles::kernel_name(config_), target_of(device_info(device())),
                            ops::tiles::variant(t, config_));
      if (forced_ == nullptr) continue;
      const bool splits =
          config_ == ops::tiles::kSplit || config_ == ops::tiles::kFewSplit16 || config_ == ops::tiles::kFewSplit64;
      for (const int split : {1, 2, 4, 8}) {
        if ((split > 1) != splits) continue;
        split_ = split;
        SCOPED_TRACE("configuration " + std::to_string(config_) + " split " + std::to_string(split));
        check({.a = t, .c = t, .m = 270, .n = slow() ? 200 : 600, .k = 648});
        if (ops::tiles::lies_across(config_)) {
          for (const int64_t m : {1, 17, 64})
            check({.a = t, .c = t, .m = m, .n = slow() ? 140 : 333, .k = 648, .bias = t, .residual = t});
        }
        check(
            {.a = t, .c = DType::f32, .m = 150, .n = 147, .k = 1021, .padding = 3, .bias = DType::f32, .residual = t});
      }
    }
  }
}

/// A large sum of small terms after a large one: sums are fp32, not the storage type.
TEST_P(GemmTilesTest, SumsAreFp32) {
  const int64_t k = 4096;
  TestTensor a(DType::bf16, {2, k}), b(DType::bf16, {2, k});
  for (int64_t i = 0; i < 2 * k; ++i) a.set(i, 1.0), b.set(i, i % k == 0 ? 1024.0 : 0.0078125);
  Operands o;
  o.a = a, o.b = b, o.c = TestTensor(DType::f32, {2, 2});
  run_tiles({.c = DType::f32, .m = 2, .n = 2, .k = k}, o);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(o.c.get(i), 1024.0 + 4095 * 0.0078125);
}

/// Infinities and NaN reach the elements that they belong to, and no others.
TEST_P(GemmTilesTest, NaNStaysInItsRow) {
  Case s{.m = 70, .n = 70, .k = 64};
  Operands o = operands(s);
  o.a.set(5 * s.k + 3, std::nan(""));
  o.b.set(69 * s.k + 63, HUGE_VAL);
  run_tiles(s, o);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      const double value = o.c.get(i * s.n + j);
      if (i == 5) {
        EXPECT_TRUE(std::isnan(value));
      } else if (j == 69) {
        EXPECT_FALSE(std::isfinite(value));
      } else {
        EXPECT_TRUE(std::isfinite(value)) << i << ", " << j;
      }
    }
  }
}

/// The bits of a row depend on no other row.
TEST_P(GemmTilesTest, RowsDoNotDependOnTheBatch) {
  const Case all{.m = 140, .n = 90, .k = 136};
  Operands o = operands(all);
  run_tiles(all, o);
  const std::vector<double> whole = o.c.values();
  for (const int64_t m : {1, 30, 129}) {
    Operands some = operands(all);
    Stream stream(device());
    GemmArgs args = args_of(all, some, [&](TestTensor& t) { return t.on(stream); });
    args.a = args.a.slice(0, 140 - m, 140);
    args.c = args.c.slice(0, 140 - m, 140);
    const DeviceInfo& info = device_info(device());
    Plan<GemmArgs> plan;
    plan.implementation = &ops::gemm_tiles;
    plan.device = &info;
    ops::gemm_tiles.plan(args, info, plan);
    Buffer workspace(device(), std::max<size_t>(plan.workspace_bytes, 1));
    plan.run(stream, args, workspace.data());
    stream.synchronize();
    some.c.fetch(stream);
    for (int64_t i = (140 - m) * all.n; i < 140 * all.n; ++i) {
      ASSERT_EQ(some.c.get(i), whole[static_cast<size_t>(i)]) << "m " << m << " element " << i;
    }
  }
}

TEST_P(GemmTilesTest, RefusesWhatItCannotDo) {
  Stream stream(device());
  const DeviceInfo& info = device_info(device());
  TestTensor a(DType::bf16, {4, 64}), b(DType::bf16, {4, 64}), other(DType::f16, {4, 64}), none(DType::bf16, {4, 0}),
      c(DType::bf16, {4, 4});
  const auto why = [&](TestTensor& x, TestTensor& y) {
    GemmArgs args;
    args.a = x.on(stream), args.b = y.on(stream), args.c = c.on(stream);
    return ops::gemm_tiles.supports(args, info);
  };
  EXPECT_EQ(why(a, b), nullptr);
  EXPECT_NE(why(a, other), nullptr);
  EXPECT_NE(why(none, none), nullptr);
}

/// Fragments and copies touch every bank as evenly as can be.
TEST(SharedMemoryEmulated, NoBankConflicts) {
  for (const int wave : {32, 64}) {
    const Device device{DeviceKind::emulated, static_cast<int16_t>(wave)};
    Stream stream(device);
    TestTensor a = TestTensor::random(DType::bf16, {128, 128}, 1), b = TestTensor::random(DType::bf16, {128, 128}, 2),
               c(DType::bf16, {128, 128});
    GemmArgs args;
    args.a = a.on(stream), args.b = b.on(stream), args.c = c.on(stream);
    Plan<GemmArgs> plan;
    plan.implementation = &ops::gemm_tiles;
    plan.device = &device_info(device);
    ops::gemm_tiles.plan(args, *plan.device, plan);
    (void)emulated::take_shared_accesses();
    plan.run(stream, args, nullptr);
    stream.synchronize();
    const emulated::SharedAccesses seen = emulated::take_shared_accesses();
    EXPECT_GT(seen.needed, 0u);
    EXPECT_EQ(seen.passes, seen.needed) << "wave of " << wave;
  }
}

}  // namespace
}  // namespace monotile::test
