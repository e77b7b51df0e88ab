// Conversions, powers and results beyond the caches, compiled once per target: against the scalar conversions and against single rows.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "monotile/lang/lang.hpp"
#include "monotile/lang/prefetch.hpp"

namespace monotile::MONOTILE_TARGET_NAME {
namespace {

using namespace lang;  // NOLINT

#define MT_PASTE_(a, b) a##_##b
#define MT_PASTE(a, b) MT_PASTE_(a, b)
#define MT_CONVERSION_TEST(name) TEST(Conversions, MT_PASTE(name, MONOTILE_TARGET_NAME))

using L = blocked<8, 1, 16>;
constexpr int64_t kCols = 59;  // whole registers, some eights and a rest

template <class T>
view<T> rows_of_59(std::vector<std::remove_const_t<T>>& v) {
  return {v.data(), kCols, 0, kCols, 1, false};
}
any_view codes_of_59(std::vector<uint8_t>& v, DType dtype) { return {v.data(), kCols, 0, kCols, 1, false, dtype}; }
template <class K>
void run(const typename K::Params& p, int64_t rows) {
  Stream stream{Device{}};
  launch<K>(stream, Grid{kHasLanes ? (rows + 7) / 8 : rows, 128, 0}, p);
}
/// Padded to whole rows.
template <class T>
std::vector<T> whole_rows(std::vector<T> v) {
  v.resize((v.size() + kCols - 1) / kCols * kCols);
  return v;
}
int64_t row_count(size_t elements) { return static_cast<int64_t>(elements) / kCols; }

template <class From, class To>
struct ConvertParams {
  view<const From> x;
  view<To> y;
  int64_t rows;
};
template <class From, class To>
struct Convert {
  using Params = ConvertParams<From, To>;
  static constexpr int max_threads = 128, resident_threads = 1024;
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, kCols);
    store(ctx, p.y, row, map([](auto v) { return v; }, load(ctx, p.x, row)));
  }
};
struct CodeParams {
  any_view codes;
  view<float> y;
  view<const float> x;
  int64_t rows;
};
struct FromCodes {
  using Params = CodeParams;
  static constexpr int max_threads = 128, resident_threads = 1024;
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, kCols);
    store(ctx, p.y, row, load_codes(ctx, p.codes, row));
  }
};
struct ToCodes {
  using Params = CodeParams;
  static constexpr int max_threads = 128, resident_threads = 1024;
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, kCols);
    store_codes(ctx, p.codes, row, load(ctx, p.x, row));
  }
};

void expect_same(float got, float wanted, uint32_t from) {
  if (std::isnan(wanted)) {
    ASSERT_TRUE(std::isnan(got)) << std::hex << from;
  } else {
    ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(wanted)) << std::hex << from;
  }
}

template <class T>
void check_wide_loads() {
  std::vector<T> x(65536);
  for (size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<uint16_t>(i);
  x = whole_rows(x);
  std::vector<float> y(x.size(), 7.0f);
  const int64_t rows = row_count(x.size());
  run<Convert<T, float>>({rows_of_59<const T>(x), rows_of_59<float>(y), rows}, rows);
  for (size_t i = 0; i < x.size(); ++i) expect_same(y[i], to_float(x[i]), x[i].bits);
}
MT_CONVERSION_TEST(EveryBf16) { check_wide_loads<bfloat16_t>(); }
MT_CONVERSION_TEST(EveryHalf) { check_wide_loads<half_t>(); }

MT_CONVERSION_TEST(EveryCode) {
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    std::vector<uint8_t> codes(2 * 295);  // twice, so that those in the rest of a row are in its whole registers too
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i < 295 ? i : i - 295 + 27);
    std::vector<float> y(codes.size(), 7.5f);
    const int64_t rows = row_count(codes.size());
    run<FromCodes>({codes_of_59(codes, dtype), rows_of_59<float>(y), {}, rows}, rows);
    for (size_t i = 0; i < codes.size(); ++i) {
      const float wanted = dtype == DType::i8        ? static_cast<float>(static_cast<int8_t>(codes[i]))
                           : dtype == DType::f8_e4m3 ? to_float(e4m3_t{codes[i]})
                                                     : to_float(e5m2_t{codes[i]});
      expect_same(y[i], wanted, codes[i]);
    }
  }
}

/// Both sides of every tie of 16-bit types, the borders of 8-bit types, and random bits.
std::vector<float> hard_numbers() {
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (const uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(std::bit_cast<float>(upper << 16 | low));
  }
  for (uint32_t upper = 0; upper < 1u << 19; ++upper) {  // ties of fp16
    x.push_back(std::bit_cast<float>(upper << 13 | 0x1000));
  }
  for (int code = 0; code < 256; ++code) {
    for (const float v : {to_float(e4m3_t{static_cast<uint8_t>(code)}), to_float(e5m2_t{static_cast<uint8_t>(code)}),
                          static_cast<float>(code - 128), static_cast<float>(code) - 127.5f}) {
      for (const float w : {v, std::nextafterf(v, INFINITY), std::nextafterf(v, -INFINITY), v * 1.0625f, v * 1.125f})
        x.push_back(w);
    }
  }
  std::mt19937 random(5);
  for (int i = 0; i < 1 << 18; ++i) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  std::uniform_real_distribution<float> uniform(-500, 500);
  for (int i = 0; i < 1 << 16; ++i) x.push_back(uniform(random));
  return whole_rows(x);
}

template <class T>
void check_stores() {
  std::vector<float> x = hard_numbers();
  const int64_t rows = row_count(x.size());
  std::vector<T> y(x.size());
  run<Convert<float, T>>({rows_of_59<const float>(x), rows_of_59<T>(y), rows}, rows);
  for (size_t i = 0; i < x.size(); ++i)
    expect_same(to_float(y[i]), to_float(from_float<T>(x[i])), std::bit_cast<uint32_t>(x[i]));
}
MT_CONVERSION_TEST(ToBf16) { check_stores<bfloat16_t>(); }
MT_CONVERSION_TEST(ToHalf) { check_stores<half_t>(); }

MT_CONVERSION_TEST(ToCodes) {
  std::vector<float> x = hard_numbers();
  const int64_t rows = row_count(x.size());
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    std::vector<uint8_t> codes(x.size(), 0xee);
    run<ToCodes>({codes_of_59(codes, dtype), {}, rows_of_59<const float>(x), rows}, rows);
    for (size_t i = 0; i < x.size(); ++i) {
      const uint8_t wanted = dtype == DType::i8        ? static_cast<uint8_t>(from_float<int8_t>(x[i]))
                             : dtype == DType::f8_e4m3 ? from_float<e4m3_t>(x[i]).bits
                                                       : from_float<e5m2_t>(x[i]).bits;
      ASSERT_EQ(codes[i], wanted) << dtype_info(dtype).name << " of " << std::hex << std::bit_cast<uint32_t>(x[i]);
    }
  }
}

struct GatherParams {
  view<const float> x;
  view<float> y;
  any_index index;
  uint8_t* asked;
  int64_t rows, cols;
};
struct Gather {
  using Params = GatherParams;
  static constexpr int max_threads = 128, resident_threads = 1024;
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    const auto source_of = [&](const auto& at) { return at_rows(at, load_index(ctx, p.index, at)); };
    prefetch_next(ctx, p.x, row, [&](const auto& at) {
      store_row_value(ctx, p.asked, at, map([](auto) { return uint8_t{1}; }, row_index(at)));
      return source_of(at);
    });
    store(ctx, p.y, row, load(ctx, p.x, source_of(row)));
  }
};
/// Which rows come next is asked of rows that exist, and changes no result: of data that passes the caches, and of little.
MT_CONVERSION_TEST(RowsByIndexAskedForAhead) {
  constexpr int64_t kWide = 16, kDistance = 64;
  for (const int64_t rows : {int64_t{1} << 17, (int64_t{1} << 17) + 5, int64_t{77}}) {
    if (kHasLanes && rows > 1000) continue;  // nothing more to see there
    std::vector<float> x(static_cast<size_t>(rows * kWide)), y(x.size(), 7.5f);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000003);
    std::vector<int32_t> index(static_cast<size_t>(rows));
    for (size_t i = 0; i < index.size(); ++i) index[i] = i % 11 == 3 ? -1 : static_cast<int32_t>(i * 7919 % index.size());
    std::vector<uint8_t> asked(index.size() + 100, 0);
    run<Gather>({{x.data(), kWide, 0, kWide, 1, false}, {y.data(), kWide, 0, kWide, 1, false}, {index.data(), false}, asked.data(), rows, kWide}, rows);
    for (int64_t i = 0; i < rows * kWide; ++i) {
      const int32_t from = index[static_cast<size_t>(i / kWide)];
      ASSERT_EQ(y[static_cast<size_t>(i)], from < 0 ? 0.0f : x[static_cast<size_t>(from * kWide + i % kWide)]) << "element " << i;
    }
#if defined(__AVX2__)
    const bool asks = !kHasLanes && rows > 1000;
#else
    const bool asks = false;
#endif
    for (int64_t r = 0; r < rows + 100; ++r) ASSERT_EQ(asked[static_cast<size_t>(r)], asks && r >= kDistance && r < rows) << "row " << r << " of " << rows;
  }
}

template <bool Base2>
struct Power {
  using Params = ConvertParams<float, float>;
  static constexpr int max_threads = 128, resident_threads = 1024;
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const auto row = rows_of<L>(ctx, p.rows, kCols);
    const auto power = [](auto v) {
      if constexpr (Base2) {
        return fast_exp2(v);
      } else {
        return fast_exp(v);
      }
    };
    store(ctx, p.y, row, map(power, load(ctx, p.x, row)));
  }
};
template <bool Base2>
void check_power() {
  std::vector<float> x;
  for (float v = -140.0f; v < 140.0f; v += 0.001f) x.push_back(v);
  for (const float v :
       {88.0f, 88.5f, 88.72283f, 88.7229f, 127.5f, 127.75f, 127.9999f, 128.0f, 1000.0f, 3e38f, INFINITY}) {
    x.push_back(v);
    x.push_back(-v);
  }
  for (const uint32_t nan : {0x7fc00000u, 0x7fc00001u, 0x7f8001ffu, 0xffffffffu, 0xffc0ffffu})
    x.push_back(std::bit_cast<float>(nan));
  x = whole_rows(x);
  std::vector<float> y(x.size());
  const int64_t rows = row_count(x.size());
  run<Power<Base2>>({rows_of_59<const float>(x), rows_of_59<float>(y), rows}, rows);
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = Base2 ? std::exp2(static_cast<double>(x[i])) : std::exp(static_cast<double>(x[i]));
    if (std::isnan(x[i])) {
      ASSERT_TRUE(std::isnan(y[i])) << i;
    } else if (wanted > 3.4026e38) {  // from there on it may be infinite, and past the largest number it is
      ASSERT_TRUE(y[i] == INFINITY || (y[i] >= 3.4025e38f && wanted < 3.4028236e38)) << x[i];
    } else {
      ASSERT_NEAR(y[i], wanted, std::max(4e-7 * wanted, 2e-38)) << x[i];  // what is smaller than 2^-125.5 may be 0
    }
  }
}
MT_CONVERSION_TEST(Exp) { check_power<false>(); }
MT_CONVERSION_TEST(Exp2) { check_power<true>(); }

template <class T>
struct NormParams {
  view<const T> x;
  view<T> residual, y;
  int64_t rows, cols;
};
/// Sum with what is replaced by it, mean, distances: rows are read twice, held, and written to where they came from and elsewhere.
template <class T>
struct SumAndNorm {
  using Params = NormParams<T>;
  static constexpr int max_threads = 128, resident_threads = 1024;
  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& p) {
    const float cols = static_cast<float>(p.cols);
    const auto row = rows_of<L>(ctx, p.rows, p.cols);
    const auto sum = eval(ctx, row,
                          round_to<T>(map([](auto a, auto b) { return a + b; }, load<cache::stream>(ctx, p.x, row),
                                          load<cache::stream>(ctx, p.residual, row))));
    store<cache::stream>(ctx, p.residual, row, sum);
    const auto mean =
        map([=](auto s) { return s / cols; }, row_reduce<Sum>(ctx, row, map([](auto v) { return v; }, sum)));
    store<cache::stream>(ctx, p.y, row, map([](auto v, auto m) { return fast_exp((v - m) * 0.25f); }, sum, mean));
  }
};
/// Results so large that they are written past the caches: a row's bits, the space between rows, and a row alone.
template <class T>
void check_large(int64_t cols, int64_t stride) {
  if (kHasLanes) return;  // nothing depends on the size there
  const int64_t rows = (int64_t{36} << 20) / (cols * static_cast<int64_t>(sizeof(T)));
  const size_t size = static_cast<size_t>(rows * stride);
  std::vector<T> x(size), residual(size), y(size), before;
  std::mt19937 random(9);
  for (size_t i = 0; i < size; ++i) {
    const uint32_t bits = static_cast<uint32_t>(random());
    x[i] = from_float<T>(static_cast<float>(bits & 0xffff) / 8192.0f - 4.0f);
    residual[i] = from_float<T>(static_cast<float>(bits >> 16) / 8192.0f - 4.0f);
    y[i] = from_float<T>(77.0f);
  }
  before = residual;
  const auto at = [&](std::vector<T>& v, int64_t row) {
    return view<T>{v.data() + row * stride, stride, 0, cols, 1, false};
  };
  const auto read = [&](std::vector<T>& v, int64_t row) {
    return view<const T>{v.data() + row * stride, stride, 0, cols, 1, false};
  };
  run<SumAndNorm<T>>({read(x, 0), at(residual, 0), at(y, 0), rows, cols}, rows);
  std::vector<T> sum(static_cast<size_t>(stride)), out(sum.size());
  for (const int64_t row : {int64_t{0}, int64_t{1}, rows / 2, rows - 2, rows - 1}) {
    const auto first = before.begin() + row * stride;
    sum.assign(first, first + stride);
    run<SumAndNorm<T>>({read(x, row), at(sum, 0), at(out, 0), 1, cols}, 1);
    ASSERT_EQ(std::memcmp(sum.data(), residual.data() + row * stride, static_cast<size_t>(stride) * sizeof(T)), 0)
        << row;
    ASSERT_EQ(std::memcmp(out.data(), y.data() + row * stride, static_cast<size_t>(cols) * sizeof(T)), 0) << row;
    for (int64_t c = cols; c < stride; ++c)
      ASSERT_EQ(to_float(y[static_cast<size_t>(row * stride + c)]), 77.0f) << "written between rows";
  }
}
MT_CONVERSION_TEST(LargeRows) {
  check_large<float>(4096, 4096);
  check_large<float>(1001, 1003);
  check_large<bfloat16_t>(4099, 4101);
  check_large<bfloat16_t>(128, 128);
}

}  // namespace
}  // namespace monotile::MONOTILE_TARGET_NAME
