// The words of the language one by one, compiled once per target: each kernel below is run against plain loops.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "monotile/lang/lang.hpp"

namespace monotile::MONOTILE_TARGET_NAME {
namespace {

using namespace lang;  // NOLINT

#define MT_PASTE_(a, b) a##_##b
#define MT_PASTE(a, b) MT_PASTE_(a, b)
#define MT_WORD_TEST(name) TEST(Words, MT_PASTE(name, MONOTILE_TARGET_NAME))

struct Params {
  view<const float> x;
  view<float> y;
  view<half_t> y16;
  float* rows_out;
  int32_t* index_out;
  int64_t rows, cols;
};

struct Fixture {
  std::vector<float> x, y, rows_out;
  std::vector<half_t> y16;
  std::vector<int32_t> index_out;
  Params p{};

  Fixture(int64_t rows, int64_t cols, int64_t stride, uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-2, 2);
    x.assign(static_cast<size_t>(rows * stride), NAN);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) x[static_cast<size_t>(r * stride + c)] = uniform(random);
    }
    y.assign(x.size(), NAN);
    y16.assign(x.size(), half_t{0xffff});
    rows_out.assign(static_cast<size_t>(rows), NAN);
    index_out.assign(static_cast<size_t>(rows), -1);
    const auto aligned = [](const void* q) { return reinterpret_cast<uintptr_t>(q) % 16 == 0; };
    p = {{x.data(), stride, 0, cols, 1, stride % 4 == 0 && aligned(x.data())},
         {y.data(), stride, 0, cols, 1, stride % 4 == 0 && aligned(y.data())},
         {y16.data(), stride, 0, cols, 1, stride % 8 == 0 && aligned(y16.data())},
         rows_out.data(), index_out.data(), rows, cols};
  }
  float at(int64_t r, int64_t c) const { return x[static_cast<size_t>(r * p.x.outer_stride + c)]; }
  float out(int64_t r, int64_t c) const { return y[static_cast<size_t>(r * p.x.outer_stride + c)]; }
};

template <class K, class L>
void run(Fixture& f, int threads = 128) {
  Stream stream{Device{}};
  const int rows_per_program = !kHasLanes || L::lanes_per_row == 0 ? 1 : threads / L::lanes_per_row;
  launch<K>(stream, Grid{(f.p.rows + rows_per_program - 1) / rows_per_program, threads, 0}, f.p);
}

template <class Check>
void sweep(Check check) {
  for (const int64_t cols : {1, 7, 8, 9, 31, 64, 77, 128}) {
    for (const int64_t pad : {0, 3, 8}) check(cols, cols + pad);
  }
}

template <class L>
struct ScanKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = rows_of<L>(ctx, p.rows, p.cols);
    store(ctx, p.y, at, inclusive_scan(ctx, at, eval(ctx, at, map([](auto v) { return v * 1.0f; }, load(ctx, p.x, at)))));
  }
};

template <class L>
void check_scan(int64_t cols, int64_t stride) {
  Fixture f(9, cols, stride, static_cast<uint32_t>(cols));
  run<ScanKernel<L>, L>(f);
  for (int64_t r = 0; r < 9; ++r) {
    double sum = 0, size = 0;
    for (int64_t c = 0; c < cols; ++c) {
      sum += f.at(r, c);
      size += std::abs(f.at(r, c));
      ASSERT_NEAR(f.out(r, c), sum, 1e-5 * size) << "row " << r << " column " << c << " of " << cols;
    }
    for (int64_t c = cols; c < stride; ++c) ASSERT_TRUE(std::isnan(f.out(r, c))) << "padding written";
  }
}
MT_WORD_TEST(InclusiveScan) {
  sweep([](int64_t cols, int64_t stride) {
    check_scan<blocked<8, 1, 16>>(cols, stride);
    check_scan<blocked<8, 1, 0>>(cols, stride);
  });
  check_scan<blocked<8, 2, 0>>(2000, 2001);
  check_scan<blocked<8, 4, 0>>(4096, 4096);
}

// What is small beside a later value of another lane must not be lost.
MT_WORD_TEST(InclusiveScanBeforeALargeValue) {
  Fixture f(9, 128, 128, 5);
  for (int64_t c = 0; c < 128; ++c) f.x[static_cast<size_t>(c)] = c == 0 ? 1.0f : c == 15 ? 3e8f : c == 77 ? std::numeric_limits<float>::infinity() : 0.0f;
  run<ScanKernel<blocked<8, 1, 16>>, blocked<8, 1, 16>>(f);
  for (int64_t c = 0; c < 15; ++c) ASSERT_EQ(f.out(0, c), 1.0f) << c;
  for (int64_t c = 77; c < 128; ++c) ASSERT_EQ(f.out(0, c), std::numeric_limits<float>::infinity()) << c;
}

template <class L>
struct ArgMaxKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = rows_of<L>(ctx, p.rows, p.cols);
    auto row = hold(ctx, at, [&](const auto& c) { return load(ctx, p.x, c); });
    const auto best = fold_at<ArgMax>(ctx, row, [](auto column, auto v) { return make_indexed(v, column); });
    store_row_value(ctx, p.rows_out, at, map([](auto b) { return b.value; }, best));
    store_row_value(ctx, p.index_out, at, map([](auto b) { return b.index; }, best));
  }
};
template <class L>
void check_argmax(int64_t cols, bool ties) {
  Fixture f(5, cols, cols, static_cast<uint32_t>(cols) + 1);
  if (ties) {
    for (float& v : f.x) v = std::floor(v);
  }
  run<ArgMaxKernel<L>, L>(f);
  for (int64_t r = 0; r < 5; ++r) {
    int64_t best = 0;
    for (int64_t c = 1; c < cols; ++c) best = f.at(r, c) > f.at(r, best) ? c : best;
    ASSERT_EQ(f.index_out[static_cast<size_t>(r)], best) << "row " << r << " of " << cols << " columns";
    ASSERT_EQ(f.rows_out[static_cast<size_t>(r)], f.at(r, best));
  }
}
MT_WORD_TEST(ArgMaxTiesGoToTheLowerIndex) {
  for (const bool ties : {false, true}) {
    for (const int64_t cols : {1, 7, 8, 9, 33, 77, 128}) check_argmax<blocked<8, 1, 16>>(cols, ties);
    for (const int64_t cols : {1, 100, 2000}) check_argmax<blocked<8, 2, 0>>(cols, ties);
    for (const int64_t cols : {100, 2048, 5000, 9001}) check_argmax<blocked<8, 2, 0, true>>(cols, ties);
  }
}

template <class L, class Op>
struct ReduceKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = rows_of<L>(ctx, p.rows, p.cols);
    auto row = hold(ctx, at, [&](const auto& c) { return load(ctx, p.x, c); });
    store_row_value(ctx, p.rows_out, at, fold<Op>(ctx, row, [](auto v) { return v + 3.0f; }));  // 0 would not stay the identity
    each(ctx, row, [&](const auto& c, const auto& t) { store(ctx, p.y16, c, map([](auto v) { return -v; }, t)); });
  }
};
template <class L>
void check_reduce(int64_t cols, int64_t stride) {
  Fixture f(7, cols, stride, static_cast<uint32_t>(cols) + 2);
  run<ReduceKernel<L, Sum>, L>(f);
  Fixture g(7, cols, stride, static_cast<uint32_t>(cols) + 2);
  run<ReduceKernel<L, Max>, L>(g);
  Fixture h(7, cols, stride, static_cast<uint32_t>(cols) + 2);
  run<ReduceKernel<L, Min>, L>(h);
  for (int64_t r = 0; r < 7; ++r) {
    double sum = 0;
    float most = -INFINITY, least = INFINITY;
    for (int64_t c = 0; c < cols; ++c) {
      const float v = f.at(r, c) + 3.0f;
      sum += v, most = std::max(most, v), least = std::min(least, v);
      ASSERT_EQ(f.y16[static_cast<size_t>(r * stride + c)].bits, from_float<half_t>(-f.at(r, c)).bits);
    }
    for (int64_t c = cols; c < stride; ++c) ASSERT_EQ(f.y16[static_cast<size_t>(r * stride + c)].bits, 0xffff) << "padding written";
    ASSERT_NEAR(f.rows_out[static_cast<size_t>(r)], sum, 1e-5 * 5 * static_cast<double>(cols));
    ASSERT_EQ(g.rows_out[static_cast<size_t>(r)], most);
    ASSERT_EQ(h.rows_out[static_cast<size_t>(r)], least);
  }
}
MT_WORD_TEST(RowReductionsAndTails) {
  sweep([](int64_t cols, int64_t stride) {
    check_reduce<blocked<8, 1, 16>>(cols, stride);
    check_reduce<blocked<8, 1, 32>>(cols, stride);
    check_reduce<blocked<8, 1, 0>>(cols, stride);
  });
  check_reduce<blocked<8, 2, 0, true>>(6001, 6008);
}

/// A row as two halves, against a layout of twice as many lanes; squares enter by fused operations either way.
template <class L>
struct SquaresKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = rows_of<L>(ctx, p.rows, p.cols);
    const auto x = load(ctx, p.x, at);
    store_row_value(ctx, p.rows_out, at, row_reduce<SumSquares>(ctx, at, map([](auto v) { return v; }, x)));
  }
};
template <class L>
struct HalvesKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = rows_of<L>(ctx, p.rows, p.cols / 2);
    const auto whole = [](auto v) { return v; };
    const auto a = map(whole, load(ctx, p.x, at)), b = map(whole, load(ctx, from_column(p.x, p.cols / 2), at));
    store_row_value(ctx, p.rows_out, at, row_reduce<SumSquares>(ctx, at, a, b));
  }
};
MT_WORD_TEST(SquaresOfARowInTwoTiles) {
  for (const int64_t cols : {64, 128}) {
    Fixture whole(7, cols, cols, 21), halves(7, cols, cols, 21);
    run<SquaresKernel<blocked<8, 1, 16>>, blocked<8, 1, 16>>(whole);
    if (cols == 64) {
      run<HalvesKernel<blocked<8, 1, 4>>, blocked<8, 1, 4>>(halves);
    } else {
      run<HalvesKernel<blocked<8, 1, 8>>, blocked<8, 1, 8>>(halves);
    }
    for (int64_t r = 0; r < 7; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < cols; ++c) sum += static_cast<double>(whole.at(r, c)) * whole.at(r, c);
      const size_t i = static_cast<size_t>(r);
      ASSERT_NEAR(whole.rows_out[i], sum, 1e-6 * sum);
      ASSERT_NEAR(halves.rows_out[i], sum, 1e-6 * sum);
      if (kHasLanes) {
        ASSERT_EQ(halves.rows_out[i], whole.rows_out[i]) << "row " << r << " of " << cols;
      }
    }
  }
}

template <class L>
struct SwapKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = rows_of<L>(ctx, p.rows, p.cols);
    store(ctx, p.y, at, swap_pairs(ctx, map([](auto v) { return v + 1.0f; }, load(ctx, p.x, at))));
  }
};
MT_WORD_TEST(SwapPairs) {
  for (const int64_t cols : {2, 8, 10, 64, 126}) {
    Fixture f(3, cols, cols, 9);
    run<SwapKernel<blocked<8, 1, 16>>, blocked<8, 1, 16>>(f);
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(f.out(r, c), f.at(r, c ^ 1) + 1.0f) << c;
    }
  }
}

template <class L>
struct MathKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = rows_of<L>(ctx, p.rows, p.cols);
    auto x = load(ctx, p.x, at);
    store(ctx, p.y, at, map([](auto v) { return fast_exp(v * 40.0f); }, x));
  }
};
MT_WORD_TEST(ExponentialIsAccurateToAFewUnits) {
  Fixture f(4, 128, 128, 3);
  run<MathKernel<blocked<8, 1, 16>>, blocked<8, 1, 16>>(f);
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t c = 0; c < 128; ++c) {
      const double wanted = std::exp(static_cast<double>(f.at(r, c) * 40.0f));
      ASSERT_NEAR(f.out(r, c), wanted, 1e-6 * wanted) << f.at(r, c) * 40.0f;
    }
  }
}

struct CodeParams {
  view<const float> x;
  any_view codes;
  view<float> y;
  view<uint8_t> nibbles;
  view<float> scales;
  int64_t rows, cols;
  bool there;
};

/// y = what the codes of x stand for; nothing at all where the row is not there.
template <class L>
struct CodeKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const CodeParams& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    store_codes(ctx, p.codes, row, map([](auto v) { return v * 1.0f; }, load(ctx, p.x, row)));
    store(ctx, p.y, only_if(row, p.there), map([](auto v) { return v * 1.0f; }, load_codes(ctx, p.codes, row)));
  }
};
/// y = |x| rounded to whole numbers up to 15, by way of nibbles, times a scale of the row that is written and read.
template <class L>
struct NibbleKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const CodeParams& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    store_nibbles(ctx, p.nibbles, row, map([](auto v) { return min_of(round_even(abs_of(v)), 15.0f); }, load(ctx, p.x, row)));
    store_row_value(ctx, p.scales, row, map([](auto r) { return static_cast<float>(r) + 0.5f; }, row_index(row)));
    const view<const uint8_t> nibbles{p.nibbles.data, p.nibbles.outer_stride, 0, p.cols, 1, p.nibbles.vectors};
    const auto scale = map([](auto r) { return static_cast<float>(r) + 0.5f; }, row_index(row));
    store(ctx, p.y, row, map([](auto q, auto s) { return q * s; }, load_nibbles(ctx, nibbles, row), scale));
  }
};

template <class K, class L>
void launch_codes(const CodeParams& p) {
  Stream stream{Device{}};
  const int rows_per_program = !kHasLanes || L::lanes_per_row == 0 ? 1 : 128 / L::lanes_per_row;
  launch<K>(stream, Grid{(p.rows + rows_per_program - 1) / rows_per_program, 128, 0}, p);
}

template <class L>
void check_codes(int64_t cols, int64_t stride) {
  std::mt19937 random(static_cast<uint32_t>(cols * 7 + stride));
  std::vector<float> x(static_cast<size_t>(3 * stride)), y(x.size(), NAN), scales(3, NAN);
  alignas(16) std::vector<uint8_t> codes(x.size() + 16, 0xee), nibbles(x.size() + 16, 0xee);
  for (float& v : x) v = std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random), static_cast<int>(random() % 28) - 14);
  x[0] = 1e9f, x[static_cast<size_t>(stride)] = -HUGE_VALF;
  CodeParams p{{x.data(), stride, 0, cols, 1, false}, {}, {y.data(), stride, 0, cols, 1, false}, {nibbles.data(), (stride + 1) / 2, 0, cols, 1, false},
               {scales.data(), 1, 0, 1, 1, false}, 3, cols, true};
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    p.codes = {codes.data(), stride, 0, cols, 1, stride % 8 == 0 && reinterpret_cast<uintptr_t>(codes.data()) % 8 == 0, dtype};
    std::fill(y.begin(), y.end(), NAN);
    launch_codes<CodeKernel<L>, L>(p);
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < stride; ++c) {
        const size_t i = static_cast<size_t>(r * stride + c);
        const float wanted = dtype == DType::i8        ? static_cast<float>(from_float<int8_t>(x[i]))
                             : dtype == DType::f8_e4m3 ? to_float(from_float<e4m3_t>(x[i]))
                                                       : to_float(from_float<e5m2_t>(x[i]));
        if (c < cols) {
          ASSERT_EQ(y[i], wanted) << x[i];
        } else {
          ASSERT_TRUE(std::isnan(y[i]) && codes[i] == 0xee) << "padding written";
        }
      }
    }
  }
  p.there = false;
  std::fill(y.begin(), y.end(), NAN);
  launch_codes<CodeKernel<L>, L>(p);
  for (const float v : y) ASSERT_TRUE(std::isnan(v));
  if (cols % 2 != 0) return;
  launch_codes<NibbleKernel<L>, L>(p);
  for (int64_t r = 0; r < 3; ++r) {
    ASSERT_EQ(scales[static_cast<size_t>(r)], static_cast<float>(r) + 0.5f);
    for (int64_t c = 0; c < cols; ++c) {
      const size_t i = static_cast<size_t>(r * stride + c);
      ASSERT_EQ(y[i], std::min(std::nearbyint(std::abs(x[i])), 15.0f) * (static_cast<float>(r) + 0.5f)) << x[i];
    }
  }
}
MT_WORD_TEST(CodesAndNibbles) {
  sweep([](int64_t cols, int64_t stride) {
    check_codes<blocked<8, 1, 16>>(cols, stride);
    check_codes<blocked<8, 1, 0>>(cols, stride);
  });
}

#if defined(MONOTILE_TARGET_EMULATED)
/// A layout that covers each cell once and is slow on every GPU: a lane's vectors lie side by side, those of neighbouring lanes do not.
template <int Vectors>
struct lane_after_lane : blocked<8, Vectors, 0> {
  static MT_FN constexpr coordinate coord(int lane, int element, int) { return {0, lane * 8 * Vectors + element}; }
};
template <class L>
struct DoubledKernel {
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto at = rows_of<L>(ctx, p.rows, p.cols);
    const view<const half_t> from{p.y16.data, p.y16.outer_stride, 0, p.cols, 1, true};
    store(ctx, p.y16, at, map([](auto v) { return 2.0f * v; }, load(ctx, from, at)));
  }
};
MT_WORD_TEST(AccessesOfAWaveAreCounted) {
  alignas(64) static half_t memory[2][4096];
  const auto sectors_per_need = []<class L>() {
    for (auto& row : memory) {
      for (int c = 0; c < 4096; ++c) row[c] = from_float<half_t>(static_cast<float>(c % 100));
    }
    Fixture f(2, 1, 1, 1);
    f.p.y16 = {memory[0], 4096, 0, 4096, 1, true};
    f.p.cols = 4096;
    const emulated::CountGlobalAccesses count;
    run<DoubledKernel<L>, L>(f);
    EXPECT_EQ(count.loads().sectors, count.stores().sectors);
    EXPECT_EQ(count.loads().bytes, sizeof memory);
    EXPECT_EQ(to_float(memory[1][4071]), 142.0f);
    return static_cast<double>(count.loads().sectors) / static_cast<double>(count.loads().needed);
  };
  EXPECT_EQ((sectors_per_need.template operator()<blocked<8, 4, 0>>()), 1.0);
  EXPECT_EQ((sectors_per_need.template operator()<lane_after_lane<4>>()), kWave == 64 ? 4.0 : 2.0);  // 16 bytes of each sector
}
#endif

}  // namespace
}  // namespace monotile::MONOTILE_TARGET_NAME
