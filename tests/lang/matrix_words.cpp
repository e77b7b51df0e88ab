// Matrix tiles with what the library's own products leave out: epilogues written by users, batches, a scale. Compiled
// once per target and run against plain loops.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "monotile/kernels/gemm/gemm_tiles.hpp"
#include "ops/gemm/tile_configs.hpp"

namespace monotile::MONOTILE_TARGET_NAME {
namespace {

using namespace lang;  // NOLINT

#define MT_PASTE_(a, b) a##_##b
#define MT_PASTE(a, b) MT_PASTE_(a, b)
#define MT_WORD_TEST(name) TEST(MatrixWords, MT_PASTE(name, MONOTILE_TARGET_NAME))

using Config = ops::tiles::config_at<kHasMfma    ? ops::tiles::kStaged
                                     : kHasLanes ? ops::tiles::kRing
                                                 : ops::tiles::kPlain>;

/// Batches of matrices, rows padded with NaN.
struct Matrices {
  int batch, rows, cols, stride;
  std::vector<bfloat16_t> data;

  Matrices(int batch_, int rows_, int cols_, uint32_t seed)
      : batch(batch_), rows(rows_), cols(cols_), stride((cols_ + 15) / 8 * 8) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    data.assign(static_cast<size_t>(batch * rows * stride), bfloat16_t{0xffff});
    for (int b = 0; b < batch; ++b) {
      for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < cols; ++c) data[index(b, r, c)] = from_float<bfloat16_t>(uniform(random));
      }
    }
  }
  size_t index(int b, int r, int c) const { return static_cast<size_t>((b * rows + r) * stride + c); }
  float at(int b, int r, int c) const { return to_float(data[index(b, r, c)]); }
  matrix_view view() {
    matrix_view v;
    v.data = data.data(), v.dtype = DType::bf16;
    v.rows = rows, v.cols = cols, v.batch = batch, v.stride = stride;
    v.batch_stride = static_cast<int64_t>(rows) * stride;
    v.vectors = reinterpret_cast<uintptr_t>(data.data()) % 16 == 0;
    return v;
  }
};

struct Result {
  int batch, rows, cols;
  std::vector<float> data;
  Result(int b, int r, int c)
      : batch(b), rows(r), cols(c), data(static_cast<size_t>(b) * static_cast<size_t>(r * c), NAN) {}
  float at(int b, int r, int c) const { return data[static_cast<size_t>((b * rows + r) * cols + c)]; }
  matrix_view view() {
    matrix_view v;
    v.data = data.data(), v.dtype = DType::f32;
    v.rows = rows, v.cols = cols, v.batch = batch, v.stride = cols;
    v.batch_stride = static_cast<int64_t>(rows) * cols;
    return v;
  }
};

template <class Epilogue>
void multiply(Matrices& a, Matrices& b, Result& c, const Epilogue& epilogue) {
  using Kernel = kernels::GemmTiles<Config, bfloat16_t, Epilogue>;
  const auto tiles = [](int extent, int tile) { return (extent + tile - 1) / tile; };
  typename Kernel::Params p{};
  p.a = a.view(), p.b = b.view(), p.c = c.view();
  p.tiles = {tiles(c.rows, Config::bm), tiles(c.cols, Config::bn), tiles(a.cols, Config::bk), c.batch, c.rows, c.cols};
  p.epilogue = epilogue;
  Stream stream{Device{}};
  launch_tiles<Kernel>(stream, Grid{}, p);
}
float dot(const Matrices& a, const Matrices& b, int batch, int row, int col) {
  double sum = 0;
  for (int k = 0; k < a.cols; ++k) sum += static_cast<double>(a.at(batch, row, k)) * b.at(batch, col, k);
  return static_cast<float>(sum);
}

/// What a user would write: squared ReLU, and a ramp over rows and columns of each matrix.
struct RampedReluSquared {
  float slope;
  template <class Ctx, class Acc>
  MT_FN void operator()(Ctx& ctx, Acc& acc, const tile_coord& t) const {
    map_cells(ctx, acc, t, [](auto v) { return max_of(v, 0.0f) * max_of(v, 0.0f); });
    map_cells_at(ctx, acc, t, [this](auto v, int batch, int row, int col) {
      return v + slope * static_cast<float>(1000 * batch + 10 * row + col);
    });
  }
};

MT_WORD_TEST(AnEpilogueOfOnesOwn) {
  Matrices a(2, 131, 77, 1), b(2, 70, 77, 2);
  Result c(2, 131, 70);
  multiply(a, b, c, RampedReluSquared{0.5f});
  for (int m = 0; m < c.batch; ++m) {
    for (int i = 0; i < c.rows; ++i) {
      for (int j = 0; j < c.cols; ++j) {
        const float x = std::max(dot(a, b, m, i, j), 0.0f);
        ASSERT_NEAR(c.at(m, i, j), x * x + 0.5f * static_cast<float>(1000 * m + 10 * i + j), 1e-3f)
            << m << ", " << i << ", " << j;
      }
    }
  }
}

MT_WORD_TEST(ScaleBiasAndResidualOfABatch) {
  Matrices a(3, 20, 64, 3), b(3, 140, 64, 4), residual(3, 20, 140, 5);
  std::vector<float> bias(140);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) * 0.25f;
  Result c(3, 20, 140);
  kernels::AffineEpilogue epilogue;
  epilogue.scale = -1.5f;
  epilogue.bias = {bias.data(), DType::f32, false};
  epilogue.residual = residual.view();
  multiply(a, b, c, epilogue);
  for (int m = 0; m < c.batch; ++m) {
    for (int i = 0; i < c.rows; ++i) {
      for (int j = 0; j < c.cols; ++j) {
        ASSERT_NEAR(c.at(m, i, j), -1.5f * dot(a, b, m, i, j) + bias[static_cast<size_t>(j)] + residual.at(m, i, j),
                    1e-4f)
            << m << ", " << i << ", " << j;
      }
    }
  }
}

/// Without steps there is nothing to add: the epilogue alone.
MT_WORD_TEST(NoSteps) {
  Matrices a(1, 5, 0, 6), b(1, 9, 0, 7);
  Result c(1, 5, 9);
  multiply(a, b, c, RampedReluSquared{1.0f});
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 9; ++j) EXPECT_EQ(c.at(0, i, j), static_cast<float>(10 * i + j));
  }
}

}  // namespace
}  // namespace monotile::MONOTILE_TARGET_NAME
