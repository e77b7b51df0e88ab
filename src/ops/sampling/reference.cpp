#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "monotile/random.hpp"
#include "ops/reference.hpp"
#include "ops/sampling/sampling.hpp"

namespace monotile::ops {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
/// Below this temperature a row is greedy: the quotients would overflow long before the draw could differ.
constexpr float kGreedyTemperature = 1e-5f;

std::vector<float> read_row(const TensorView& logits, int64_t row) {
  std::vector<float> values(static_cast<size_t>(logits.dim(1)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(reference::get(logits, row * logits.step(0) + static_cast<int64_t>(i)));
  }
  return values;
}

/// Index of the largest value, lowest index first; -1 if all are -inf or NaN.
int64_t index_of_largest(const std::vector<float>& values) {
  int64_t best = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    const float largest = best < 0 ? kNever : values[static_cast<size_t>(best)];
    if (values[i] > largest) best = static_cast<int64_t>(i);
  }
  return best;
}

double parameter(const TensorView& view, int64_t row, double otherwise) {
  return view.defined() ? reference::get(view, row * view.step(0)) : otherwise;
}

/// Tokens that survive the filters, most likely first; ties in order of their ids.
std::vector<size_t> kept_tokens(const SampleArgs& args, int64_t row, const std::vector<float>& logits,
                                float temperature) {
  std::vector<size_t> order;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > kNever) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });

  const int64_t top_k = args.top_k.defined() ? reference::get_index(args.top_k, row * args.top_k.step(0)) : 0;
  if (top_k > 0 && static_cast<uint64_t>(top_k) < order.size()) order.resize(static_cast<size_t>(top_k));

  const float largest = logits[order.front()];
  const auto weight = [&](size_t token) {  // probability over the largest one
    const double distance =
        logits[token] == largest
            ? 0.0
            : (static_cast<double>(logits[token]) - static_cast<double>(largest)) / static_cast<double>(temperature);
    return std::exp(distance);
  };
  const double top_p = parameter(args.top_p, row, 1.0);
  if (top_p > 0.0 && top_p < 1.0) {
    double total = 0, sum = 0;
    for (const size_t token : order) total += weight(token);
    size_t count = 0;
    while (count < order.size() && sum < top_p * total) sum += weight(order[count++]);
    order.resize(std::max<size_t>(count, 1));
  }
  const double min_p = parameter(args.min_p, row, 0.0);
  if (min_p > 0.0) {
    size_t count = 1;
    while (count < order.size() && weight(order[count]) >= min_p) ++count;
    order.resize(count);
  }
  return order;
}

/// Gumbel-max: the kept token with the largest score; ties to the lower id.
int64_t draw(const SampleArgs& args, int64_t row, const std::vector<float>& logits, float temperature) {
  const std::vector<size_t> kept = kept_tokens(args, row, logits, temperature);
  const float largest = logits[kept.front()], inverse = 1.0f / temperature;
  const uint64_t seed =
      args.seeds.defined() ? static_cast<uint64_t>(reference::get_index(args.seeds, row * args.seeds.step(0))) : 0;
  const int64_t position =
      args.positions.defined() ? reference::get_index(args.positions, row * args.positions.step(0)) : 0;
  int64_t best = -1;
  float best_score = 0;
  for (const size_t token : kept) {
    const uint32_t bits = random::bits(seed, position, random::Purpose::sample, static_cast<uint32_t>(token));
    const float score = random::gumbel_score(logits[token], largest, inverse, bits);
    const int64_t id = static_cast<int64_t>(token);
    if (best < 0 || score > best_score || (score == best_score && id < best)) {
      best = id;
      best_score = score;
    }
  }
  return best;
}

void finish_row(const TensorView& ids, const TensorView& status, int64_t row, int64_t id, RowStatus code) {
  reference::set(ids, row, static_cast<double>(id < 0 ? 0 : id));
  if (status.defined()) reference::set(status, row, static_cast<double>(code));
}

}  // namespace

void argmax_reference_run(const ArgmaxArgs& args) {
  for (int64_t row = 0; row < args.logits.dim(0); ++row) {
    const int64_t id = index_of_largest(read_row(args.logits, row));
    finish_row(args.ids, args.status, row, id, id < 0 ? row_no_valid_token : row_ok);
  }
}

void penalties_reference_run(const PenaltiesArgs& args) {
  const int64_t cols = args.logits.dim(1);
  for (int64_t row = 0; row < args.logits.dim(0); ++row) {
    const auto at = [&](int64_t token) { return row * args.logits.step(0) + token; };
    const int64_t most = args.history.defined() ? args.history.dim(1) : 0;
    const auto length_of = [&](const TensorView& view, int64_t otherwise, int64_t highest) {
      const int64_t n = view.defined() ? reference::get_index(view, row * view.step(0)) : otherwise;
      return std::clamp<int64_t>(n, 0, highest);
    };
    const int64_t length = length_of(args.history_length, most, most),
                  prompt = length_of(args.prompt_length, 0, length);
    std::map<int64_t, int64_t> made;  // 0: in the prompt only
    for (int64_t i = 0; i < length; ++i) {
      const int64_t token = reference::get_index(args.history, row * args.history.step(0) + i);
      if (token >= 0 && token < cols) made[token] += i >= prompt ? 1 : 0;
    }
    const double repetition = parameter(args.repetition, row, 1.0), presence = parameter(args.presence, row, 0.0);
    const double frequency = parameter(args.frequency, row, 0.0);
    for (const auto& [token, count] : made) {
      double v = reference::get(args.logits, at(token));
      v = v > 0 ? v / repetition : v * repetition;
      if (count > 0) v -= frequency * static_cast<double>(count) + presence;
      reference::set(args.logits, at(token), v);
    }
    std::map<int64_t, double> bias;
    for (int64_t i = 0; args.bias_ids.defined() && i < args.bias_ids.dim(1); ++i) {
      const int64_t token = reference::get_index(args.bias_ids, row * args.bias_ids.dim(1) + i);
      if (token >= 0 && token < cols) bias[token] += reference::get(args.bias, row * args.bias.dim(1) + i);
    }
    for (const auto& [token, value] : bias)
      reference::set(args.logits, at(token), reference::get(args.logits, at(token)) + value);
  }
}

void logprobs_reference_run(const LogprobsArgs& args) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  for (int64_t row = 0; row < args.logits.dim(0); ++row) {
    std::vector<double> values;
    bool nan = false;
    for (const float v : read_row(args.logits, row)) {
      nan = nan || std::isnan(v);
      values.push_back(std::isnan(v) ? kNone : static_cast<double>(v));
    }
    const double largest = *std::max_element(values.begin(), values.end());
    double total = 0;
    for (const double v : values) total += v == largest ? 1.0 : std::exp(v - largest);
    const auto judged = [&](double v) { return v == kNone ? kNone : v - (largest + std::log(total)); };
    for (int64_t i = 0; args.tokens.defined() && i < args.tokens.dim(1); ++i) {
      const int64_t at = row * args.tokens.dim(1) + i, token = reference::get_index(args.tokens, at);
      const bool inside = token >= 0 && token < static_cast<int64_t>(values.size());
      reference::set(args.logprobs, at, inside ? judged(values[static_cast<size_t>(token)]) : kNone);
    }
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
    const int64_t k = args.top_ids.defined() ? args.top_ids.dim(1) : 0;
    for (int64_t j = 0; j < k; ++j) {
      reference::set(args.top_ids, row * k + j, static_cast<double>(order[static_cast<size_t>(j)]));
      reference::set(args.top_logprobs, row * k + j, judged(values[order[static_cast<size_t>(j)]]));
    }
    if (args.status.defined()) reference::set(args.status, row, static_cast<double>(nan ? row_has_nan : row_ok));
  }
}

void verify_reference_run(const VerifyArgs& args) {
  const int64_t drafts = args.draft_tokens.dim(1), cols = args.target_probs.dim(2);
  const bool certain = !args.draft_probs.defined() || args.draft_probs.size() == 0;
  for (int64_t b = 0; b < args.target_probs.dim(0); ++b) {
    const uint64_t seed =
        args.seeds.defined() ? static_cast<uint64_t>(reference::get_index(args.seeds, b * args.seeds.step(0))) : 0;
    const int64_t position =
        args.positions.defined() ? reference::get_index(args.positions, b * args.positions.step(0)) : 0;
    const auto p = [&](int64_t i, int64_t c) {
      const double v =
          reference::get(args.target_probs, b * args.target_probs.step(0) + i * args.target_probs.step(1) + c);
      return std::isnan(v) ? 0.0 : v;
    };
    const auto q = [&](int64_t i, int64_t c) {
      if (certain) return c == reference::get_index(args.draft_tokens, b * drafts + i) ? 1.0 : 0.0;
      return reference::get(args.draft_probs, b * args.draft_probs.step(0) + i * args.draft_probs.step(1) + c);
    };
    std::vector<int64_t> out;
    bool rejected = false;
    while (static_cast<int64_t>(out.size()) < drafts) {
      const int64_t i = static_cast<int64_t>(out.size()), x = reference::get_index(args.draft_tokens, b * drafts + i);
      if (x < 0 || x >= cols) break;
      const double u =
          static_cast<double>(random::uniform(random::bits(seed, position + i, random::Purpose::accept, 0)));
      rejected = !(u * q(i, x) < p(i, x));
      if (rejected) break;
      out.push_back(x);
    }
    const int64_t i = static_cast<int64_t>(out.size());
    const random::Purpose purpose = rejected ? random::Purpose::residual : random::Purpose::sample;
    int64_t best = -1;
    double best_score = 0;
    for (int64_t c = 0; c < cols; ++c) {
      const double weight = rejected && certain ? (q(i, c) > 0 ? 0.0 : p(i, c))
                            : rejected          ? p(i, c) - q(i, c)
                                                : p(i, c);
      if (!(weight > 0)) continue;
      const double e = std::ldexp(static_cast<double>(random::exponential_q58(
                                      random::bits(seed, position + i, purpose, static_cast<uint32_t>(c)))),
                                  -58);
      if (best < 0 || weight / e > best_score) best = c, best_score = weight / e;
    }
    reference::set(args.accepted, b, static_cast<double>(i));
    if (args.status.defined())
      reference::set(args.status, b, static_cast<double>(best < 0 && !rejected ? row_no_valid_token : row_ok));
    out.push_back(best >= 0 ? best : rejected ? reference::get_index(args.draft_tokens, b * drafts + i) : 0);
    out.resize(static_cast<size_t>(drafts + 1), -1);
    for (int64_t j = 0; j <= drafts; ++j)
      reference::set(args.tokens, b * (drafts + 1) + j, static_cast<double>(out[static_cast<size_t>(j)]));
  }
}

void sample_reference_run(const SampleArgs& args) {
  if (args.penalties.any()) {
    PenaltiesArgs penalties = args.penalties;
    penalties.logits = args.logits;
    penalties_reference_run(penalties);
  }
  for (int64_t row = 0; row < args.logits.dim(0); ++row) {
    const std::vector<float> logits = read_row(args.logits, row);
    if (std::any_of(logits.begin(), logits.end(), [](float v) { return std::isnan(v); })) {
      finish_row(args.ids, args.status, row, 0, row_has_nan);
      continue;
    }
    int64_t id = index_of_largest(logits);
    if (id < 0) {
      finish_row(args.ids, args.status, row, id, row_no_valid_token);
      continue;
    }
    const float temperature = static_cast<float>(parameter(args.temperature, row, 1.0));
    if (temperature >= kGreedyTemperature) id = draw(args, row, logits, temperature);  // else (NaN too): greedy
    finish_row(args.ids, args.status, row, id, row_ok);
  }
}

void top_k_reference_run(const TopKArgs& args) {
  const int64_t k = args.ids.dim(1);
  for (int64_t row = 0; row < args.logits.dim(0); ++row) {
    std::vector<float> values = read_row(args.logits, row);
    bool nan = false;
    for (float& v : values) {
      if (!std::isnan(v)) continue;
      nan = true;
      v = kNever;
    }
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
    for (int64_t j = 0; j < k; ++j) {
      const size_t column = order[static_cast<size_t>(j)];
      reference::set(args.values, row * k + j, static_cast<double>(values[column]));
      reference::set(args.ids, row * k + j, static_cast<double>(column));
    }
    if (args.status.defined()) reference::set(args.status, row, static_cast<double>(nan ? row_has_nan : row_ok));
  }
}

constinit const Implementation<ArgmaxArgs> argmax_reference =
    reference::implementation<ArgmaxArgs, argmax_reference_run>("argmax_reference");
constinit const Implementation<SampleArgs> sample_reference =
    reference::implementation<SampleArgs, sample_reference_run>("sample_reference");

constinit const Implementation<TopKArgs> top_k_reference =
    reference::implementation<TopKArgs, top_k_reference_run>("top_k_reference");

constinit const Implementation<PenaltiesArgs> penalties_reference =
    reference::implementation<PenaltiesArgs, penalties_reference_run>("penalties_reference");
constinit const Implementation<LogprobsArgs> logprobs_reference =
    reference::implementation<LogprobsArgs, logprobs_reference_run>("logprobs_reference");
constinit const Implementation<VerifyArgs> verify_reference =
    reference::implementation<VerifyArgs, verify_reference_run>("verify_reference");

}  // namespace monotile::ops
