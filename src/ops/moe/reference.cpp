#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/moe/moe.hpp"
#include "ops/reference.hpp"

namespace monotile::ops {

namespace {

/// Positions of `values`, largest first, lower position first among equals.
std::vector<int64_t> falling_order(const std::vector<double>& values) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  return order;
}

std::vector<double> scores_of(const std::vector<double>& logits, RouterScore kind) {
  std::vector<double> scores;
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const double v : logits) {
    if (kind == RouterScore::sigmoid) {
      scores.push_back(1.0 / (1.0 + std::exp(-v)));
    } else {
      scores.push_back(v == largest ? 1.0 : std::exp(v - largest));
      total += scores.back();
    }
  }
  if (kind == RouterScore::softmax) {
    for (double& s : scores) s /= total;
  }
  return scores;
}

/// Which experts the group limit lets through.
std::vector<bool> open_experts(const std::vector<double>& choice, const RouterArgs& args) {
  const size_t groups = static_cast<size_t>(args.groups), size = choice.size() / groups;
  std::vector<double> group_scores;
  for (size_t g = 0; g < groups; ++g) {
    std::vector<double> members(choice.begin() + static_cast<int64_t>(g * size),
                                choice.begin() + static_cast<int64_t>((g + 1) * size));
    std::sort(members.begin(), members.end(), std::greater<>());
    group_scores.push_back(members[0] + (args.group_sum > 1 && size > 1 ? members[1] : 0.0));
  }
  std::vector<bool> open(choice.size(), false);
  const std::vector<int64_t> order = falling_order(group_scores);
  for (size_t i = 0; i < static_cast<size_t>(args.kept_groups); ++i) {
    for (size_t e = 0; e < size; ++e) open[static_cast<size_t>(order[i]) * size + e] = true;
  }
  return open;
}

}  // namespace

void router_reference_run(const RouterArgs& args) {
  const int64_t experts = args.logits.dim(1), k = args.experts.dim(1);
  for (int64_t row = 0; row < args.logits.dim(0); ++row) {
    std::vector<double> logits;
    for (int64_t e = 0; e < experts; ++e) logits.push_back(reference::get(args.logits, row * args.logits.step(0) + e));
    const bool nan = std::any_of(logits.begin(), logits.end(), [](double v) { return std::isnan(v); });
    const bool none = std::all_of(logits.begin(), logits.end(),
                                  [](double v) { return v == -std::numeric_limits<double>::infinity(); });
    if (args.status.defined())
      reference::set(args.status, row, static_cast<double>(nan ? row_has_nan : none ? row_no_valid_token : row_ok));
    const auto put = [&](int64_t rank, int64_t expert, double weight) {
      reference::set(args.experts, row * args.experts.step(0) + rank, static_cast<double>(expert));
      reference::set(args.weights, row * args.weights.step(0) + rank, weight);
    };
    const double scale = static_cast<double>(args.scale);
    if (nan || none) {
      for (int64_t j = 0; j < k; ++j) put(j, j, scale / static_cast<double>(k));
      continue;
    }
    const std::vector<double> scores = scores_of(logits, args.score);
    std::vector<double> choice = logits;
    if (args.bias.defined() || (args.groups > 1 && args.group_sum > 1)) choice = scores;
    for (int64_t e = 0; args.bias.defined() && e < experts; ++e)
      choice[static_cast<size_t>(e)] += reference::get(args.bias, e * args.bias.step(0));
    const std::vector<bool> open =
        args.groups > 1 ? open_experts(choice, args) : std::vector<bool>(choice.size(), true);
    std::vector<int64_t> chosen;
    double total = 0;
    for (const int64_t e : falling_order(choice)) {
      if (!open[static_cast<size_t>(e)] || static_cast<int64_t>(chosen.size()) == k) continue;
      chosen.push_back(e);
      total += scores[static_cast<size_t>(e)];
    }
    for (int64_t j = 0; j < k; ++j) {
      const double s = scores[static_cast<size_t>(chosen[static_cast<size_t>(j)])];
      const double share = total > 0 ? s / total : 1.0 / static_cast<double>(k);
      put(j, chosen[static_cast<size_t>(j)], (args.renormalise ? share : s) * scale);
    }
  }
}

constinit const Implementation<RouterArgs> router_reference =
    reference::implementation<RouterArgs, router_reference_run>("router_reference");

}  // namespace monotile::ops
