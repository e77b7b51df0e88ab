// What the AMD backend stands on, checked without an AMD GPU: moves between lanes, mathematics on a model of the chip's instructions, the 8-bit
// floats of its matrix units, and their fragments.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "monotile/lang/backend/emulated/shared_memory.hpp"
#include "monotile/lang/backend/hip/arch.hpp"
#include "monotile/lang/backend/hip/dpp.hpp"
#include "monotile/lang/backend/hip/fnuz.hpp"
#include "monotile/lang/backend/hip/math.hpp"
#include "monotile/lang/fragment.hpp"
#include "monotile/numeric.hpp"

namespace monotile {
namespace {

// --- lanes

constexpr bool moves_exchange_lanes(int mask) {
  for (int lane = 0; lane < 16; ++lane) {
    if (hip::dpp::exchanged(mask, lane) != (lane ^ mask)) return false;
    if (hip::dpp::source(hip::dpp::row_xmask(mask), lane) != (lane ^ mask)) return false;
  }
  return true;
}
static_assert(moves_exchange_lanes(1) && moves_exchange_lanes(2) && moves_exchange_lanes(4) && moves_exchange_lanes(8));
// A rotation by four is not the exchange of mask 4: the proof can fail.
static_assert(hip::dpp::source(hip::dpp::row_ror(4), 1) != (1 ^ 4));

constexpr bool swizzle_exchanges(int mask) {
  for (int lane = 0; lane < 64; ++lane) {
    if (hip::dpp::swizzle_source(hip::dpp::swizzle_xor(mask), lane) != (lane ^ mask)) return false;
  }
  return true;
}
static_assert(swizzle_exchanges(16) && swizzle_exchanges(1));

// --- mathematics

/// v_exp_f32 and its like as documented: one unit in the last place off in either direction (by lot), subnormals flushed in and out.
struct ModelUnit {
  static inline std::mt19937 lot{7};
  static float off(double exact) {
    float v = static_cast<float>(exact);
    switch (lot() % 3) {
      case 0: v = std::nextafter(v, std::isfinite(v) ? kBig : v); break;
      case 1: v = std::nextafter(v, std::isfinite(v) ? -kBig : v); break;
      default: break;
    }
    return flushed(v);
  }
  static float flushed(float v) { return std::abs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }
  static constexpr float kBig = 3e38f;
  static float exp2(float v) { return v == 0.0f ? 1.0f : off(std::exp2(static_cast<double>(flushed(v)))); }
  static float log2(float v) { return flushed(v) == 1.0f ? 0.0f : off(std::log2(static_cast<double>(flushed(v)))); }
  static float reciprocal(float v) { return off(1.0 / static_cast<double>(flushed(v))); }
  static float reciprocal_root(float v) { return off(1.0 / std::sqrt(static_cast<double>(flushed(v)))); }
};
using Maths = hip::mathematics<ModelUnit>;

double units_off(float got, double exact) {
  const float near = static_cast<float>(exact);
  if (got == near || (std::isnan(got) && std::isnan(near))) return 0;
  if (!std::isfinite(got) || !std::isfinite(near)) return 1e9;
  const double unit = std::ldexp(1.0, std::max(near != 0 ? std::ilogb(near) : -126, -126) - 23);
  return std::abs(static_cast<double>(got) - exact) / unit;
}
/// The largest error over [low, high], in units in the last place.
template <class F, class G>
double worst(F f, G exact, double low, double high, int points = 200000) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(low, high);
  double most = 0;
  for (int i = 0; i < points; ++i) {
    const float x = static_cast<float>(uniform(random));
    most = std::max(most, units_off(f(x), exact(static_cast<double>(x))));
  }
  return most;
}

TEST(HipMathematics, Exponentials) {
  const auto exp = [](float x) { return Maths::exp(x); };
  const auto right = [](double x) { return std::exp(x); };
  EXPECT_LE(worst(exp, right, -1, 1), 2.5);
  EXPECT_LE(worst(exp, right, -87, 88.7), 2.5);
  EXPECT_LE(worst(exp, right, -103, -87), 2.5);  // subnormal results
  const auto exp2 = [](float x) { return Maths::exp2(x); };
  EXPECT_LE(worst(
                exp2, [](double x) { return std::exp2(x); }, -149, 127.9),
            2.5);
  EXPECT_EQ(Maths::exp(-INFINITY), 0.0f);
  EXPECT_EQ(Maths::exp(INFINITY), INFINITY);
  EXPECT_EQ(Maths::exp2(-INFINITY), 0.0f);
  EXPECT_EQ(Maths::exp(0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(Maths::exp(NAN)));
  EXPECT_EQ(Maths::exp(-200.0f), 0.0f);
  EXPECT_EQ(Maths::exp(89.0f), INFINITY);
}
TEST(HipMathematics, Logarithm) {
  const auto log = [](float x) { return Maths::log(x); };
  const auto right = [](double x) { return std::log(x); };
  EXPECT_LE(worst(log, right, 2, 1e6), 3.0);
  EXPECT_LE(worst(log, right, 1e-30, 0.5), 3.0);
  EXPECT_LE(worst(log, right, 1e-42, 1e-38), 3.0);
  // Near 1 the instruction itself is exact to an absolute error only.
  for (float x = 0.9f; x < 1.1f; x += 1e-4f) EXPECT_NEAR(Maths::log(x), std::log(static_cast<double>(x)), 3e-7);
  EXPECT_EQ(Maths::log(0.0f), -INFINITY);
  EXPECT_EQ(Maths::log(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(Maths::log(-1.0f)));
}
TEST(HipMathematics, TanhAndErrorFunctions) {
  const auto tanh = [](float x) { return Maths::tanh(x); };
  EXPECT_LE(worst(
                tanh, [](double x) { return std::tanh(x); }, -0.36, 0.36),
            6.0);
  EXPECT_LE(worst(
                tanh, [](double x) { return std::tanh(x); }, -12, 12),
            6.0);
  EXPECT_EQ(Maths::tanh(-INFINITY), -1.0f);
  EXPECT_TRUE(std::isnan(Maths::tanh(NAN)));
  const auto erf = [](float x) { return Maths::erf(x); };
  EXPECT_LE(worst(
                erf, [](double x) { return std::erf(x); }, -0.5, 0.5),
            4.0);
  EXPECT_LE(worst(
                erf, [](double x) { return std::erf(x); }, -5, 5),
            8.0);
  const auto erfc = [](float x) { return Maths::erfc(x); };
  EXPECT_LE(worst(
                erfc, [](double x) { return std::erfc(x); }, -5, 9),
            24.0);  // 1.5e-6
  EXPECT_EQ(Maths::erf(-INFINITY), -1.0f);
  EXPECT_EQ(Maths::erfc(INFINITY), 0.0f);
  EXPECT_EQ(Maths::erfc(-INFINITY), 2.0f);
  EXPECT_TRUE(std::isnan(Maths::erf(NAN)) && std::isnan(Maths::erfc(NAN)));
}
TEST(HipMathematics, RootsAndQuotients) {
  EXPECT_LE(worst([](float x) { return Maths::recip_sqrt(x); }, [](double x) { return 1 / std::sqrt(x); }, 1e-30, 1e6),
            1.5);
  EXPECT_LE(worst([](float x) { return Maths::divide(3.0f, x); }, [](double x) { return 3 / x; }, 0.1, 1e6), 3.0);
  EXPECT_EQ(Maths::recip_sqrt(0.0f), INFINITY);
  EXPECT_EQ(Maths::recip_sqrt(INFINITY), 0.0f);
}

// --- 8-bit floats

TEST(HipFnuz, EveryCodeKeepsItsValue) {
  for (int code = 0; code < 256; ++code) {
    const auto c = static_cast<uint8_t>(code);
    const float e4m3 = to_float(e4m3_t{c}), e5m2 = to_float(e5m2_t{c});
    const float f4 = hip::kFnuzScale * hip::fnuz_to_float<3, 8>(hip::fnuz_of_e4m3(c));
    const float f5 = hip::kFnuzScale * hip::fnuz_to_float<2, 16>(hip::fnuz_of_e5m2(c));
    EXPECT_TRUE(f4 == e4m3 || (std::isnan(f4) && std::isnan(e4m3))) << code;
    EXPECT_TRUE(f5 == e5m2 || (std::isnan(f5) && std::isnan(e5m2)) || (std::isinf(e5m2) && std::abs(f5) == 114688.0f))
        << code;
  }
  // Bits taken as they are would be wrong by the factor, and a negative zero would be NaN.
  EXPECT_EQ((hip::fnuz_to_float<3, 8>(0x38)), 0.5f);
  EXPECT_TRUE(std::isnan(hip::fnuz_to_float<3, 8>(0x80)));
}

// --- fragments

template <class Atom>
constexpr bool operands_are_covered() {
  using namespace lang;  // NOLINT
  return covers_exactly_once<fragment_a<Atom>>(64) && covers_exactly_once<fragment_b<Atom>>(64) &&
         covers_exactly_once<fragment_c<Atom>>(64);
}
static_assert(operands_are_covered<lang::mfma_m32n32k8>() && operands_are_covered<lang::mfma_m16n16k16>());
static_assert(operands_are_covered<lang::mfma_m32n32k16>() && operands_are_covered<lang::mfma_m16n16k32>());

/// A product by registers: what each lane holds is placed by the fragments, as the emulator does it.
template <class Atom>
void product_by_fragments(const std::vector<float>& a, const std::vector<float>& b, std::vector<float>& c) {
  float x[Atom::m][Atom::k], y[Atom::n][Atom::k];
  for (int l = 0; l < 64; ++l) {
    for (int e = 0; e < Atom::a_elements; ++e) {
      const lang::coordinate at = Atom::a(l, e), bt = Atom::b(l, e);
      x[at.row][at.col] = a[static_cast<size_t>(at.row * Atom::k + at.col)];
      y[bt.row][bt.col] = b[static_cast<size_t>(bt.row * Atom::k + bt.col)];
    }
  }
  for (int l = 0; l < 64; ++l) {
    for (int e = 0; e < Atom::c_elements; ++e) {
      const lang::coordinate at = Atom::c(l, e);
      float sum = 0;
      for (int k = 0; k < Atom::k; ++k) sum += x[at.row][k] * y[at.col][k];
      c[static_cast<size_t>(at.row * Atom::n + at.col)] = sum;
    }
  }
}
/// Codes of the OCP kind through the instruction for FNUZ codes: the scales of both operands make up for the bias.
TEST(HipFnuz, ProductsOfCodes) {
  using Atom = lang::mfma_m32n32k16;
  std::mt19937 random(5);
  std::vector<float> a(32 * 16), b(32 * 16), c(32 * 32), fa(32 * 16), fb(32 * 16);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto p = static_cast<uint8_t>(random() % 0x7f), q = static_cast<uint8_t>(0x80 | random() % 0x7f);
    a[i] = to_float(e4m3_t{p}), b[i] = to_float(e4m3_t{q});
    fa[i] = hip::fnuz_to_float<3, 8>(hip::fnuz_of_e4m3(p)), fb[i] = hip::fnuz_to_float<3, 8>(hip::fnuz_of_e4m3(q));
  }
  product_by_fragments<Atom>(fa, fb, c);
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 32; ++j) {
      double right = 0, size = 0;
      for (int k = 0; k < 16; ++k) {
        const double term = static_cast<double>(a[static_cast<size_t>(i * 16 + k)]) *
                            static_cast<double>(b[static_cast<size_t>(j * 16 + k)]);
        right += term, size += std::abs(term);
      }
      EXPECT_NEAR(hip::kFnuzScale * hip::kFnuzScale * c[static_cast<size_t>(i * 32 + j)], right, size * 1e-6);
    }
  }
}

// --- banks

TEST(HipBanks, PhasesTakeEveryLaneOnce) {
  for (const emulated::Phases phases : {emulated::Phases::consecutive, emulated::Phases::amd_read16}) {
    bool seen[64] = {};
    for (int phase = 0; phase < 8; ++phase) {
      for (int i = 0; i < 8; ++i) {
        const int lane = emulated::phase_lane(phases, phase, i, 8);
        EXPECT_FALSE(seen[lane]) << lane;
        seen[lane] = true;
      }
    }
  }
  EXPECT_EQ(emulated::phase_lane(emulated::Phases::amd_read16, 0, 4, 8), 20);
  EXPECT_EQ(emulated::phase_lane(emulated::Phases::amd_read16, 3, 7, 8), 27);
}
/// Rows of 128 bytes read as MFMA does, with and without the exchange of halves: the counter sees the difference.
TEST(HipBanks, HalvesMustBeExchanged) {
  alignas(128) static unsigned char memory[32 * 128];
  const auto passes = [](bool exchanged) {
    const unsigned char* from[64];
    for (int l = 0; l < 64; ++l) {
      const lang::coordinate at = lang::mfma_m32n32k8::a(l, 0);
      const int half = at.col * 2 ^ (exchanged ? at.row / 8 % 2 * 8 : 0);
      from[l] = memory + lang::swizzle<128>::offset(at.row, 0) + half;
    }
    (void)emulated::take_shared_accesses();
    emulated::count_shared_access(from, 64, 8, emulated::Phases::consecutive);
    return emulated::take_shared_accesses();
  };
  EXPECT_EQ(passes(true).passes, passes(true).needed);
  EXPECT_EQ(passes(false).passes, 2 * passes(false).needed);
}

}  // namespace
}  // namespace monotile
