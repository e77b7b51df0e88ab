// Runs dilated_attention on the CPU and compares it with the formula, written as loops.

#include <cmath>
#include <cstdio>
#include <vector>

#include "dilated_attention.hpp"
#include "monotile/numeric.hpp"

using monotile::bfloat16_t;

int main() {
  constexpr int kTokens = 300, kDim = 72, kStep = 3;
  constexpr float kPower = 0.7f;
  std::vector<bfloat16_t> q(kTokens * kDim), k(q.size()), v(q.size()), out(q.size());
  unsigned state = 1;
  for (auto* values : {&q, &k, &v}) {
    for (bfloat16_t& x : *values) {
      state = state * 1664525u + 1013904223u;
      x = monotile::from_float<bfloat16_t>(static_cast<float>(state >> 8) / (1 << 23) - 1.0f);
    }
  }
  int32_t q_start[] = {0, kTokens}, kv_start[] = {0}, kv_length[] = {kTokens};

  const auto rows = [](std::vector<bfloat16_t>& values) {
    return monotile::TensorView(values.data(), monotile::DType::bf16, {kTokens, 1, kDim});
  };
  const auto table = [](int32_t* values, int64_t n) { return monotile::TensorView(values, monotile::DType::i32, {n}); };
  monotile::ops::AttentionArgs args{.out = rows(out), .q = rows(q), .key_cache = rows(k), .value_cache = rows(v)};
  args.q_start = table(q_start, 2);
  args.kv_start = table(kv_start, 1);
  args.kv_length = table(kv_length, 1);
  args.max_query = kTokens;
  monotile::Context context(monotile::Device{});
  dilated_attention(context, args, kStep, kPower);
  context.stream().synchronize();

  double worst = 0;
  for (int i = 0; i < kTokens; ++i) {
    double total = 0;
    std::vector<double> sum(kDim, 0.0);
    for (int j = i % kStep; j <= i; j += kStep) {
      double score = 0;
      for (int d = 0; d < kDim; ++d) score += monotile::to_float(q[i * kDim + d]) * monotile::to_float(k[j * kDim + d]);
      const double weight = std::exp(score / std::sqrt(kDim)) / std::pow(1.0 + i - j, kPower);
      total += weight;
      for (int d = 0; d < kDim; ++d) sum[d] += weight * monotile::to_float(v[j * kDim + d]);
    }
    for (int d = 0; d < kDim; ++d)
      worst = std::fmax(worst, std::fabs(sum[d] / total - monotile::to_float(out[i * kDim + d])));
  }
  std::printf("dilated attention: largest difference %.5f (bf16 results, allowed 0.01)\n", worst);
  return worst < 0.01 ? 0 : 1;
}
