// Products by tiles: the kernel itself, whatever the dispatcher would choose, on every device.

#include <algorithm>
#include <cmath>
#include <utility>

#include "monotile/lang/backend/emulated/shared_memory.hpp"
#include "monotile/ops/gemm.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tile_cost.hpp"
#include "runtime/cpu_features.hpp"
#include "runtime/kernels.hpp"
#include "runtime/scoped_target.hpp"
#include "test_util.hpp"

namespace monotile::test {
namespace {

using ops::GemmArgs;
using ops::ProductCast;
using ops::ProductForm;

/// One product, and how far its tensors lie from packed and aligned.
struct Case {
  DType a = DType::bf16, c = DType::bf16;
  int64_t m = 1, n = 1, k = 1;
  int64_t padding = 0, offset = 0;
  DType bias = DType::none, residual = DType::none;
  bool in_place = false;  ///< the residual is c
  DType b = DType::none;  ///< none: as a
  ProductForm form = ProductForm::nt;
  ProductCast cast = ProductCast::none;
  int64_t a_scales = 0, b_scales = 0;  ///< how many factors
  DType gate = DType::none;
  ops::Activation activation = ops::Activation::identity;
  bool gate_is_c = false;
};

DType type_of_b(const Case& s) { return s.b == DType::none ? s.a : s.b; }

std::string describe(const Case& s) {
  return std::string(dtype_info(s.a).name) + " -> " + dtype_info(s.c).name + " m " + std::to_string(s.m) + " n " +
         std::to_string(s.n) + " k " + std::to_string(s.k) + " padding " + std::to_string(s.padding) + " offset " +
         std::to_string(s.offset) + " b " + dtype_info(type_of_b(s)).name + " form " +
         std::to_string(static_cast<int>(s.form)) + " cast " + std::to_string(static_cast<int>(s.cast));
}

class GemmTilesTest : public OnDevice {
 protected:
  struct Operands {
    TestTensor a, b, bias, residual, c, a_scale, b_scale, gate;
  };
  static Operands operands(const Case& s) {
    Operands o;
    const Placement placement{.padding = {s.padding}, .offset = s.offset};
    const bool a_by_k = s.form == ProductForm::tn, b_by_k = s.form != ProductForm::nt;
    const double most = s.a == DType::i8 ? 128.0 : 1.0;
    const std::vector<int64_t> shape_a = a_by_k ? std::vector{s.k, s.m} : std::vector{s.m, s.k},
                               shape_b = b_by_k ? std::vector{s.k, s.n} : std::vector{s.n, s.k};
    o.a = TestTensor::random(s.a, shape_a, 1, placement, -most, std::min(most, 127.0));
    o.b = TestTensor::random(type_of_b(s), shape_b, 2, placement, -most, std::min(most, 127.0));
    if (s.a_scales != 0) o.a_scale = TestTensor::random(DType::f32, {s.a_scales}, 6, {.offset = s.offset});
    if (s.b_scales != 0) o.b_scale = TestTensor::random(DType::f32, {s.b_scales}, 7, {.offset = s.offset});
    o.c = TestTensor(s.c, {s.m, s.n}, placement);
    if (s.bias != DType::none) o.bias = TestTensor::random(s.bias, {s.n}, 3, {.offset = s.offset});
    if (s.residual != DType::none) o.residual = TestTensor::random(s.residual, {s.m, s.n}, 4, placement);
    if (s.gate != DType::none) o.gate = TestTensor::random(s.gate, {s.m, s.n}, 8, placement, -6.0, 6.0);
    if (s.in_place || s.gate_is_c) o.c.fill_random(5);
    return o;
  }
  static GemmArgs args_of(const Case& s, Operands& o, const At& at) {
    GemmArgs args;
    args.c = at(o.c), args.a = at(o.a), args.b = at(o.b);
    if (s.bias != DType::none) args.bias = at(o.bias);
    if (s.residual != DType::none) args.residual = at(o.residual);
    if (s.in_place) args.residual = args.c;
    if (s.a_scales != 0) args.a_scale = at(o.a_scale);
    if (s.b_scales != 0) args.b_scale = at(o.b_scale);
    if (s.gate != DType::none) args.gate = at(o.gate);
    if (s.gate_is_c) args.gate = args.c;
    args.activation = s.activation;
    args.form = s.form;
    args.cast = s.cast;
    return args;
  }
  /// Code paths that this machine has for the device: several on CPU.
  std::vector<Target> paths() const {
    return device().kind == DeviceKind::cpu ? cpu_targets() : std::vector{target_of(device_info(device()))};
  }
  /// Tiles whose operands are converted, and activations: not for OpenCL devices, whose drivers would take long to compile them.
  bool converts() const { return device().kind != DeviceKind::opencl; }
  /// By default with the tile that the cost model chooses.
  void run_tiles(const Case& s, Operands& o) {
    Stream stream(device());
    const GemmArgs args = args_of(s, o, [&](TestTensor& t) { return t.on(stream); });
    const char* why_not = ops::gemm_tiles.supports(args, device_info(device()));
    ASSERT_EQ(why_not, nullptr) << why_not;
    Plan<GemmArgs> plan = plan_of(ops::gemm_tiles, args, device());
    if (forced_ != nullptr) {
      plan.kernel = reinterpret_cast<const void*>(forced_);
      plan.config = {static_cast<int64_t>(config_), split_};
    }
    run_plan(plan, stream, args);
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
        for (int64_t k = 0; k < s.k; ++k) {
          const int64_t in_a = s.form == ProductForm::tn ? k * s.m + i : i * s.k + k,
                        in_b = s.form != ProductForm::nt ? k * s.n + j : j * s.k + k;
          size += std::abs(a[static_cast<size_t>(in_a)] * b[static_cast<size_t>(in_b)]);
        }
        if (s.a_scales != 0) size *= std::abs(o.a_scale.get(s.a_scales == 1 ? 0 : i));
        if (s.b_scales != 0) size *= std::abs(o.b_scale.get(s.b_scales == 1 ? 0 : j));
        if (s.bias != DType::none) steps += std::abs(o.bias.get(j));
        if (s.residual != DType::none) steps += std::abs(o.residual.get(i * s.n + j));
        if (s.in_place) steps += std::abs(o.c.get(i * s.n + j));
        // Hopper's fp8 instructions keep fewer bits of their sums.
        const bool short_sums = is_code(s.a) && s.a != DType::i8 && target_of(device_info(device())) == Target::cuda_sm90;
        bounds[static_cast<size_t>(i * s.n + j)] =
            (static_cast<double>(s.k) * 0x1p-24 + (s.cast == ProductCast::bf16 ? 0x1p-7 : s.cast == ProductCast::tf32 ? 0x1p-10 : short_sums ? 0x1p-12 : 0.0)) *
                size +
            3 * 0x1p-24 * (steps + size);
        if (s.activation != ops::Activation::identity) {  // slopes of the activations stay below 1.2
          const bool gated = s.gate != DType::none || s.gate_is_c;
          const double factor = gated ? 1.0 + std::abs(s.gate_is_c ? o.c.get(i * s.n + j) : o.gate.get(i * s.n + j)) : 1.2;
          double& bound = bounds[static_cast<size_t>(i * s.n + j)];
          bound = bound * factor + 0x1p-19 * factor * (size + steps);
        }
        if (s.c == DType::i32) bounds[static_cast<size_t>(i * s.n + j)] = 0.0;
      }
    }
    const TestTensor start = o.c;
    run_reference<GemmArgs>(ops::gemm_reference_run, [&](const At& at) { return args_of(s, o, at); });
    const TestTensor wanted = o.c;
    for (const Target path : paths()) {
      SCOPED_TRACE(to_string(path));
      const ScopedTarget scope(path);
      o.c = start;
      run_tiles(s, o);
      if (HasFatalFailure()) return;
      EXPECT_TRUE(o.c.guards_intact()) << "bytes outside c were written";
      for (int64_t i = 0; i < o.c.size(); ++i) {
        const double got = o.c.get(i), right = wanted.get(i), bound = bounds[static_cast<size_t>(i)];
        const double rounding =
            s.c == DType::i32 ? 0.0 : (s.c == DType::f32 ? 0.5 : 1.0) * ulp(s.c, std::abs(right) + bound);
        ASSERT_LE(std::abs(got - right), bound + rounding) << "element " << i << " is " << got << ", wanted " << right;
      }
      const TestTensor first = o.c;
      o.c = start;
      run_tiles(s, o);
      EXPECT_TRUE(is_identical(o.c, first)) << "a second run";
    }
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

/// Operands with rows off 16 bytes that are worth a copy: both, one of them, long rows and short ones, rows that lie apart, bytes.
TEST_P(GemmTilesTest, PackedFirst) {
  if (device().kind == DeviceKind::cpu) GTEST_SKIP() << "CPUs pack as they multiply";
  const int64_t m = slow() ? 140 : 270;
  for (const Case& s : std::vector<Case>{{.m = m, .n = 200, .k = 333, .bias = DType::bf16},
                                         {.a = DType::f16, .c = DType::f16, .m = m, .n = 200, .k = 201, .padding = 4, .residual = DType::f32},
                                         {.m = m, .n = 200, .k = 328, .offset = 1},
                                         {.m = m, .n = 200, .k = slow() ? 1025 : 4201, .padding = 2, .offset = 5},
                                         {.a = DType::f8_e4m3, .m = m, .n = 200, .k = 999, .padding = 3, .a_scales = m, .b_scales = 200},
                                         {.a = DType::i8, .c = DType::i32, .m = m, .n = 200, .k = 1500, .padding = 1, .offset = 3}}) {
    Operands o = operands(s);
    const GemmArgs args = args_of(s, o, [&](TestTensor& t) {
      TensorView v = t.host();
      v.device = device();
      return v;
    });
    EXPECT_NE(plan_of(ops::gemm_tiles, args, device()).workspace_bytes, 0u) << describe(s);
    check(s);
  }
  // One operand alone: the other one's rows suit.
  for (const bool pack_a : {true, false}) {
    SCOPED_TRACE(pack_a ? "a" : "b");
    TestTensor a = TestTensor::random(DType::bf16, {m, 328}, 1, {.offset = pack_a ? 1 : 0}), b = TestTensor::random(DType::bf16, {200, 328}, 2, {.offset = pack_a ? 0 : 1}),
               c(DType::bf16, {m, 200});
    const auto args_at = [&](const At& at) {
      GemmArgs args;
      args.c = at(c), args.a = at(a), args.b = at(b);
      return args;
    };
    run_reference<GemmArgs>(ops::gemm_reference_run, args_at);
    const TestTensor wanted = c;
    c.poison();
    Stream stream(device());
    const GemmArgs args = args_at([&](TestTensor& t) { return t.on(stream); });
    const Plan<GemmArgs> plan = plan_of(ops::gemm_tiles, args, device());
    EXPECT_EQ(plan.workspace_bytes, static_cast<size_t>((pack_a ? (m * 328 * 2 + 255) / 256 * 256 : 200 * 328 * 2)));
    run_plan(plan, stream, args);
    c.fetch(stream);
    EXPECT_TRUE(c.guards_intact());
    for (int64_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c.get(i), wanted.get(i), 1e-3 + ulp(DType::bf16, std::abs(wanted.get(i)))) << "element " << i;
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
  if (device().kind == DeviceKind::cpu) GTEST_SKIP() << "each path of a CPU has one for a type of operands";
  for (const DType t : {DType::bf16, DType::f16, DType::f32, DType::f8_e4m3, DType::f8_e5m2}) {
    const DType plain = is_code(t) ? DType::bf16 : t;  // of results and of what is added to them
    for (config_ = 0; config_ < ops::tiles::kConfigs; ++config_) {
      forced_ = find_kernel(ops::tiles::kernel_name(config_), target_of(device_info(device())),
                            ops::tiles::variant(t, config_));
      if (forced_ == nullptr) continue;
      const bool splits = ops::tiles::kShapes[config_].kind == lang::schedule::split;
      const auto gated = find_kernel(ops::tiles::kernel_name(config_, true), target_of(device_info(device())), ops::tiles::variant(t, config_));
      if (gated != nullptr) {
        const auto plain_kernel = std::exchange(forced_, gated);
        check({.a = t, .c = t, .m = 150, .n = 140, .k = slow() ? 136 : 648, .bias = t, .residual = DType::f32, .gate = t, .activation = ops::Activation::silu});
        forced_ = plain_kernel;
      }
      for (const int split : ops::tiles::kSplits) {
        if ((split > 1) != splits) continue;
        split_ = split;
        SCOPED_TRACE("configuration " + std::to_string(config_) + " split " + std::to_string(split));
        const ProductCast cast = config_ == ops::tiles::kRingTf32 ? ProductCast::tf32 : ProductCast::none;
        check({.a = t, .c = plain, .m = slow() ? 200 : 270, .n = slow() ? 200 : 600, .k = is_code(t) ? 1296 : slow() && ops::tiles::converts(config_) ? 200 : 648, .cast = cast});
        if (is_code(t)) {
          check({.a = t, .c = DType::f16, .m = 130, .n = 264, .k = 1040, .a_scales = 130, .b_scales = 264});
          check({.a = t, .c = plain, .m = 140, .n = 150, .k = 1021, .padding = 3, .bias = DType::f32, .residual = plain, .a_scales = 1});
          continue;
        }
        if (ops::tiles::lies_across(config_)) {
          for (const int64_t m : {1, 17, 64})
            check({.a = t, .c = t, .m = m, .n = slow() ? 140 : 333, .k = 648, .bias = t, .residual = t});
        }
        check(
            {.a = t, .c = DType::f32, .m = 150, .n = 147, .k = slow() && ops::tiles::converts(config_) ? 205 : 1021, .padding = 3, .bias = DType::f32, .residual = t, .cast = cast});
      }
    }
  }
}

/// Instructions that cut what they add lose 5 % here if nobody adds up shorter sums in fp32 (kShortSums).
TEST_P(GemmTilesTest, LongSumsOfOneSignOf8BitFloats) {
  const int64_t m = 20, n = 40, k = slow() ? 1024 : 4096;
  for (const DType t : {DType::f8_e4m3, DType::f8_e5m2}) {
    const Case s{.a = t, .m = m, .n = n, .k = k};
    Operands o = operands(s);
    o.a = TestTensor::random(t, {m, k}, 11, {}, 0.0, 1.0);
    o.b = TestTensor::random(t, {n, k}, 12, {}, 0.0, 1.0);
    const std::vector<double> a = o.a.values(), b = o.b.values();
    for (config_ = 0; config_ <= ops::tiles::kConfigs; ++config_) {  // the last one: what the policy takes
      forced_ = nullptr;
      split_ = 1;
      if (config_ < ops::tiles::kConfigs) {
        if (device().kind == DeviceKind::cpu) continue;
        forced_ = find_kernel(ops::tiles::kernel_name(config_), target_of(device_info(device())),
                              ops::tiles::variant(t, config_));
        if (forced_ == nullptr) continue;
        if (ops::tiles::kShapes[config_].kind == lang::schedule::split) split_ = 2;
      }
      SCOPED_TRACE(std::string(dtype_info(t).name) + " configuration " + std::to_string(config_));
      o.c.poison();
      run_tiles(s, o);
      for (int64_t i = 0; i < m * n; ++i) {
        double right = 0;
        for (int64_t j = 0; j < k; ++j)
          right += a[static_cast<size_t>(i / n * k + j)] * b[static_cast<size_t>(i % n * k + j)];
        ASSERT_NEAR(o.c.get(i), right, right * 0x1p-8 + ulp(s.c, right)) << "element " << i;
      }
    }
  }
}

/// bf16 by its own instructions, where the policy prefers fp32 ones.
TEST_P(GemmTilesTest, Bf16InstructionsOfEveryCpuPath) {
  if (device().kind != DeviceKind::cpu) GTEST_SKIP() << "paths of the CPU";
  int found = 0;
  for (const Target path : cpu_targets()) {
    forced_ = find_kernel("gemm.tiles", path, ops::tiles::variant(DType::bf16, ops::tiles::kPlain16));
    config_ = ops::tiles::kPlain16;
    if (forced_ == nullptr) continue;
    ++found;
    SCOPED_TRACE(to_string(path));
    for (const int64_t m : {1, 13, 14, 33, 100}) check({.m = m, .n = 67, .k = 515, .padding = 3, .offset = 1});
    check({.c = DType::f32, .m = 70, .n = 130, .k = 1024, .residual = DType::f32});
    check({.m = 45, .n = 70, .k = 77, .form = ProductForm::nn});
    check({.m = 45, .n = 70, .k = 77, .form = ProductForm::tn});
  }
  if (found == 0) GTEST_SKIP() << "this machine has no instructions for bf16";
}

/// Rows and columns where micro-kernels end, and steps that end within a word.
TEST_P(GemmTilesTest, SizesAroundMicroKernels) {
  if (device().kind != DeviceKind::cpu) GTEST_SKIP() << "micro-kernels of the CPU";
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const int64_t m : {1, 4, 5, 7, 13, 14, 15, 31, 33, 47}) {
      for (const int64_t n : {1, 8, 15, 17, 33}) check({.a = t, .c = DType::f32, .m = m, .n = n, .k = 35});
    }
    for (const int64_t k : {1, 2, 15, 16, 17, 31, 33, 255, 256, 257, 511, 513, 1025}) {
      check({.a = t, .c = t, .m = 29, .n = 37, .k = k, .padding = 1});
    }
  }
}

/// Any mix of plain types, and GGUF blocks.
TEST_P(GemmTilesTest, MixedTypes) {
  if (!converts()) GTEST_SKIP() << "not built";
  int turn = 0;  // in emulation a third of the pairs with each cast, another third with the next
  const auto next = [&] { return !slow() || turn++ % 3 == 0; };
  for (const ProductCast cast : {ProductCast::none, ProductCast::bf16, ProductCast::tf32}) {
    turn = static_cast<int>(cast);
    for (const DType a : {DType::f32, DType::f16, DType::bf16}) {
      for (const DType b : {DType::f32, DType::f16, DType::bf16}) {
        if (next()) check({.a = a, .c = a, .m = 20, .n = 43, .k = slow() ? 77 : 300, .padding = 1, .b = b, .cast = cast});
      }
      for (const DType b : {DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k}) {
        if (next()) check({.a = a, .c = DType::f32, .m = 20, .n = 43, .k = slow() ? 256 : 768, .offset = 1, .b = b, .cast = cast});
      }
    }
    check({.a = DType::f32, .c = DType::f32, .m = 9, .n = 5, .k = 32, .b = DType::q5_0, .cast = cast});
    check({.a = DType::f32, .c = DType::f32, .m = 50, .n = 70, .k = slow() ? 160 : 1184, .b = DType::q8_0, .cast = cast});
    // Tiles that are there as a whole, which GPUs copy without looking, and edges beside them.
    check({.a = DType::bf16, .c = DType::bf16, .m = 130, .n = 140, .k = slow() ? 256 : 512, .bias = DType::f32, .residual = DType::bf16, .b = DType::q6_k, .cast = cast});
    check({.a = DType::f16, .c = DType::f16, .m = 130, .n = 140, .k = 256, .residual = DType::f32, .b = DType::q5_0, .cast = cast});
    check({.a = DType::f32, .c = DType::f32, .m = 130, .n = 140, .k = slow() ? 70 : 260, .cast = cast});
  }
}

/// What the casts round to, on machines that round: half away from zero to 10 bits, half to even to 7.
TEST_P(GemmTilesTest, CastsRoundOnce) {
  if (device().kind == DeviceKind::cpu || !converts()) GTEST_SKIP() << "tiles of GPUs";
  const Target target = target_of(device_info(device()));
  const bool has_tf32 = find_kernel("gemm.tiles", target, ops::tiles::variant(DType::f32, ops::tiles::kRingTf32)) != nullptr;
  const double values[] = {1.0 + 0x1p-11, 1.0 + 0x1p-11 - 0x1p-23, 1.0 + 3 * 0x1p-11, -1.0 - 0x1p-11, 1.0 + 0x1p-8, 1.0 + 3 * 0x1p-8};
  const double in_tf32[] = {1.0 + 0x1p-10, 1.0, 1.0 + 0x1p-9, -1.0 - 0x1p-10, 1.0 + 0x1p-8, 1.0 + 3 * 0x1p-8};
  const double in_bf16[] = {1.0, 1.0, 1.0, -1.0, 1.0, 1.0 + 0x1p-6};
  for (const ProductCast cast : {ProductCast::none, ProductCast::bf16, ProductCast::tf32}) {
    const Case s{.a = DType::f32, .c = DType::f32, .m = 6, .n = 2, .k = 64, .cast = cast};
    Operands o = operands(s);
    o.a.fill(0.0), o.b.fill(0.0);
    for (int64_t i = 0; i < 6; ++i) o.a.set(i * s.k + 10 * i, values[i]);
    for (int64_t k = 0; k < s.k; ++k) o.b.set(k, 1.0);
    o.b.set(s.k + 50, std::nan("")), o.b.set(s.k + 0, HUGE_VAL);
    run_tiles(s, o);
    for (int64_t i = 0; i < 6; ++i) {
      const double wanted = cast == ProductCast::bf16 ? in_bf16[i] : cast == ProductCast::tf32 && has_tf32 ? in_tf32[i] : values[i];
      EXPECT_EQ(o.c.get(2 * i), wanted) << "row " << i << " cast " << static_cast<int>(cast);
      EXPECT_TRUE(std::isnan(o.c.get(2 * i + 1)));
    }
  }
}

/// Operands stored along k.
TEST_P(GemmTilesTest, Forms) {
  for (const ProductForm form : {ProductForm::nn, ProductForm::tn}) {
    for (const DType t : {DType::bf16, DType::f16}) {
      check({.a = t, .c = t, .m = 64, .n = 64, .k = 64, .form = form});
      check({.a = t,
             .c = DType::f32,
             .m = 33,
             .n = 70,
             .k = 45,
             .padding = 3,
             .offset = 1,
             .bias = DType::f32,
             .form = form});
    }
    check({.m = 1, .n = 1, .k = 1, .form = form});
    check({.m = 130, .n = 5, .k = 131, .form = form});
    if (!converts()) continue;
    check({.a = DType::f32, .c = DType::f32, .m = 47, .n = 69, .k = 300, .padding = 5, .form = form});
    check({.a = DType::f32, .c = DType::f32, .m = 47, .n = 69, .k = 300, .b = DType::f16, .form = form});
    check({.a = DType::f32, .c = DType::f32, .m = 130, .n = 69, .k = 300, .form = form, .cast = ProductCast::bf16});
    check({.a = DType::f32, .c = DType::f32, .m = 47, .n = 130, .k = 301, .offset = 1, .form = form, .cast = ProductCast::tf32});
    check({.a = DType::i8, .c = DType::i32, .m = 47, .n = 69, .k = 301, .padding = 1, .form = form});
    if (device().kind != DeviceKind::cpu) continue;
    check({.a = DType::f32, .c = DType::f32, .m = 5, .n = 6, .k = 0, .bias = DType::f32, .form = form});
  }
}

/// An activation of a gate, or of the sums, between bias and residual.
TEST_P(GemmTilesTest, Activations) {
  using ops::Activation;
  if (!converts()) GTEST_SKIP() << "not built";
  for (const Activation f : {Activation::silu, Activation::gelu_tanh}) {
    for (const DType gate : {DType::none, DType::bf16, DType::f32}) {
      check({.m = 70, .n = 141, .k = 72, .gate = gate, .activation = f});
      check({.c = DType::f32, .m = 33, .n = 67, .k = 77, .padding = 3, .offset = 1, .bias = DType::f32, .residual = DType::bf16, .gate = gate, .activation = f});
    }
    check({.a = DType::bf16, .c = DType::bf16, .m = 70, .n = 70, .k = 256, .b = DType::q4_k, .cast = ProductCast::bf16, .activation = f, .gate_is_c = true});
    if (device().kind == DeviceKind::cpu) {
      check({.a = DType::f32, .c = DType::f32, .m = 40, .n = 37, .k = 64, .bias = DType::f32, .in_place = true, .b = DType::q8_0, .gate = DType::f32, .activation = f});
    } else {
      check({.a = DType::f16, .c = DType::f16, .m = 40, .n = 37, .k = 64, .bias = DType::f32, .in_place = true, .gate = DType::f16, .activation = f});
    }
  }
}

/// Batches, matrix by matrix against the oracle of one: padding within and between them, and operands that all matrices share.
TEST_P(GemmTilesTest, Batches) {
  struct Batch {
    DType a, b;
    ProductForm form = ProductForm::nt;
    int64_t m = 33, n = 70, k = 72, padding = 8;
    bool shared = false;  ///< one b
  };
  const std::vector<Batch> cases = {{DType::bf16, DType::bf16},
                                    {DType::bf16, DType::bf16, ProductForm::nt, 5, 9, 13, 3},
                                    {DType::bf16, DType::bf16, ProductForm::nt, 5, 9, 0, 3},
                                    {DType::f16, DType::f16, ProductForm::nn},
                                    {DType::bf16, DType::bf16, ProductForm::tn, 130, 20, 72, 8, true},
                                    {DType::bf16, DType::bf16, ProductForm::nt, 130, 20, 72, 8, true},
                                    {DType::f32, DType::f32, ProductForm::tn},
                                    {DType::f32, DType::q8_0, ProductForm::nt, 20, 70, 96, 0},
                                    {DType::bf16, DType::q4_k, ProductForm::nt, 20, 70, 256, 0, true}};
  for (const Batch& s : cases) {
    if (!converts() && (s.a != s.b || s.a == DType::f32)) continue;
    SCOPED_TRACE(std::string(dtype_info(s.a).name) + " x " + dtype_info(s.b).name + " form " + std::to_string(static_cast<int>(s.form)) +
                 " m " + std::to_string(s.m) + " k " + std::to_string(s.k));
    constexpr int64_t kBatch = 3;
    const bool a_by_k = s.form == ProductForm::tn, b_by_k = s.form != ProductForm::nt;
    const Placement placement{.padding = {2 * s.padding, s.padding}};
    TestTensor a = TestTensor::random(s.a, a_by_k ? std::vector{kBatch, s.k, s.m} : std::vector{kBatch, s.m, s.k}, 1, placement),
               b = TestTensor::random(s.b, b_by_k ? std::vector{kBatch, s.k, s.n} : std::vector{kBatch, s.n, s.k}, 2, placement),
               bias = TestTensor::random(s.a, {s.n}, 3), residual = TestTensor::random(s.a, {kBatch, s.m, s.n}, 4, placement);
    const auto args_at = [&](const At& at, TestTensor& c) {
      GemmArgs args;
      args.c = at(c), args.a = at(a), args.b = at(b), args.bias = at(bias), args.residual = at(residual), args.form = s.form;
      if (s.shared) args.b.stride[0] = 0;
      return args;
    };
    TestTensor c(s.a, {kBatch, s.m, s.n}, placement);
    Stream stream(device());
    const GemmArgs args = args_at([&](TestTensor& t) { return t.on(stream); }, c);
    ASSERT_EQ(ops::gemm_tiles.supports(args, device_info(device())), nullptr);
    run_plan(plan_of(ops::gemm_tiles, args, device()), stream, args);
    c.fetch(stream);
    EXPECT_TRUE(c.guards_intact());
    TestTensor wanted(s.a, {kBatch, s.m, s.n}, placement), whole(s.a, {kBatch, s.m, s.n}, placement);
    const GemmArgs all = args_at([](TestTensor& t) { return t.host(); }, wanted);
    ops::gemm_reference_run(args_at([](TestTensor& t) { return t.host(); }, whole));
    for (int64_t i = 0; i < kBatch; ++i) {
      const auto matrix = [i](const TensorView& v) {
        TensorView one = v;
        one.data = v.as<char>() + storage_bytes(v.dtype, i * v.step(0));
        one.rank = 2;
        for (size_t d = 0; d < 2; ++d) one.extent[d] = v.extent[d + 1], one.stride[d] = v.stride[d + 1];
        return one;
      };
      GemmArgs one = all;
      one.c = matrix(all.c), one.a = matrix(all.a), one.b = matrix(all.b), one.residual = matrix(all.residual);
      ops::gemm_reference_run(one);
    }
    EXPECT_TRUE(is_identical(whole, wanted)) << "the oracle of batches";
    const double k = static_cast<double>(s.k);
    for (int64_t i = 0; i < c.size(); ++i)
      ASSERT_NEAR(c.get(i), wanted.get(i), 4 * k * (k + 2) * 0x1p-24 + 0x1p-20 + ulp(s.a, std::abs(wanted.get(i)))) << "element " << i;
  }
}

/// 8-bit floats on every device: sizes, alignments and forms, scales for all rows and for each.
TEST_P(GemmTilesTest, Fp8) {
  for (const DType t : {DType::f8_e4m3, DType::f8_e5m2}) {
    for (const int64_t m : {1, 17, 70}) {
      for (const int64_t n : {1, 40, 133}) {
        for (const int64_t k : {0, 1, 16, 31, 130, 272})
          check({.a = t, .c = DType::bf16, .m = m, .n = n, .k = k, .padding = (16 - k % 16) % 16, .a_scales = m, .b_scales = n});
      }
    }
    for (const DType c : {DType::f32, DType::f16, DType::bf16}) {
      check({.a = t, .c = c, .m = 33, .n = 72, .k = 160, .bias = c, .residual = DType::f32, .a_scales = 1, .b_scales = 72});
      check({.a = t, .c = c, .m = 33, .n = 72, .k = 161, .padding = 3, .offset = 1, .in_place = true, .b_scales = 1});
    }
    for (const ProductForm form : {ProductForm::nn, ProductForm::tn})
      check({.a = t, .c = DType::f32, .m = 33, .n = 70, .k = 145, .padding = 3, .form = form, .a_scales = 33});
  }
}

/// Every code enters a product as the number that it is: NaN, infinity, subnormals and both zeros too.
TEST_P(GemmTilesTest, EveryCodeOfFp8) {
  for (const DType t : {DType::f8_e4m3, DType::f8_e5m2}) {
    for (const int64_t k : {32, 33}) {  // k = 33: rows that no copy engine takes
      Operands o;
      o.a = TestTensor(t, {256, k}), o.b = TestTensor(t, {8, k}), o.c = TestTensor(DType::f32, {256, 8});
      o.a.fill(0.0), o.b.fill(0.0);
      for (int64_t code = 0; code < 256; ++code) {
        static_cast<uint8_t*>(o.a.host().data)[code * k + code % k] = static_cast<uint8_t>(code);
        for (int64_t j = 0; j < 8; ++j) o.b.set(j * k + code % k, 1.0);
      }
      run_tiles({.a = t, .c = DType::f32, .m = 256, .n = 8, .k = k}, o);
      for (int64_t i = 0; i < o.c.size(); ++i) {
        const int64_t code = i / 8;
        const double got = o.c.get(i), right = o.a.get(code * k + code % k);
        if (std::isnan(right)) {
          EXPECT_TRUE(std::isnan(got)) << "code " << code << " became " << got;
        } else {
          EXPECT_EQ(got, right) << "code " << code;
        }
      }
    }
  }
}

/// Sums of codes are exact, also where both are -128 all along.
TEST_P(GemmTilesTest, Int8) {
  for (const int64_t m : {1, 7, 14, 33, 70}) {
    for (const int64_t n : {1, 16, 37}) {
      for (const int64_t k : {0, 1, 3, 64, 130, 1030}) {
        if (slow() && k == 1030 && m % 7 != 0) continue;
        check({.a = DType::i8, .c = DType::i32, .m = m, .n = n, .k = k, .padding = 3, .offset = 1});
        check({.a = DType::i8, .c = DType::i32, .m = m, .n = n, .k = k, .padding = (16 - k % 16) % 16});  // what copy engines take
      }
    }
  }
  for (const DType c : {DType::f32, DType::bf16, DType::f16}) {
    if (c != DType::f16) check({.a = DType::i8, .c = c, .m = 30, .n = 41, .k = 200});  // these sums are no f16
    check({.a = DType::i8,
           .c = c,
           .m = 30,
           .n = 41,
           .k = 2,
           .bias = DType::f32,
           .residual = c,
           .a_scales = 30,
           .b_scales = 41});
    check({.a = DType::i8, .c = c, .m = 30, .n = 41, .k = 2, .offset = 1, .a_scales = 1, .b_scales = 41});
    check({.a = DType::i8, .c = c, .m = 30, .n = 41, .k = 2, .in_place = true, .a_scales = 30});
    const int64_t k = c == DType::f16 ? 2 : 160;
    check({.a = DType::i8, .c = c, .m = 70, .n = 72, .k = k, .padding = 16 - k % 16, .bias = c, .residual = DType::f32, .a_scales = 70, .b_scales = 72});
    check({.a = DType::i8, .c = c, .m = 70, .n = 72, .k = k, .padding = 16 - k % 16, .a_scales = 70, .b_scales = 1});
  }
  for (const ProductForm form : {ProductForm::nn, ProductForm::tn})
    check({.a = DType::i8, .c = DType::f32, .m = 33, .n = 70, .k = 145, .padding = 3, .form = form, .a_scales = 33});
  for (const double sign : {-128.0, 127.0}) {
    const Case s{.a = DType::i8, .c = DType::i32, .m = 3, .n = slow() ? 9 : 40, .k = 65536};
    Operands o = operands(s);
    o.a.fill(-128.0);
    o.b.fill(sign);
    for (const Target path : paths()) {
      const ScopedTarget scope(path);
      run_tiles(s, o);
      for (int64_t i = 0; i < o.c.size(); ++i) ASSERT_EQ(o.c.get(i), -128.0 * sign * 65536.0) << to_string(path);
    }
  }
}

/// Every tile that this target has for int8, to whole sums and, with factors, to all types of results.
TEST_P(GemmTilesTest, EveryConfigurationOfInt8) {
  if (device().kind == DeviceKind::cpu) GTEST_SKIP() << "each path of a CPU has one";
  const DType t = DType::i8;
  int found = 0;
  for (config_ = 0; config_ < ops::tiles::kConfigs; ++config_) {
    forced_ = find_kernel(ops::tiles::kernel_name(config_), target_of(device_info(device())),
                          ops::tiles::variant(t, config_));
    if (forced_ == nullptr) continue;
    ++found;
    const bool splits = ops::tiles::kShapes[config_].kind == lang::schedule::split, few = ops::tiles::lies_across(config_);
    for (const int split : ops::tiles::kSplits) {
      if ((split > 1) != splits) continue;
      split_ = split;
      SCOPED_TRACE(std::string(ops::tiles::kConfigNames[config_]) + " split " + std::to_string(split));
      for (const int64_t m : few ? std::vector<int64_t>{1, 17, 64} : std::vector<int64_t>{slow() ? 140 : 270})
        check({.a = t, .c = DType::i32, .m = m, .n = slow() ? 140 : 600, .k = slow() ? 400 : 1296});
      const int64_t m = few ? 33 : 130;
      for (const DType c : {DType::f32, DType::f16, DType::bf16})
        check({.a = t, .c = c, .m = m, .n = 144, .k = c == DType::f16 ? 2 : 208, .padding = c == DType::f16 ? 14 : 0, .bias = DType::f32, .residual = c, .a_scales = m, .b_scales = 144});
      check({.a = t, .c = DType::bf16, .m = m, .n = 141, .k = 205, .padding = 3, .in_place = true, .a_scales = 1});
    }
  }
  EXPECT_GT(found, 0) << "int8 is built for every target";
}

/// More rows than are packed at a time, and more than a program takes.
TEST_P(GemmTilesTest, LargeTilesOfTheCpu) {
  if (device().kind != DeviceKind::cpu) GTEST_SKIP() << "tiles of the CPU";
  check({.a = DType::f32, .c = DType::f32, .m = 1501, .n = 40, .k = 260});
  check({.a = DType::bf16, .c = DType::bf16, .m = 40, .n = 3203, .k = 515});
  check({.a = DType::i8, .c = DType::i32, .m = 2900, .n = 33, .k = 20});
  // Tiles of a program that are together higher than it: their last rows are not its own.
  for (const int64_t m : {1031, 1537, 2050, 2900, 4099})
    check({.a = DType::f32, .c = DType::f32, .m = m, .n = 33, .k = 9});
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
  for (const Target path : paths()) {
    const ScopedTarget scope(path);
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
      run_plan(plan_of(ops::gemm_tiles, args, device()), stream, args);
      some.c.fetch(stream);
      for (int64_t i = (140 - m) * all.n; i < 140 * all.n; ++i) {
        ASSERT_EQ(some.c.get(i), whole[static_cast<size_t>(i)]) << "m " << m << " element " << i;
      }
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
  EXPECT_EQ(why(a, other) == nullptr, converts());
  EXPECT_NE(why(none, none), nullptr);
}

/// Fragments and copies touch every bank as evenly as can be.
TEST(SharedMemoryEmulated, NoBankConflicts) {
  const auto passes = [](int wave, DType a_type, DType b_type, ProductCast cast) {
    const Device device{DeviceKind::emulated, static_cast<int16_t>(wave)};
    Stream stream(device);
    TestTensor a = TestTensor::random(a_type, {128, 128}, 1), b = TestTensor::random(b_type, {128, 128}, 2),
               c(a_type == DType::i8 ? DType::i32 : a_type, {128, 128});
    GemmArgs args;
    args.a = a.on(stream), args.b = b.on(stream), args.c = c.on(stream), args.cast = cast;
    const Plan<GemmArgs> plan = plan_of(ops::gemm_tiles, args, device);
    (void)emulated::take_shared_accesses();
    run_plan(plan, stream, args);
    const emulated::SharedAccesses seen = emulated::take_shared_accesses();
    EXPECT_GT(seen.needed, 0u);
    return static_cast<double>(seen.passes) / static_cast<double>(seen.needed);
  };
  for (const int wave : {32, 64}) {
    EXPECT_EQ(passes(wave, DType::bf16, DType::bf16, ProductCast::none), 1.0) << "wave of " << wave;
    EXPECT_EQ(passes(wave, DType::bf16, DType::q8_0, ProductCast::bf16), 1.0) << "wave of " << wave;
    // Lanes that share a row or a column read the same bytes; `needed` counts each for itself.
    EXPECT_LE(passes(wave, DType::f32, DType::f32, ProductCast::none), 1.0) << "wave of " << wave;
  }
  EXPECT_EQ(passes(32, DType::f32, DType::f32, ProductCast::tf32), 1.0);
  for (const int wave : {32, 64}) EXPECT_EQ(passes(wave, DType::i8, DType::i8, ProductCast::none), 1.0) << "wave of " << wave;
}

}  // namespace
}  // namespace monotile::test
