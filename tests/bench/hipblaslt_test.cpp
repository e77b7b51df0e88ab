// The adapter for hipBLASLt against a stand-in library.

#include "bench/hipblaslt.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

namespace monotile::bench {
namespace {

class HipblasLt : public testing::Test {
 protected:
  // Before the library is first asked for: it is looked up once.
  static void SetUpTestSuite() { setenv("MONOTILE_HIPBLASLT_LIBRARY", FAKE_HIPBLASLT_LIBRARY, 1); }
};

TEST_F(HipblasLt, ProductsOfRowMajorOperands) {
  ASSERT_EQ(hipblaslt_absent(), "");
  constexpr int kM = 3, kN = 5, kK = 7;
  float a[kM * kK], b[kN * kK], c[kM * kN];
  for (int i = 0; i < kM * kK; ++i) a[i] = static_cast<float>(i % 5) - 1.5f;
  for (int i = 0; i < kN * kK; ++i) b[i] = static_cast<float>(i % 7) - 2.0f;
  std::vector<unsigned char> workspace(1024);
  HipblasLtProduct product(DType::f32, kM, kN, kK);
  ASSERT_EQ(product.proposals(), 3);
  for (int proposal = 0; proposal < 3; ++proposal) {
    for (float& x : c) x = std::nanf("");
    product.choose(proposal);
    ASSERT_TRUE(product.run(nullptr, a, b, c, workspace.data()));
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        float sum = 0;
        for (int k = 0; k < kK; ++k) sum += a[i * kK + k] * b[j * kK + k];
        EXPECT_EQ(c[i * kN + j], sum) << i << ", " << j;
      }
    }
  }
}

/// What the library proposes nothing for, and what it refuses.
TEST_F(HipblasLt, Refusals) {
  ASSERT_EQ(hipblaslt_absent(), "");
  EXPECT_EQ(HipblasLtProduct(DType::bf16, 3, 5, 7).proposals(), 0);  // the stand-in has fp32 alone
  float a[1] = {1}, b[1] = {1}, c[1];
  EXPECT_FALSE(HipblasLtProduct(DType::f32, 1, 1, 1).run(nullptr, a, b, c, nullptr));
}

}  // namespace
}  // namespace monotile::bench
