// The loops of warpgroups, whose text sm_90a compiles too, on the emulated one: in any order of lanes, with copies and products that come when they
// may, and every access to shared memory watched. Mistakes planted in the machine must be noticed within 100 seeds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "monotile/error.hpp"
#include "monotile/kernels/gemm/gemm_tiles.hpp"

namespace monotile::MONOTILE_TARGET_NAME {
namespace {

using namespace lang;  // NOLINT
using emulated::Examination;
using emulated::Fault;

template <class T>
T rounded(double v) {
  return from_float<T>(static_cast<float>(v));
}
template <>
[[maybe_unused]] float rounded<float>(double v) {
  return static_cast<float>(v);
}
template <>
[[maybe_unused]] int8_t rounded<int8_t>(double v) {
  return std::isnan(v) ? int8_t{77} : static_cast<int8_t>(std::lround(v * 128 - 0.5));  // NaN: what is not part of a matrix
}
template <>
[[maybe_unused]] int32_t rounded<int32_t>(double v) {
  return std::isnan(v) ? INT32_MIN : static_cast<int32_t>(v);
}
double value(float v) { return static_cast<double>(v); }
double value(int8_t v) { return static_cast<double>(v); }
double value(int32_t v) { return v == INT32_MIN ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(v); }
template <class T>
double value(T v) {
  return static_cast<double>(to_float(v));
}

/// A batch of matrices with padded rows, NaN where nothing is.
template <class T>
struct Matrices {
  int rows, cols, batch, stride;
  std::vector<T> memory;
  size_t first = 0;  // starts on 64 bytes

  Matrices(int rows_, int cols_, int batch_, int padding, uint32_t seed)
      : rows(rows_), cols(cols_), batch(batch_), stride(cols_ + padding) {
    memory.assign(static_cast<size_t>(batch * rows * stride) + 64,
                  rounded<T>(std::numeric_limits<double>::quiet_NaN()));
    while (reinterpret_cast<uintptr_t>(memory.data() + first) % 64 != 0) ++first;
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    if (seed == 0) return;
    for (int b = 0; b < batch; ++b) {
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < cols; ++c) memory[at(b, r, c)] = rounded<T>(uniform(random));
      }
    }
  }
  size_t at(int b, int r, int c) const { return first + static_cast<size_t>((b * rows + r) * stride + c); }
  matrix_view view() {
    matrix_view v;
    v.data = memory.data() + first;
    v.rows = rows, v.cols = cols, v.batch = batch, v.stride = stride, v.batch_stride = int64_t{rows} * stride;
    v.dtype = dtype_of<T>;
    v.vectors = stride * static_cast<int>(sizeof(T)) % 16 == 0;
    return v;
  }
};

struct Shape {
  int m, n, k, batch = 1;
  int c_padding = 0, split = 1, programs = 0;
  int row_factors = 0, col_factors = 0;  ///< with ScaledEpilogue: none, 1 for all, or one each
};

/// One product with bias and residual; its result, all of it, padding too.
template <class Cfg, class T, class C, class Epilogue = kernels::AffineEpilogue>
std::vector<double> product(const Shape& s, bool check) {
  constexpr bool kAcross = kernels::lies_across<Epilogue>, kWhole = std::is_same_v<C, int32_t>;
  constexpr int kPadding = 16 / static_cast<int>(sizeof(T));
  Matrices<T> a(s.m, s.k, s.batch, kPadding, 1), b(s.n, s.k, s.batch, 0, 2);
  Matrices<C> c(kAcross ? s.n : s.m, kAcross ? s.m : s.n, s.batch, s.c_padding, 0),
      residual(c.rows, c.cols, s.batch, s.c_padding, 3);
  std::vector<float> bias(static_cast<size_t>(kAcross ? s.m : s.n));
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 7) - 3.0f;
  std::vector<float> of_rows(static_cast<size_t>(s.row_factors)), of_cols(static_cast<size_t>(s.col_factors));  // what lies beyond is not read
  for (size_t i = 0; i < of_rows.size(); ++i) of_rows[i] = static_cast<float>(i % 5) - 2.5f;
  for (size_t i = 0; i < of_cols.size(); ++i) of_cols[i] = static_cast<float>(i % 11) * 0.125f + 0.25f;
  const auto factor = [](const std::vector<float>& of, int i) { return of.empty() ? 1.0 : static_cast<double>(of[of.size() > 1 ? static_cast<size_t>(i) : 0]); };
  using K = kernels::GemmTiles<Cfg, T, Epilogue>;
  typename K::Params p{};
  p.a = a.view(), p.b = b.view(), p.c = c.view();
  p.tiles = {(s.m + Cfg::bm - 1) / Cfg::bm,
             (s.n + Cfg::bn - 1) / Cfg::bn,
             (s.k + Cfg::bk - 1) / Cfg::bk,
             s.batch,
             s.m,
             s.n,
             s.split};
  constexpr bool kAffine = std::is_base_of_v<kernels::AffineEpilogue, Epilogue>;
  if constexpr (kAffine) {
    p.epilogue.scale = 0.5f;
    p.epilogue.bias = {bias.data(), DType::f32, false};
    p.epilogue.residual = residual.view();
  } else {
    p.epilogue.affine.scale = 0.5f;
    p.epilogue.scales = {s.row_factors > 0 ? of_rows.data() : nullptr, s.col_factors > 0 ? of_cols.data() : nullptr, s.row_factors > 1 ? 1 : 0,
                         s.col_factors > 1 ? 1 : 0};
  }
  Stream stream{Device{}};
  launch_tiles<K>(stream, Grid{s.programs, 0, 0}, p);
  std::vector<double> all;
  for (const C& v : c.memory) all.push_back(value(v));
  std::rotate(all.begin(), all.begin() + static_cast<int64_t>(c.first), all.end());  // from the first element on
  if (!check) return all;
  size_t written = 0;
  for (int i = 0; i < s.batch; ++i) {
    for (int m = 0; m < s.m; ++m) {
      for (int n = 0; n < s.n; ++n) {
        double sum = 0, size = 0;
        for (int k = 0; k < s.k; ++k) {
          const double term = value(a.memory[a.at(i, m, k)]) * value(b.memory[b.at(i, n, k)]);
          sum += term, size += std::abs(term);
        }
        const size_t at = (kAcross ? c.at(i, n, m) : c.at(i, m, n)) - c.first;
        if (!kWhole) sum *= 0.5;
        if (!kAffine && !kWhole) {
          const double both = factor(of_rows, m) * factor(of_cols, n);
          sum *= both, size *= std::abs(both);
        }
        if (kAffine && !kWhole)
          sum += static_cast<double>(bias[static_cast<size_t>(kAcross ? m : n)]) +
                 value(residual.memory[residual.first + at]);
        const double bound = kWhole ? 0.0 : size * s.k * 0x1p-24 + (sizeof(C) == 4 ? 1e-5 : 0x1p-8) * (std::abs(sum) + 4);
        if (!(std::abs(all[at] - sum) <= bound)) {
          ADD_FAILURE() << "matrix " << i << " row " << m << " column " << n << ": " << all[at] << ", wanted " << sum;
          return all;
        }
        ++written;
      }
    }
  }
  for (const double v : all) written += std::isnan(v) ? 1 : 0;
  EXPECT_EQ(written, all.size()) << "something beside the result was written";
  return all;
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] == b[i]) && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return true;
}

using Cooperative = tile_config<schedule::cooperative, 128, 64, 64, 3>;
using Pingpong = tile_config<schedule::pingpong, 64, 64, 64, 3, 2, 2>;  // clusters of two share b
using Split = tile_config<schedule::split, 128, 64, 64, 2>;
using Few = tile_config<schedule::pingpong, 128, 16, 64, 3>;
using Codes = tile_config<schedule::cooperative, 128, 64, 128, 2>;
using CodesInTurns = tile_config<schedule::pingpong, 64, 64, 128, 3, 2, 2>;
using CodesSplit = tile_config<schedule::split, 128, 64, 128, 2>;
using FewPairs = tile_config<schedule::pingpong, 128, 64, 64, 3, 2>;
using FewHalf = tile_config<schedule::split, 64, 64, 64, 4>;
using WideCodes = tile_config<schedule::cooperative, 128, 192, 128, 2>;
using LateCodes = tile_config<schedule::cooperative, 128, 192, 128, 4, 1, 8, 2>;
using LatePairs = tile_config<schedule::cooperative, 128, 64, 128, 4, 2, 8, 3>;
using FewCodes = tile_config<schedule::pingpong, 128, 16, 128, 3>;
using FewCodesSplit = tile_config<schedule::split, 128, 16, 128, 3>;

/// Several tiles for a program, edges in all directions, results by the copy engine and, where rows are not aligned, from registers.
TEST(WarpgroupsEmulated, Cooperative) {
  product<Cooperative, bfloat16_t, bfloat16_t>(
      {.m = 200, .n = 136, .k = 200, .batch = 2, .c_padding = 8, .programs = 3}, true);
  product<Cooperative, half_t, half_t>({.m = 130, .n = 67, .k = 72, .c_padding = 2}, true);
  product<Cooperative, bfloat16_t, float>({.m = 70, .n = 64, .k = 8}, true);
}
TEST(WarpgroupsEmulated, InTurns) {
  product<Pingpong, bfloat16_t, bfloat16_t>({.m = 200, .n = 136, .k = 328, .programs = 4}, true);
  product<Few, bfloat16_t, bfloat16_t, kernels::AcrossEpilogue>({.m = 200, .n = 11, .k = 200, .programs = 1}, true);
}
TEST(WarpgroupsEmulated, SplitSteps) {
  product<Split, bfloat16_t, float>({.m = 100, .n = 72, .k = 456, .split = 3}, true);
  product<Split, half_t, half_t>({.m = 128, .n = 64, .k = 128, .split = 2}, true);
}
/// Activations shared by two programs, an odd number of tiles of weights; and tiles of 64 rows, whose steps the warpgroups take in turns: an odd number,
/// an even one, one for both.
TEST(WarpgroupsEmulated, FewRows) {
  using Across = kernels::AcrossEpilogue;
  product<FewPairs, bfloat16_t, bfloat16_t, Across>({.m = 300, .n = 50, .k = 200, .programs = 2}, true);
  product<FewPairs, half_t, half_t, Across>({.m = 128, .n = 64, .k = 328}, true);
  for (const int split : {1, 2, 3}) {
    for (const int k : {64, 200, 448, 520})
      product<FewHalf, bfloat16_t, bfloat16_t, Across>({.m = 140, .n = 33, .k = k, .split = split}, true);
  }
  const Shape small{.m = 64, .n = 64, .k = 576, .split = 2};
  const auto right = product<FewHalf, bfloat16_t, float, Across>(small, true);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const Examination examination(seed);
    EXPECT_TRUE(same((product<FewHalf, bfloat16_t, float, Across>(small, false)), right)) << "seed " << seed;
  }
}
TEST(WarpgroupsEmulated, Codes) {
  product<Codes, e4m3_t, bfloat16_t, kernels::ScaledEpilogue>({.m = 150, .n = 72, .k = 272}, true);
}
/// Sums of stages in turns: an odd number, an even one, one alone; both halves of a wide tile; programs that share the stages.
TEST(WarpgroupsEmulated, SumsOfStages) {
  for (const int k : {128, 256, 400, 640}) {
    product<Codes, e4m3_t, float, kernels::ScaledEpilogue>({.m = 100, .n = 72, .k = k, .programs = 1}, true);
    product<WideCodes, e4m3_t, bfloat16_t, kernels::ScaledEpilogue>({.m = 150, .n = 200, .k = k, .programs = 1}, true);
  }
  product<CodesSplit, e5m2_t, float, kernels::ScaledEpilogue>({.m = 100, .n = 72, .k = 656, .split = 3, .row_factors = 100, .col_factors = 72}, true);
  const Shape small{.m = 128, .n = 192, .k = 400, .programs = 1};
  const auto right = product<WideCodes, e4m3_t, float, kernels::ScaledEpilogue>(small, true);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const Examination examination(seed);
    EXPECT_TRUE(same((product<WideCodes, e4m3_t, float, kernels::ScaledEpilogue>(small, false)), right)) << "seed " << seed;
  }
}

/// A warpgroup that starts later: with fewer stages than it waits for, with as many, with more; several tiles, and none for a program; clusters.
TEST(WarpgroupsEmulated, WarpgroupsApart) {
  for (const int k : {128, 256, 384, 912}) {
    product<LateCodes, e4m3_t, bfloat16_t, kernels::ScaledEpilogue>({.m = 200, .n = 400, .k = k, .programs = 2}, true);
    product<LatePairs, e4m3_t, float, kernels::ScaledEpilogue>({.m = 400, .n = 72, .k = k, .programs = 2}, true);
  }
  const Shape small{.m = 128, .n = 200, .k = 528, .programs = 1};
  const auto right = product<LateCodes, e4m3_t, float, kernels::ScaledEpilogue>(small, true);
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Examination examination(seed);
    EXPECT_TRUE(same((product<LateCodes, e4m3_t, float, kernels::ScaledEpilogue>(small, false)), right)) << "seed " << seed;
  }
}
/// One for all, one each, none; rows and columns that do not exist have none. Several tiles, whose results leave by the copy engine and from registers.
TEST(WarpgroupsEmulated, FactorsOfRowsAndColumns) {
  for (const auto& [rows, cols] : {std::pair{150, 200}, std::pair{1, 200}, std::pair{150, 0}, std::pair{0, 1}}) {
    product<WideCodes, e4m3_t, bfloat16_t, kernels::ScaledEpilogue>(
        {.m = 150, .n = 200, .k = 128, .programs = 1, .row_factors = rows, .col_factors = cols}, true);
    product<Codes, e4m3_t, float, kernels::ScaledEpilogue>({.m = 150, .n = 200, .k = 16, .c_padding = 1, .row_factors = rows, .col_factors = cols}, true);
  }
  product<CodesInTurns, int8_t, bfloat16_t, kernels::ScaledEpilogue>({.m = 200, .n = 70, .k = 144, .programs = 4, .row_factors = 200, .col_factors = 70}, true);
  product<FewCodes, int8_t, bfloat16_t, kernels::ScaledAcrossEpilogue>({.m = 200, .n = 11, .k = 272, .programs = 1, .row_factors = 200, .col_factors = 11}, true);
}

TEST(WarpgroupsEmulated, Int8) {
  product<Codes, int8_t, int32_t>({.m = 150, .n = 72, .k = 272}, true);
  product<Codes, int8_t, bfloat16_t, kernels::ScaledEpilogue>({.m = 150, .n = 72, .k = 272}, true);
  product<CodesInTurns, int8_t, float, kernels::ScaledEpilogue>({.m = 200, .n = 70, .k = 400, .programs = 4}, true);
  product<CodesSplit, int8_t, int32_t>({.m = 100, .n = 72, .k = 656, .split = 3}, true);
  product<FewCodes, int8_t, int32_t, kernels::ScaledAcrossEpilogue>({.m = 200, .n = 11, .k = 272, .programs = 1}, true);
  product<FewCodes, int8_t, half_t, kernels::ScaledAcrossEpilogue>({.m = 200, .n = 11, .k = 16, .programs = 1}, true);
  for (const int split : {2, 3, 4}) {
    product<FewCodesSplit, int8_t, int32_t, kernels::ScaledAcrossEpilogue>({.m = 200, .n = 11, .k = 656, .split = split}, true);
    product<FewCodesSplit, int8_t, bfloat16_t, kernels::ScaledAcrossEpilogue>({.m = 140, .n = 16, .k = 1040, .split = split, .row_factors = 140, .col_factors = 16}, true);
  }
}

/// Small enough for many seeds.
const Shape kSmall{.m = 128, .n = 64, .k = 320, .programs = 1};
const Shape kSmallTurns{.m = 256, .n = 64, .k = 200, .programs = 2};
TEST(WarpgroupsEmulated, InAnyOrder) {
  const Shape split{.m = 128, .n = 64, .k = 256, .split = 2};
  const auto cooperative = product<Cooperative, bfloat16_t, bfloat16_t>(kSmall, true),
             turns = product<Pingpong, bfloat16_t, bfloat16_t>(kSmallTurns, true),
             in_parts = product<Split, bfloat16_t, float>(split, true);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const Examination examination(seed);
    EXPECT_TRUE(same((product<Cooperative, bfloat16_t, bfloat16_t>(kSmall, false)), cooperative)) << "seed " << seed;
    EXPECT_TRUE(same((product<Pingpong, bfloat16_t, bfloat16_t>(kSmallTurns, false)), turns)) << "seed " << seed;
    EXPECT_TRUE(same((product<Split, bfloat16_t, float>(split, false)), in_parts)) << "seed " << seed;
  }
}

/// The first seed at which the mistake is noticed; 100 if none.
template <class Work>
int noticed(Fault fault, Work work) {
  const std::vector<double> right = work();
  for (int seed = 0; seed < 100; ++seed) {
    const Examination examination(static_cast<uint64_t>(seed), fault);
    try {
      if (!same(work(), right)) return seed;
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::internal)) << error.what();
      return seed;
    }
  }
  return 100;
}
TEST(WarpgroupsEmulated, PlantedMistakesAreNoticed) {
  const auto cooperative = [] { return product<Cooperative, bfloat16_t, bfloat16_t>(kSmall, false); };
  const auto turns = [] { return product<Pingpong, bfloat16_t, bfloat16_t>(kSmallTurns, false); };
  for (const Fault fault : {Fault::fragment_map, Fault::missing_barrier, Fault::pipeline_phase}) {
    EXPECT_LT(noticed(fault, cooperative), 100) << static_cast<int>(fault);
    EXPECT_LT(noticed(fault, turns), 100) << static_cast<int>(fault);
  }
}

}  // namespace
}  // namespace monotile::MONOTILE_TARGET_NAME
