// The emulator's own examination: kernels in any order of their waves, every byte of shared memory watched; and mistakes planted on purpose, each of
// which must be noticed, by a wrong result or by the watch, within 100 seeds.

#include "monotile/lang/backend/emulated/fibre.hpp"
#include "monotile/ops/gemm.hpp"
#include "monotile/ops/norm.hpp"
#include "monotile/ops/sampling.hpp"
#include "monotile/ops/softmax.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/norm/norm.hpp"
#include "test_util.hpp"

namespace monotile::test {
namespace {

using emulated::Examination;
using emulated::Fault;

Device emulated_device(int wave) { return {DeviceKind::emulated, static_cast<int16_t>(wave)}; }

/// A norm over rows that several waves share: reductions through slots and barriers.
std::vector<double> norm_result(Device device) {
  TestTensor x = TestTensor::random(DType::f16, {3, 2056}, 1), gamma = TestTensor::random(DType::f32, {2056}, 2),
             y(DType::f16, {3, 2056});
  run_on<ops::RmsNormArgs>(device, {&y}, [&](const At& at) {
    return ops::RmsNormArgs{.y = at(y), .residual = {}, .x = at(x), .gamma = at(gamma)};
  });
  return y.values();
}
/// A product by tiles: fragments, copies ahead of use, swizzled shared memory. Four waves, seven steps.
std::vector<double> product_result(Device device) {
  Stream stream(device);
  TestTensor a = TestTensor::random(DType::bf16, {70, 200}, 1), b = TestTensor::random(DType::bf16, {40, 200}, 2),
             c(DType::f32, {70, 40});
  ops::GemmArgs args;
  args.a = a.on(stream), args.b = b.on(stream), args.c = c.on(stream);
  run_plan(plan_of(ops::gemm_tiles, args, device), stream, args);
  c.fetch(stream);
  return c.values();
}

bool equal(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] == b[i])) return false;
  }
  return true;
}

class ExaminationEmulated : public ::testing::TestWithParam<int> {
 protected:
  Device device() const { return emulated_device(GetParam()); }
  /// The first seed at which the mistake is noticed; 100 if none.
  template <class Work>
  int noticed(Fault fault, Work work) {
    const std::vector<double> right = work(device());
    for (int seed = 0; seed < 100; ++seed) {
      const Examination examination(static_cast<uint64_t>(seed), fault);
      try {
        if (!equal(work(device()), right)) return seed;
      } catch (const Error& error) {
        EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::internal)) << error.what();
        return seed;
      }
    }
    return 100;
  }
};
INSTANTIATE_TEST_SUITE_P(On, ExaminationEmulated, ::testing::Values(32, 64),
                         [](const auto& info) { return "emulated" + std::to_string(info.param); });

TEST_P(ExaminationEmulated, SoundKernelsPassInAnyOrder) {
  const std::vector<double> norm = norm_result(device()), product = product_result(device());
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Examination examination(seed);
    EXPECT_TRUE(equal(norm_result(device()), norm)) << "seed " << seed;
    if (seed < 3) {
      EXPECT_TRUE(equal(product_result(device()), product)) << "seed " << seed;
    }
  }
}

/// Kernels whose scratch is not watched byte by byte (items, lists) still run in any order of their waves.
TEST_P(ExaminationEmulated, SamplingAndSoftmaxInAnyOrder) {
  TestTensor logits = TestTensor::random(DType::f32, {2, 3000}, 3, {}, -6, 6), y(DType::f32, {2, 3000});
  TestTensor values(DType::f32, {2, 40}), indices(DType::i32, {2, 40});
  TestTensor long_x = TestTensor::random(DType::f16, {1, 17000}, 4, {}, -6, 6), long_y(DType::f16, {1, 17000});  // a team's row
  const auto run_all = [&] {
    y.poison(), values.poison(), indices.poison(), long_y.poison();
    run_on<ops::SoftmaxArgs>(device(), {&long_y},
                             [&](const At& at) { return ops::SoftmaxArgs{.y = at(long_y), .x = at(long_x)}; });
    run_on<ops::SoftmaxArgs>(device(), {&y},
                             [&](const At& at) { return ops::SoftmaxArgs{.y = at(y), .x = at(logits)}; });
    run_on<ops::TopKArgs>(device(), {&values, &indices}, [&](const At& at) {
      return ops::TopKArgs{.values = at(values), .ids = at(indices), .logits = at(logits)};
    });
    std::vector<double> all = y.values();
    for (const TestTensor* t : {&values, &indices, &long_y}) {
      for (const double v : t->values()) all.push_back(v);
    }
    return all;
  };
  const std::vector<double> right = run_all();
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Examination examination(seed);
    EXPECT_TRUE(equal(run_all(), right)) << "seed " << seed;
  }
}

TEST_P(ExaminationEmulated, WrongFragmentMap) { EXPECT_LT(noticed(Fault::fragment_map, product_result), 100); }
TEST_P(ExaminationEmulated, WrongWaveWidth) { EXPECT_LT(noticed(Fault::wave_width, norm_result), 100); }
TEST_P(ExaminationEmulated, MissingBarrier) {
  EXPECT_LT(noticed(Fault::missing_barrier, norm_result), 100) << "between the waves of a reduction";
  EXPECT_LT(noticed(Fault::missing_barrier, product_result), 100) << "between copies and products";
}
TEST_P(ExaminationEmulated, WrongPipelinePhase) { EXPECT_LT(noticed(Fault::pipeline_phase, product_result), 100); }

TEST(WatchEmulated, WatchesEveryByte) {
  const Examination examination(1);
  alignas(16) unsigned char slots[16] = {}, scratch[64] = {};
  const auto message = [&](auto body) {
    const emulated::WatchedProgram watched(0, slots, sizeof slots, scratch, sizeof scratch);
    try {
      emulated::run_waves(2, body);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using emulated::note_read;
  using emulated::note_write;
  EXPECT_NE(message([&](int, void*) { note_read(scratch + 5, 2); }).find("nobody wrote"), std::string::npos);
  EXPECT_NE(message([&](int, void*) { note_write(scratch + 8, 4); }).find("race"), std::string::npos);
  EXPECT_NE(message([&](int wave, void*) { wave == 0 ? note_write(slots, 1) : note_read(slots, 1); }), "");
  // With a barrier between them, and where each keeps to its own bytes, all is well.
  EXPECT_EQ(message([&](int wave, void* fibre) {
              note_write(scratch + 4 * wave, 4);
              emulated::wait_at_barrier(fibre);
              note_read(scratch, 8);
              emulated::wait_at_barrier(fibre);
              note_write(scratch + 4 - 4 * wave, 4);
            }),
            "");
}

}  // namespace
}  // namespace monotile::test
