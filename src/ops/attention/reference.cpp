#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/attention/attention.hpp"
#include "ops/reference.hpp"

namespace monotile::ops {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Keys and values of one sequence, whatever the layout of the cache.
class Sequence {
 public:
  Sequence(const AttentionArgs& args, int64_t index) : args_(args), index_(index), paged_(args.block_table.defined()) {
    length_ = reference::get_index(args.kv_length, index);
    if (paged_) {
      limit_ = args.key_cache.dim(0) > 0 ? args.block_table.dim(1) * args.key_cache.dim(2) : 0;
    } else {
      start_ = std::clamp<int64_t>(reference::get_index(args.kv_start, index), 0, args.key_cache.dim(0));
      limit_ = args.key_cache.dim(0) - start_;
      bad_ = start_ != reference::get_index(args.kv_start, index);
    }
    if (length_ < 0 || length_ > limit_) bad_ = true;
    length_ = std::clamp<int64_t>(length_, 0, limit_);
  }

  int64_t length() const { return length_; }
  /// Did an entry of a table have to be clamped?
  bool bad() const { return bad_; }
  /// Offset of the first element of key (or value) `position`, as seen by `kv_head`.
  int64_t offset(const TensorView& cache, int64_t position, int64_t kv_head) {
    if (!paged_) return (start_ + position) * cache.step(0) + kv_head * cache.step(1);
    const int64_t page_size = cache.dim(2);
    int64_t page = reference::get_index(args_.block_table, index_ * args_.block_table.step(0) + position / page_size);
    if (page < 0 || page >= cache.dim(0)) {
      bad_ = true;
      page = std::clamp<int64_t>(page, 0, cache.dim(0) - 1);
    }
    return page * cache.step(0) + kv_head * cache.step(1) + position % page_size * cache.step(2);
  }

  /// What the codes of key (or value) `position` are multiplied by; 1 for plain values.
  double scale(const TensorView& scales, int64_t position, int64_t kv_head) const {
    if (!scales.defined()) return 1.0;
    if (scales.rank == 1) return reference::get(scales, scales.dim(0) == 1 ? 0 : kv_head * scales.step(0));
    const int64_t page = reference::get_index(args_.block_table, index_ * args_.block_table.step(0) + position / scales.dim(2));
    return reference::get(scales, std::clamp<int64_t>(page, 0, scales.dim(0) - 1) * scales.step(0) + kv_head * scales.step(1) +
                                      position % scales.dim(2) * scales.step(2));
  }

 private:
  const AttentionArgs& args_;
  int64_t index_, length_ = 0, limit_ = 0, start_ = 0;
  bool paged_, bad_ = false;
};

/// The drafts of a sequence: key number committed + j is that of draft j. What a draft sees of what was before them is
/// counted from its position, one behind its parent's.
bool draft_sees(const AttentionArgs& args, int64_t s, int64_t query, int64_t key, int64_t length) {
  const int64_t tokens = args.q.dim(0), first = std::clamp<int64_t>(reference::get_index(args.q_start, s), 0, tokens);
  const int64_t drafts = std::clamp<int64_t>(reference::get_index(args.q_start, s + 1), first, tokens) - first;
  const int64_t committed = length - drafts, self = query - committed;
  const auto follows = [&](int64_t ancestor) {
    if (ancestor == self || ancestor >= 32 * args.tree_mask.dim(1)) return false;
    const int64_t word =
        reference::get_index(args.tree_mask, (first + self) * args.tree_mask.step(0) + ancestor / 32);
    return (static_cast<uint64_t>(word) >> ancestor % 32 & 1) != 0;
  };
  if (key >= committed) return key - committed == self || follows(key - committed);
  if (args.window == 0) return true;
  int64_t position = committed;
  for (int64_t j = 0; j < drafts; ++j) position += follows(j) ? 1 : 0;
  return position - key < args.window;
}

/// Does the query at `query` see the key at `key`?
bool sees(const AttentionArgs& args, int64_t s, int64_t query, int64_t key, int64_t length) {
  if (args.tree_mask.defined()) return draft_sees(args, s, query, key, length);
  const int64_t last = args.causal ? query : length - 1;
  bool seen = key <= last && (args.window == 0 || key > last - args.window);
  if (args.prefix_length.defined() && key < reference::get_index(args.prefix_length, s)) seen = true;
  if (args.key_ranges.defined()) {
    const int64_t at = s * args.key_ranges.step(0) + std::max<int64_t>(0, query) * args.key_ranges.step(1);
    seen = seen && key >= reference::get_index(args.key_ranges, at) && key < reference::get_index(args.key_ranges, at + 1);
  }
  return seen;
}

/// What is added to a score that stands `distance` = key - query.
double added(const AttentionArgs& args, int64_t head, int64_t distance) {
  double sum = 0;
  if (args.alibi_slopes.defined()) sum += reference::get(args.alibi_slopes, head) * static_cast<double>(distance);
  if (args.relative_bias.defined()) {
    const int64_t radius = args.relative_bias.dim(1) / 2;
    sum += reference::get(args.relative_bias,
                          head * args.relative_bias.step(0) + std::clamp(distance, -radius, radius) + radius);
  }
  return sum;
}

/// One query row of one head; `query` is its position among the keys.
void attend(const AttentionArgs& args, Sequence& sequence, int64_t s, int64_t token, int64_t head, int64_t query) {
  const int64_t dim_qk = args.q.dim(2), dim_v = args.out.dim(2);
  const int64_t kv_head = head / (args.q.dim(1) / args.key_cache.dim(1));
  const double scale =
      args.scale == 0.0f ? 1.0 / std::sqrt(static_cast<double>(dim_qk)) : static_cast<double>(args.scale);
  std::vector<double> scores;
  std::vector<int64_t> positions;
  double largest = -kInfinity;
  for (int64_t position = 0; position < sequence.length(); ++position) {
    if (!sees(args, s, query, position, sequence.length())) continue;
    const int64_t key = sequence.offset(args.key_cache, position, kv_head);
    double score = 0;
    for (int64_t i = 0; i < dim_qk; ++i) {
      score += reference::get(args.q, token * args.q.step(0) + head * args.q.step(1) + i) *
               reference::get(args.key_cache, key + i);
    }
    score *= scale * sequence.scale(args.key_scale, position, kv_head);
    if (args.q_scale.defined()) score *= reference::get(args.q_scale, args.q_scale.dim(0) > 1 ? head * args.q_scale.step(0) : 0);
    if (args.softcap > 0.0f)
      score = static_cast<double>(args.softcap) * std::tanh(score / static_cast<double>(args.softcap));
    score += added(args, head, position - query);
    scores.push_back(score);
    positions.push_back(position);
    largest = std::fmax(largest, score);
  }
  const double sink = args.sinks.defined() ? reference::get(args.sinks, head) : -kInfinity;
  largest = std::fmax(largest, sink);
  double sum = sink == -kInfinity ? 0.0 : std::exp(sink - largest);
  std::vector<double> result(static_cast<size_t>(dim_v), 0.0);
  for (size_t j = 0; j < scores.size() && largest != -kInfinity; ++j) {
    const double weight = std::exp(scores[j] - largest);
    const int64_t value = sequence.offset(args.value_cache, positions[j], kv_head);
    const double value_scale = sequence.scale(args.value_scale, positions[j], kv_head);
    sum += weight;
    for (size_t i = 0; i < result.size(); ++i)
      result[i] += weight * value_scale * reference::get(args.value_cache, value + static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < result.size(); ++i) {
    const double value = sum == 0.0 ? 0.0 : result[i] / sum;
    reference::set(args.out, token * args.out.step(0) + head * args.out.step(1) + static_cast<int64_t>(i), value);
  }
  if (args.log_sum_exp.defined()) {
    const TensorView& lse = args.log_sum_exp;
    reference::set(lse, token * lse.step(0) + head, sum == 0.0 ? -kInfinity : largest + std::log(sum));
  }
}

}  // namespace

void attention_reference_run(const AttentionArgs& args) {
  const int64_t tokens = args.q.dim(0);
  for (int64_t s = 0; s < args.kv_length.dim(0); ++s) {
    Sequence sequence(args, s);
    const int64_t begin = std::clamp<int64_t>(reference::get_index(args.q_start, s), 0, tokens);
    const int64_t end = std::clamp<int64_t>(reference::get_index(args.q_start, s + 1), begin, tokens);
    for (int64_t token = begin; token < end; ++token) {
      // Bottom-right: the last query of the sequence sees its last key.
      const int64_t query = token - begin + sequence.length() - (end - begin);
      for (int64_t head = 0; head < args.q.dim(1); ++head) attend(args, sequence, s, token, head, query);
    }
    if (sequence.bad() && args.status.defined()) reference::set(args.status, s, 1);
  }
}

constinit const Implementation<AttentionArgs> attention_reference =
    reference::implementation<AttentionArgs, attention_reference_run>("attention_reference");

}  // namespace monotile::ops
