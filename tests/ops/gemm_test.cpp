// Products: every weight type, both casts, all devices, against the oracle and the bounds of the operator.

#include "monotile/ops/gemm.hpp"

#include <algorithm>
#include <optional>

#include "ops/gemm/gemm.hpp"
#include "ops/gemm/variants.hpp"
#include "runtime/cpu_features.hpp"
#include "runtime/scoped_target.hpp"
#include "runtime/kernels.hpp"
#include "test_util.hpp"

namespace monotile::test {
namespace {

using ops::GemmArgs;
using ops::ProductCast;
using ops::ProductForm;

constexpr DType kPlain[] = {DType::f32, DType::f16, DType::bf16};
constexpr DType kBlocks[] = {DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k};
const TierPolicy kPortable{Tier::portable};

/// One product: dtypes, sizes, and how far its tensors lie from packed and aligned.
struct Case {
  DType a = DType::f32, b = DType::f32, c = DType::f32;
  int64_t m = 1, n = 1, k = 1;
  ProductCast cast = ProductCast::none;
  int64_t padding = 0, offset = 0;
  DType bias = DType::none, residual = DType::none;
  bool in_place = false;  ///< the residual is c
  bool whole_rows = false;  ///< rows of b start on 16 bytes, as programs of matrix instructions want them, whatever a and c do
};

/// Blocks that pad a row of `blocks` to a multiple of 16 bytes.
int64_t blocks_to_alignment(DType b, int64_t blocks) {
  int64_t more = 0;
  while ((blocks + more) * dtype_info(b).block_bytes % 16 != 0) ++more;
  return more;
}
/// True if the device has products of rows by matrix instructions.
bool has_block_dots(Device device, DType a, DType b) {
  return find_kernel("gemm.block_dots", target_of(device_info(device)),
                     ops::dots::variant(ops::dots::activations_of(a), b, ops::dots::kManyRows)) != nullptr;
}
/// True if a plan will run them.
bool plans_block_dots(const Plan<GemmArgs>& planned) { return planned.config[4] != 0; }

std::string describe(const Case& s) {
  return std::string(dtype_info(s.a).name) + " x " + dtype_info(s.b).name + " -> " + dtype_info(s.c).name + " m " +
         std::to_string(s.m) + " n " + std::to_string(s.n) + " k " + std::to_string(s.k) +
         (s.cast == ProductCast::int8_block ? " int8" : "") + " padding " + std::to_string(s.padding) + " offset " +
         std::to_string(s.offset);
}

class GemmTest : public OnDevice {
 protected:
  struct Operands {
    TestTensor a, b, bias, residual, c;
  };
  static Operands operands(const Case& s) {
    const int64_t block = dtype_info(s.b).block_elements;
    Operands o;
    o.a = TestTensor::random(s.a, {s.m, s.k}, 1, {.padding = {s.padding}, .offset = s.offset});
    o.b = TestTensor::random(s.b, {s.n, s.k}, 2,
                             {.padding = {s.whole_rows ? blocks_to_alignment(s.b, s.k / block)
                                          : block == 1  ? s.padding
                                                        : s.padding % 3},
                              .offset = s.whole_rows ? 0 : s.offset});
    o.c = TestTensor(s.c, {s.m, s.n}, {.padding = {s.padding}, .offset = s.offset});
    if (s.bias != DType::none) o.bias = TestTensor::random(s.bias, {s.n}, 3, {.offset = s.offset});
    if (s.residual != DType::none)
      o.residual = TestTensor::random(s.residual, {s.m, s.n}, 4, {.padding = {s.padding}, .offset = s.offset});
    if (s.in_place) o.c.fill_random(5);
    return o;
  }
  static GemmArgs args_of(const Case& s, Operands& o, const At& at) {
    GemmArgs args;
    args.c = at(o.c);
    args.a = at(o.a);
    args.b = at(o.b);
    if (s.bias != DType::none) args.bias = at(o.bias);
    if (s.residual != DType::none) args.residual = at(o.residual);
    if (s.in_place) args.residual = args.c;
    args.cast = s.cast;
    return args;
  }
  /// Runs the case and holds every element to |error| <= k 2^-24 sum |a||b| + one output rounding. The oracle rounds
  /// activations to int8 blocks as the operator does, so that int8_block needs no more than that.
  void check(const Case& s) {
    SCOPED_TRACE(describe(s));
    Operands o = operands(s);
    std::vector<double> sizes(static_cast<size_t>(s.m * s.n)), steps(sizes.size(), 0.0);
    std::vector<double> a = o.a.values(), b = o.b.values();
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double size = 0;
        for (int64_t k = 0; k < s.k; ++k)
          size += std::abs(a[static_cast<size_t>(i * s.k + k)] * b[static_cast<size_t>(j * s.k + k)]);
        const size_t at = static_cast<size_t>(i * s.n + j);
        if (s.bias != DType::none) steps[at] += std::abs(o.bias.get(j));
        if (s.residual != DType::none) steps[at] += std::abs(o.residual.get(i * s.n + j));
        if (s.in_place) steps[at] += std::abs(o.c.get(i * s.n + j));
        // the sums with bias and residual are rounded to fp32 as well
        sizes[at] = static_cast<double>(s.k) * 0x1p-24 * size + 3 * 0x1p-24 * (steps[at] + size);
      }
    }
    TestTensor start = o.c;
    run_reference<GemmArgs>(ops::gemm_reference_run, [&](const At& at) { return args_of(s, o, at); });
    const TestTensor wanted = o.c;
    o.c = start;
    run_on<GemmArgs>(
        device(), {&o.c}, [&](const At& at) { return args_of(s, o, at); }, kPortable);
    EXPECT_TRUE(o.c.guards_intact()) << "bytes outside c were written";
    for (int64_t i = 0; i < o.c.size(); ++i) {
      const double got = o.c.get(i), right = wanted.get(i);
      const double bound = sizes[static_cast<size_t>(i)] +
                           (s.c == DType::f32 ? 0.5 : 1.0) * ulp(s.c, std::abs(right) + sizes[static_cast<size_t>(i)]);
      ASSERT_LE(std::abs(got - right), bound) << "element " << i << " is " << got << ", wanted " << right;
    }
  }
};
MONOTILE_ON_DEVICES(GemmTest);

TEST_P(GemmTest, PlainTypes) {
  for (const DType a : kPlain) {
    for (const DType b : kPlain) {
      for (const DType c : {a, DType::f32}) {
        for (const int64_t m : {1, 3, 9}) check({.a = a, .b = b, .c = c, .m = m, .n = 21, .k = 131});
      }
    }
  }
}

TEST_P(GemmTest, OddSizesOfPlainTypes) {
  for (const int64_t m : {1, 2, 6, 7, 8, 17}) {
    for (const int64_t n : {1, 3, 4, 16, 33}) {
      for (const int64_t k : {1, 7, 8, 9, 255, 256, 257, 513, 640}) {
        check({.a = DType::f32, .b = DType::f32, .m = m, .n = n, .k = k});
        check({.a = DType::bf16, .b = DType::f16, .c = DType::bf16, .m = m, .n = n, .k = k, .padding = 3, .offset = 1});
      }
    }
  }
}

TEST_P(GemmTest, BlockTypes) {
  for (const DType b : kBlocks) {
    for (const ProductCast cast : {ProductCast::none, ProductCast::int8_block}) {
      for (const DType a : kPlain) {
        for (const int64_t m : {1, 2, 3, 5, 8, 9, 10, 11})
          check({.a = a, .b = b, .c = a, .m = m, .n = 37, .k = 768, .cast = cast});
      }
    }
  }
}

TEST_P(GemmTest, SizesOfBlockTypes) {
  for (const DType b : kBlocks) {
    const int64_t block = dtype_info(b).block_elements;
    for (const ProductCast cast : {ProductCast::none, ProductCast::int8_block}) {
      for (const int64_t blocks : {1, 2, 3, 5, 20}) {
        for (const int64_t m : {1, 9}) {
          for (const int64_t n : {1, 3, 6, 48}) {
            if (slow() && blocks * n > 100 && block > 32) continue;
            check({.a = DType::f32,
                   .b = b,
                   .m = m,
                   .n = n,
                   .k = blocks * block,
                   .cast = cast,
                   .padding = blocks,
                   .offset = n % 2});
          }
        }
      }
    }
  }
}

/// Rows of b that start on 16 bytes: by matrix instructions where there are any. A program has 16 rows of b and 8 of a, a wave every eighth
/// stretch of 256 elements, of which the last one may be short.
TEST_P(GemmTest, WholeRowsOfBlockTypes) {
  for (const DType b : kBlocks) {
    const int64_t block = dtype_info(b).block_elements;
    for (const DType a : {DType::bf16, DType::f16}) {
      for (const int64_t k : block == 32 ? std::vector<int64_t>{32, 96, 128, 160, 256, 288, 2240} : std::vector<int64_t>{256, 512, 768, 2304}) {
        for (const int64_t m : {1, 2, 8, 9}) check({.a = a, .b = b, .c = a, .m = m, .n = 19, .k = k, .whole_rows = true});
        check({.a = a, .b = b, .c = DType::f32, .m = 3, .n = 5, .k = k, .padding = 3, .offset = 1, .whole_rows = true});
      }
      for (const int64_t n : {1, 8, 9, 16, 24, 33})
        check({.a = a, .b = b, .c = a, .m = 7, .n = n, .k = 512, .bias = a, .residual = DType::f32, .whole_rows = true});
    }
  }
}

/// More rows of b than programs of matrix instructions have at a time: each takes groups of 16 in turns and adds up some of them together, in short rows by
/// several teams of waves; and what a row gets does not depend on how many there are.
TEST_P(GemmTest, ManyRowsOfBlockTypes) {
  Stream stream(device());
  struct Size {
    int64_t n, k;
    std::vector<int64_t> m;
  };
  for (const Size& size : {Size{2325, 2304, {1}}, Size{541, 2304, {1, 3, 9}}, Size{16661, 32, {1}}, Size{1055, 96, {1, 9}}, Size{781, 1536, {1, 8}},
                           Size{4123, 512, {1}}}) {
    for (const DType b : kBlocks) {
      const int64_t block = dtype_info(b).block_elements;
      const DType a = b == DType::q5_0 ? DType::f16 : DType::bf16;
      const bool large = size.n * size.k > 1 << 20;
      if (size.k % block != 0 || (large && b != DType::q8_0 && b != DType::q6_k) || !has_block_dots(device(), a, b)) continue;
      for (const int64_t m : size.m) {
        check({.a = a, .b = b, .c = DType::f32, .m = m, .n = size.n, .k = size.k, .whole_rows = true});
        TestTensor x = TestTensor::random(a, {m, size.k}, 1), all(DType::f32, {m, size.n}), some(DType::f32, {m, 33});
        TestTensor w = TestTensor::random(b, {size.n, size.k}, 2, {.padding = {blocks_to_alignment(b, size.k / block)}});
        const auto product = [&](TestTensor& c, int64_t first) {
          GemmArgs args;
          args.c = c.on(stream), args.a = x.on(stream), args.b = w.on(stream).slice(0, first, first + c.size() / m);
          const Plan<GemmArgs> planned = plan(device(), args, kPortable);
          planned.run(stream, args, nullptr);
          stream.synchronize();
          c.fetch(stream);
        };
        product(all, 0);
        product(some, 480);
        for (int64_t row = 0; row < m; ++row) {
          for (int64_t i = 0; i < 33; ++i) ASSERT_EQ(some.get(row * 33 + i), all.get(row * size.n + 480 + i)) << dtype_info(b).name << " row " << i;
        }
      }
    }
  }
}

/// Matrix instructions are planned for exactly the weights that they can read.
TEST_P(GemmTest, WholeRowsAreNoticed) {
  Stream stream(device());
  for (const DType b : kBlocks) {
    for (const DType a : kPlain) {
      const int64_t block = dtype_info(b).block_elements, k = 8 * block;
      TestTensor x = TestTensor::random(a, {3, k}, 1), w = TestTensor::random(b, {20, k}, 2),
                 off = TestTensor::random(b, {20, k}, 2, {.offset = 1}), apart = TestTensor::random(b, {20, k}, 2, {.padding = {1}}), c(a, {3, 20});
      GemmArgs args;
      args.c = c.on(stream), args.a = x.on(stream), args.b = w.on(stream);
      EXPECT_EQ(plans_block_dots(plan(device(), args, kPortable)), has_block_dots(device(), a, b)) << dtype_info(b).name;
      args.b = off.on(stream);
      EXPECT_EQ(plans_block_dots(plan(device(), args, kPortable)), has_block_dots(device(), a, b) && dtype_info(b).block_bytes % 16 == 0);
      args.b = apart.on(stream);
      EXPECT_EQ(plans_block_dots(plan(device(), args, kPortable)), has_block_dots(device(), a, b) && dtype_info(b).block_bytes % 16 == 0);
    }
  }
}

/// A plan for them is run with weights that lie otherwise.
TEST_P(GemmTest, PlanForWholeRowsServesOthers) {
  Stream stream(device());
  for (const DType b : {DType::q8_0, DType::q6_k}) {
    const int64_t n = 21, k = 8 * dtype_info(b).block_elements;
    TestTensor x = TestTensor::random(DType::bf16, {2, k}, 1), w = TestTensor::random(b, {n, k}, 2),
               off = TestTensor::random(b, {n, k}, 2, {.padding = {1}, .offset = 1}), c(DType::f32, {2, n}), d(DType::f32, {2, n});
    GemmArgs args;
    args.c = c.on(stream), args.a = x.on(stream), args.b = w.on(stream);
    const Plan<GemmArgs> planned = plan(device(), args, kPortable);
    Buffer workspace(device(), planned.workspace_bytes);
    planned.run(stream, args, workspace.data());
    args.c = d.on(stream), args.b = off.on(stream);
    planned.run(stream, args, workspace.data());
    stream.synchronize();
    c.fetch(stream), d.fetch(stream);
    EXPECT_TRUE(is_near(d, c, {.relative = 1e-4, .absolute = 1e-3 * static_cast<double>(k) / 256})) << dtype_info(b).name;
  }
}

TEST_P(GemmTest, BiasAndResidual) {
  for (const DType b : {DType::bf16, DType::q8_0, DType::q6_k}) {
    for (const int64_t m : {1, 9}) {
      for (const DType a : {DType::f32, DType::bf16}) {
        for (const DType other : {a, DType::f32}) {
          const Case base{.a = a, .b = b, .c = a, .m = m, .n = 43, .k = 256, .padding = 5, .offset = 1};
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
  }
}

TEST_P(GemmTest, EmptySumIsBiasPlusResidual) {
  for (const int64_t m : {1, 9}) {
    check({.m = m, .n = 19, .k = 0});
    check({.m = m, .n = 19, .k = 0, .bias = DType::f32, .residual = DType::f32});
    for (const ProductCast cast : {ProductCast::none, ProductCast::int8_block}) {
      check({.b = DType::q5_0, .m = m, .n = 1, .k = 0, .cast = cast, .bias = DType::f32});
    }
  }
}

TEST_P(GemmTest, NothingToWrite) {
  Stream stream(device());
  Context context(stream);
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{0, 5}, {5, 0}, {0, 0}}) {
    TestTensor a(DType::f32, {m, 32}), b(DType::q8_0, {n, 32}), c(DType::f32, {m, n});
    EXPECT_NO_THROW(ops::gemm(context, c.on(stream), a.on(stream), b.on(stream)));
    stream.synchronize();
  }
}

/// A panel pass is 256 or 512 columns, a program 512 rows of a: sizes beyond both.
TEST_P(GemmTest, ManyPasses) {
  if (slow()) GTEST_SKIP() << "too long in lockstep emulation";
  check({.b = DType::f32, .m = 13, .n = 50, .k = 1111});
  check({.b = DType::q8_0, .m = 13, .n = 50, .k = 1184});
  check({.b = DType::q8_0, .m = 13, .n = 50, .k = 1184, .cast = ProductCast::int8_block});
  check({.b = DType::q4_k, .m = 530, .n = 5, .k = 768, .cast = ProductCast::int8_block});
  check({.b = DType::q5_0, .m = 1030, .n = 33, .k = 64});
}

/// Codes at the ends of their ranges with activations at the ends of theirs: integer products must not saturate.
TEST_P(GemmTest, ExtremeCodes) {
  for (const DType b : kBlocks) {
    const int64_t k = 512;
    for (const int byte : {0x00, 0x7f, 0x80, 0xff}) {
      for (const int64_t m : {1, 8}) {
        TestTensor x(DType::f32, {m, k}), w = TestTensor::random(b, {5, k}, 7), c(DType::f32, {m, 5}), wanted;
        for (int64_t i = 0; i < x.size(); ++i) x.set(i, (i / 3) % 2 == 0 ? 1.0 : (i % 5 == 0 ? -1.0 : 1.0));
        const DTypeInfo info = dtype_info(b);
        auto* bytes = w.host().as<uint8_t>();
        for (int64_t i = 0; i < 5 * k / info.block_elements; ++i) {
          for (int j = 0; j < info.block_bytes; ++j) {
            const bool scale = b == DType::q6_k ? j >= 208 : j < (b == DType::q4_k ? 4 : 2);
            if (!scale) bytes[i * info.block_bytes + j] = static_cast<uint8_t>(byte);
          }
        }
        const auto make = [&](const At& at) {
          GemmArgs args;
          args.c = at(c), args.a = at(x), args.b = at(w);
          args.cast = ProductCast::int8_block;
          return args;
        };
        run_reference<GemmArgs>(ops::gemm_reference_run, make);
        wanted = c;
        c.poison();
        run_on<GemmArgs>(device(), {&c}, make, kPortable);
        double largest = 0;
        for (int64_t i = 0; i < w.size(); ++i) largest = std::max(largest, std::abs(w.get(i)));
        EXPECT_TRUE(
            is_near(c, wanted, {.absolute = static_cast<double>(k) * 0x1p-24 * static_cast<double>(k) * largest}))
            << dtype_info(b).name << " byte " << byte << " m " << m;
      }
    }
  }
}

/// The same as they are, with 16-bit activations: a code that is misread shows at once, since all are the same.
TEST_P(GemmTest, ExtremeCodesOfWholeRows) {
  for (const DType b : kBlocks) {
    const DTypeInfo info = dtype_info(b);
    const int64_t n = 18, k = 512 * info.block_elements / 32, m = 8;
    for (const DType a : {DType::bf16, DType::f16}) {
      for (const int byte : {0x00, 0x7f, 0x80, 0xff, 0x0f, 0xf0}) {
        TestTensor x(a, {m, k}), w = TestTensor::random(b, {n, k}, 7), c(DType::f32, {m, n}), wanted;
        for (int64_t i = 0; i < x.size(); ++i) x.set(i, (i / 3) % 2 == 0 ? 1.0 : (i % 5 == 0 ? -2.0 : 0.5));
        auto* bytes = w.host().as<uint8_t>();
        for (int64_t i = 0; i < n * k / info.block_elements; ++i) {
          for (int j = 0; j < info.block_bytes; ++j) {
            const bool scale = b == DType::q6_k ? j >= 208 : j < (b == DType::q4_k ? 4 : 2);
            if (!scale) bytes[i * info.block_bytes + j] = static_cast<uint8_t>(byte);
          }
        }
        const auto make = [&](const At& at) {
          GemmArgs args;
          args.c = at(c), args.a = at(x), args.b = at(w);
          return args;
        };
        run_reference<GemmArgs>(ops::gemm_reference_run, make);
        wanted = c;
        c.poison();
        run_on<GemmArgs>(device(), {&c}, make, kPortable);
        double largest = 0;
        for (int64_t i = 0; i < w.size(); ++i) largest = std::max(largest, std::abs(w.get(i)));
        EXPECT_TRUE(is_near(c, wanted, {.absolute = 0x1p-24 * static_cast<double>(k) * std::sqrt(static_cast<double>(k)) * largest}))
            << dtype_info(b).name << " byte " << byte;
      }
    }
  }
}

/// A scale that is zero, infinite or NaN shows in the rows of b that have it and in no other.
TEST_P(GemmTest, SpecialScales) {
  for (const DType b : kBlocks) {
    const DTypeInfo info = dtype_info(b);
    const int64_t n = 20, k = 8 * info.block_elements, at = b == DType::q6_k ? 208 : 0;
    for (const DType a : {DType::f32, DType::bf16, DType::f16}) {
      TestTensor x = TestTensor::random(a, {3, k}, 1), w = TestTensor::random(b, {n, k}, 2), c(DType::f32, {3, n}), wanted;
      const auto set_scale = [&](int64_t row, int64_t block, uint16_t bits) {
        auto* p = w.host().as<uint8_t>() + (row * 8 + block) * info.block_bytes + at;
        p[0] = static_cast<uint8_t>(bits), p[1] = static_cast<uint8_t>(bits >> 8);
      };
      set_scale(4, 7, 0x7c00), set_scale(11, 2, 0x7e00), set_scale(17, 3, 0x0000);
      for (int64_t block = 0; block < 8; ++block) {
        set_scale(18, block, 0x0000);
        if (b == DType::q4_k) {
          auto* p = w.host().as<uint8_t>() + (18 * 8 + block) * info.block_bytes;
          p[2] = p[3] = 0;
        }
      }
      const auto make = [&](const At& at_) {
        GemmArgs args;
        args.c = at_(c), args.a = at_(x), args.b = at_(w);
        return args;
      };
      run_reference<GemmArgs>(ops::gemm_reference_run, make);
      wanted = c;
      c.poison();
      run_on<GemmArgs>(device(), {&c}, make, kPortable);
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          const double got = c.get(i * n + j), right = wanted.get(i * n + j);
          if (j == 4) {
            EXPECT_FALSE(std::isfinite(got)) << dtype_info(b).name;
          } else if (j == 11) {
            EXPECT_TRUE(std::isnan(got)) << dtype_info(b).name;
          } else if (j == 18) {
            EXPECT_EQ(got, 0.0) << dtype_info(b).name;
          } else {
            EXPECT_NEAR(got, right, 1e-4 * (1 + std::abs(right))) << dtype_info(b).name << " column " << j;
          }
        }
      }
    }
  }
}

/// Activations that int8 blocks find hard: zeros, one large value, tiny ones, and a row of NaN or infinity, which
/// must stay visible.
TEST_P(GemmTest, SpecialActivations) {
  for (const DType b : {DType::q8_0, DType::q4_k}) {
    for (const ProductCast cast : {ProductCast::none, ProductCast::int8_block}) {
      for (const int64_t m : {6, 9}) {
        const int64_t n = 9, k = 256;
        TestTensor x = TestTensor::random(DType::f32, {m, k}, 8), w = TestTensor::random(b, {n, k}, 9),
                   c(DType::f32, {m, n}), wanted;
        for (int64_t i = 0; i < k; ++i) {
          x.set(0 * k + i, 0.0);
          x.set(1 * k + i, i == 40 ? 1e30 : x.get(1 * k + i));
          x.set(2 * k + i, x.get(2 * k + i) * 1e-42);
        }
        x.set(3 * k + 100, std::nan(""));
        x.set(4 * k + 7, HUGE_VAL);
        const auto make = [&](const At& at) {
          GemmArgs args;
          args.c = at(c), args.a = at(x), args.b = at(w), args.cast = cast;
          return args;
        };
        run_reference<GemmArgs>(ops::gemm_reference_run, make);
        wanted = c;
        c.poison();
        run_on<GemmArgs>(device(), {&c}, make, kPortable);
        for (int64_t j = 0; j < n; ++j) {
          EXPECT_EQ(c.get(j), 0.0);
          EXPECT_NEAR(c.get(n + j), wanted.get(n + j), 1e-5 * 1e30);
          EXPECT_LE(std::abs(c.get(2 * n + j)), 1e-38);
          EXPECT_TRUE(std::isnan(c.get(3 * n + j)));
          EXPECT_FALSE(std::isfinite(c.get(4 * n + j)));
          EXPECT_NEAR(c.get(5 * n + j), wanted.get(5 * n + j), 1e-3);
        }
      }
    }
  }
}

/// Within a class (few rows, many rows) a row's bits depend on that row alone.
TEST_P(GemmTest, RowsDoNotDependOnTheBatch) {
  for (const DType b : {DType::f32, DType::bf16, DType::q8_0, DType::q4_k, DType::q6_k}) {
    for (const ProductCast cast : {ProductCast::none, ProductCast::int8_block}) {
      if (cast == ProductCast::int8_block && !is_quantised(b)) continue;
      const int64_t n = 35, k = 512;
      TestTensor w = TestTensor::random(b, {n, k}, 10);
      const auto product = [&](int64_t m, int64_t first) {
        TestTensor x = TestTensor::random(DType::f32, {40, k}, 11), c(DType::f32, {m, n});
        run_on<GemmArgs>(
            device(), {&c},
            [&](const At& at) {
              GemmArgs args;
              args.c = at(c), args.a = at(x).slice(0, first, first + m), args.b = at(w), args.cast = cast;
              return args;
            },
            kPortable);
        return c.values();
      };
      const std::vector<double> whole = product(slow() ? 16 : 40, 0);
      const int64_t least = slow() ? 8 : 16;
      for (const int64_t m : {least, least + 1, least + 3}) {
        const std::vector<double> some = product(m, 3);
        for (size_t i = 0; i < some.size(); ++i)
          ASSERT_EQ(some[i], whole[i + static_cast<size_t>(3 * n)]) << dtype_info(b).name << " m " << m;
      }
    }
  }
}

/// By matrix instructions a row's bits depend on that row alone, from one row on; and not on where the rows lie.
TEST_P(GemmTest, FewRowsDoNotDependOnTheBatch) {
  for (const DType b : kBlocks) {
    for (const DType a : {DType::bf16, DType::f16}) {
      if (!has_block_dots(device(), a, b)) continue;
      const int64_t n = 35, k = 2304;
      TestTensor w = TestTensor::random(b, {n, k}, 10, {.padding = {blocks_to_alignment(b, k / dtype_info(b).block_elements)}});
      const auto product = [&](int64_t m, int64_t first, const Placement& placement) {
        TestTensor x = TestTensor::random(a, {17, k}, 11, placement), c(DType::f32, {m, n});
        run_on<GemmArgs>(
            device(), {&c},
            [&](const At& at) {
              GemmArgs args;
              args.c = at(c), args.a = at(x).slice(0, first, first + m), args.b = at(w);
              return args;
            },
            kPortable);
        return c.values();
      };
      const std::vector<double> whole = product(17, 0, {});
      for (const auto& [m, first] : {std::pair<int64_t, int64_t>{1, 0}, {1, 9}, {2, 7}, {5, 3}, {8, 8}, {9, 1}, {16, 1}}) {
        for (const Placement& placement : {Placement{}, Placement{.padding = {3}, .offset = 1}}) {
          const std::vector<double> some = product(m, first, placement);
          for (size_t i = 0; i < some.size(); ++i)
            ASSERT_EQ(some[i], whole[i + static_cast<size_t>(first * n)]) << dtype_info(b).name << " m " << m << " from " << first;
        }
      }
    }
  }
}

/// The choice is the portable tier, and a plan for many rows serves fewer.
TEST_P(GemmTest, PlanServesFewerRows) {
  Stream stream(device());
  TestTensor x = TestTensor::random(DType::f32, {20, 256}, 12), w = TestTensor::random(DType::q6_k, {11, 256}, 13),
             c(DType::f32, {20, 11});
  GemmArgs args;
  args.c = c.on(stream), args.a = x.on(stream), args.b = w.on(stream), args.cast = ProductCast::int8_block;
  const Plan<GemmArgs> planned = plan(device(), args);
  EXPECT_EQ(planned.implementation->tier, Tier::portable);
  Buffer workspace(device(), planned.workspace_bytes);
  GemmArgs fewer = args;
  fewer.c = args.c.slice(0, 0, 2);
  fewer.a = args.a.slice(0, 0, 2);
  planned.run(stream, fewer, workspace.data());
  stream.synchronize();
  c.fetch(stream);
  std::vector<double> first = c.values();
  for (int64_t i = 2 * 11; i < c.size(); ++i)
    EXPECT_TRUE(std::isnan(first[static_cast<size_t>(i)])) << "row past the call was written";
  planned.run(stream, args, workspace.data());
  stream.synchronize();
  c.fetch(stream);
  for (int64_t i = 0; i < 2 * 11; ++i) EXPECT_EQ(c.get(i), first[static_cast<size_t>(i)]);
}

/// Few rows are multiplied as int8 blocks on every CPU, many as its path does best; GPUs take weights as they are.
TEST(GemmCast, IsSuggestedByRows) {
  for (const Target path : cpu_targets()) {
    const ScopedTarget scope(path);
    EXPECT_EQ(ops::suggested_cast(Device{}, 1), ProductCast::int8_block) << to_string(path);
    const ProductCast wanted = cpu_has_fast_bf16(path)      ? ProductCast::bf16
                               : path == Target::cpu_avx512 ? ProductCast::none
                                                            : ProductCast::int8_block;
    EXPECT_EQ(ops::suggested_cast(Device{}, 512), wanted) << to_string(path);
  }
  for (const int16_t wave : {32, 64}) {
    EXPECT_EQ(ops::suggested_cast({DeviceKind::emulated, wave}, 1), ProductCast::none);
    // A build may leave the emulated targets out.
    const Target target = wave == 32 ? Target::emulated32 : Target::emulated64;
    bool built = false;
    for (const KernelEntry& kernel : built_kernels()) built |= kernel.target == target;
    EXPECT_EQ(ops::suggested_cast({DeviceKind::emulated, wave}, 512), built ? ProductCast::bf16 : ProductCast::none);
  }
}

TEST(GemmErrors, FormsAndInt8) {
  Context context(Device{});
  TestTensor a(DType::i8, {2, 64}), b(DType::i8, {3, 64}), c(DType::i32, {2, 3}), x(DType::f32, {2, 64}),
      q(DType::q8_0, {64, 32}), y(DType::f32, {2, 3}), w(DType::f32, {3, 64}), blocks(DType::q8_0, {3, 64}), scale(DType::f32, {2}), wrong(DType::f32, {5});
  const auto call = [&](TestTensor& to, TestTensor& from, TestTensor& by, auto change) {
    GemmArgs args;
    args.c = to.host(), args.a = from.host(), args.b = by.host();
    change(args);
    run(context, args);
  };
  const auto refused = [&](const std::vector<std::string>& words, TestTensor& to, TestTensor& from, TestTensor& by,
                           auto change) {
    expect_error(ErrorCode::invalid_argument, words, [&] { call(to, from, by, change); });
  };
  refused({"gemm", "b", "i8"}, c, a, x, [](GemmArgs&) {});
  refused({"gemm", "form", "nt"}, y, x, q, [](GemmArgs& g) { g.form = ProductForm::nn; });
  refused({"gemm", "a_scale", "int8"}, c, a, b, [&](GemmArgs& g) { g.a_scale = scale.host(); });
  refused({"gemm", "a_scale"}, y, a, b, [&](GemmArgs& g) { g.a_scale = wrong.host(); });
  refused({"gemm", "bias", "i32"}, c, a, b, [&](GemmArgs& g) { g.bias = scale.host().slice(0, 0, 1); });
  refused({"gemm", "activation", "i8"}, y, a, b, [](GemmArgs& g) { g.activation = ops::Activation::silu; });
  refused({"gemm", "cast", "tf32"}, c, a, b, [](GemmArgs& g) { g.cast = ProductCast::tf32; });
  refused({"gemm", "activation", "silu"}, y, x, w, [](GemmArgs& g) { g.activation = ops::Activation::gelu_erf; });
  refused({"gemm", "activation", "gate"}, y, x, w, [&](GemmArgs& g) { g.gate = y.host(); });
  refused({"gemm", "gate"}, y, x, w, [&](GemmArgs& g) { g.gate = x.host(), g.activation = ops::Activation::silu; });
  refused({"gemm", "activation", "int8_block"}, y, x, blocks, [](GemmArgs& g) { g.activation = ops::Activation::silu, g.cast = ProductCast::int8_block; });
  refused({"gemm", "cast", "bf16"}, c, a, b, [](GemmArgs& g) { g.cast = ProductCast::bf16; });
}

TEST(GemmErrors, NameTheArgument) {
  Context context(Device{});
  TestTensor a(DType::f32, {2, 64}), b(DType::q8_0, {3, 64}), c(DType::f32, {2, 3}), wide(DType::f32, {2, 4}),
      plain(DType::f32, {3, 64});
  const auto call = [&](TestTensor& to, TestTensor& x, TestTensor& w, ProductCast cast) {
    ops::gemm(context, to.host(), x.host(), w.host(), cast);
  };
  expect_error(ErrorCode::invalid_argument, {"gemm", "c"}, [&] { call(wide, a, b, ProductCast::none); });
  expect_error(ErrorCode::invalid_argument, {"gemm", "b", "64"}, [&] { call(c, wide, b, ProductCast::none); });
  expect_error(ErrorCode::invalid_argument, {"gemm", "cast", "int8_block"},
               [&] { call(c, a, plain, ProductCast::int8_block); });
}

}  // namespace
}  // namespace monotile::test
