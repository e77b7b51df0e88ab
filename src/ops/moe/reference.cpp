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

void align_reference_run(const AlignArgs& args) {
  const int64_t experts = args.counts.dim(0), pairs = args.experts.size(), capacity = args.sorted.dim(0);
  std::vector<std::vector<int64_t>> shares(static_cast<size_t>(experts));
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const int64_t expert = reference::get_index(args.experts, pair) - args.first_expert;
    reference::set(args.positions, pair, -1.0);
    if (expert >= 0 && expert < experts) shares[static_cast<size_t>(expert)].push_back(pair);
  }
  for (int64_t i = 0; i < capacity; ++i) reference::set(args.sorted, i, static_cast<double>(pairs));
  for (int64_t b = 0; args.block_experts.defined() && b < capacity / args.block; ++b)
    reference::set(args.block_experts, b, -1.0);
  int64_t at = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const auto& share = shares[static_cast<size_t>(e)];
    reference::set(args.offsets, e, static_cast<double>(at));
    reference::set(args.counts, e, static_cast<double>(share.size()));
    for (size_t i = 0; i < share.size(); ++i) {
      reference::set(args.sorted, at + static_cast<int64_t>(i), static_cast<double>(share[i]));
      reference::set(args.positions, share[i], static_cast<double>(at + static_cast<int64_t>(i)));
    }
    for (size_t i = 0; i < share.size(); i += static_cast<size_t>(args.block)) {
      if (args.block_experts.defined()) reference::set(args.block_experts, at / args.block, static_cast<double>(e));
      at += args.block;
    }
  }
  reference::set(args.offsets, experts, static_cast<double>(at));
}

void dispatch_reference_run(const DispatchArgs& args) {
  const int64_t k = args.positions.dim(1);
  for (int64_t pair = 0; pair < args.positions.size(); ++pair) {
    const int64_t at = reference::get_index(args.positions, pair);
    for (int64_t c = 0; at >= 0 && c < args.x.dim(1); ++c)
      reference::set(args.y, at * args.y.step(0) + c, reference::get(args.x, pair / k * args.x.step(0) + c));
  }
}

void permute_reference_run(const PermuteArgs& args) {
  const int64_t end = args.end.defined() ? reference::get_index(args.end, 0) : args.sorted.dim(0);
  for (int64_t i = 0; i < end; ++i) {
    const int64_t token = reference::get_index(args.sorted, i * args.sorted.step(0)) / args.top_k;
    for (int64_t c = 0; c < args.x.dim(1); ++c) {
      const bool real = token < args.x.dim(0);
      reference::set(args.y, i * args.y.step(0) + c, real ? reference::get(args.x, token * args.x.step(0) + c) : 0.0);
    }
  }
}

void combine_reference_run(const CombineArgs& args) {
  const int64_t k = args.positions.dim(1);
  for (int64_t t = 0; t < args.y.dim(0); ++t) {
    for (int64_t c = 0; c < args.y.dim(1); ++c) {
      double sum = args.addend.defined() ? reference::get(args.addend, t * args.addend.step(0) + c) : 0.0;
      for (int64_t j = 0; j < k; ++j) {
        const int64_t at = reference::get_index(args.positions, t * k + j);
        if (at >= 0) sum += reference::get(args.weights, t * k + j) * reference::get(args.x, at * args.x.step(0) + c);
      }
      reference::set(args.y, t * args.y.step(0) + c, sum);
    }
  }
}

void route_reference_run(const RouteArgs& args) {
  router_reference_run(args.router);
  align_reference_run(align_part(args));
  if (args.x.defined()) dispatch_reference_run(dispatch_part(args));
}

constinit const Implementation<RouterArgs> router_reference =
    reference::implementation<RouterArgs, router_reference_run>("router_reference");

constinit const Implementation<AlignArgs> align_reference =
    reference::implementation<AlignArgs, align_reference_run>("align_reference");
constinit const Implementation<DispatchArgs> dispatch_reference =
    reference::implementation<DispatchArgs, dispatch_reference_run>("dispatch_reference");
constinit const Implementation<PermuteArgs> permute_reference =
    reference::implementation<PermuteArgs, permute_reference_run>("permute_reference");
constinit const Implementation<CombineArgs> combine_reference =
    reference::implementation<CombineArgs, combine_reference_run>("combine_reference");

constinit const Implementation<RouteArgs> route_reference =
    reference::implementation<RouteArgs, route_reference_run>("route_reference");

}  // namespace monotile::ops
