#pragma once
// What a query sees, and how its scores change: plain structs with inline functions, arguments of `AttentionPrefill`.
// One of your own derives from EveryKey and replaces what differs.

#include <cstdint>

#include "monotile/lang/view.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// How much of a block of scores is seen: blocks of `none` are neither copied nor multiplied, and `sees` is asked in
/// blocks of `some` alone.
enum class Seen : uint8_t { none, some, all };

/// Queries by the position of their key: query i of n is at i + (length - n), so that the last one sees the last key.
/// Negative where there are more queries than keys.
struct QueryAt {
  int sequence, head, position, length;
};
/// Positions, both ends included.
struct ScoreBlock {
  int sequence, first_query, last_query, first_key, last_key, length;
};
/// [first, end).
struct KeySpan {
  int first, end;
};

/// Full attention: what every functor starts from.
struct EveryKey {
  static constexpr bool changes_scores = false;  ///< is `score` to be called?
  /// Keys that any of these queries may see. (A functor may also have `whole`, the keys that each of them sees, if blocks within
  /// are seen whole and all others of `keys` in part: `block` is not asked then.)
  MT_FN KeySpan keys(int /*sequence*/, int /*first_query*/, int /*last_query*/, int length) const {
    return {0, length};
  }
  MT_FN Seen block(const ScoreBlock&) const { return Seen::all; }
  /// What `sees` and `score` are given: whatever is best looked up once per query.
  MT_FN QueryAt row(const QueryAt& q) const { return q; }
  MT_FN bool sees(const QueryAt&, int /*key*/) const { return true; }
  /// From the scaled score, in natural units.
  MT_FN float score(float s, const QueryAt&, int /*key*/) const { return s; }
};

/// The library's own masks, chosen at run time: causal, window, prefix, ranges (documents). What a query sees may be two spans.
struct RangeMask : EveryKey {
  bool causal = true;
  int window = 0;                   ///< 0: none
  const int32_t* prefix = nullptr;  ///< per sequence: keys before it are seen by all
  const int32_t* ranges = nullptr;  ///< per sequence and position, [first, end) of what is seen at all; never falling
  int64_t ranges_stride = 0;        ///< between sequences

  /// Keys that a query sees: of two spans.
  struct Row {
    KeySpan own, prefix;
  };

  MT_FN int end_of(int query, int length) const { return !causal ? length : query < 0 ? 0 : query + 1; }
  MT_FN int first_of(int query, int length) const {
    const int end = end_of(query, length);
    return window > 0 && end > window ? end - window : 0;
  }
  MT_FN KeySpan range_of(int sequence, int query, int length) const {
    if (ranges == nullptr) return {0, length};
    const int32_t* const r = ranges + sequence * ranges_stride + 2 * static_cast<int64_t>(query < 0 ? 0 : query);
    return {r[0], r[1]};
  }
  MT_FN int prefix_of(int sequence) const { return prefix == nullptr ? 0 : prefix[sequence]; }
  static MT_FN KeySpan common(const KeySpan& a, const KeySpan& b) {
    return {a.first > b.first ? a.first : b.first, a.end < b.end ? a.end : b.end};
  }

  MT_FN KeySpan keys(int sequence, int first_query, int last_query, int length) const {
    KeySpan span{first_of(first_query, length), end_of(last_query, length)};
    if (const int all = prefix_of(sequence); all > 0) span = {0, all > span.end ? all : span.end};
    const int first = range_of(sequence, first_query, length).first, end = range_of(sequence, last_query, length).end;
    return common(common(span, {first, end}), {0, length});
  }
  MT_FN Seen block(const ScoreBlock& b) const {
    const int all = prefix_of(b.sequence);
    const KeySpan any{first_of(b.first_query, b.length), end_of(b.last_query, b.length)},
        whole{first_of(b.last_query, b.length), end_of(b.first_query, b.length)};
    const auto within = [&](const KeySpan& s) { return b.first_key >= s.first && b.last_key < s.end; };
    const auto meets = [&](const KeySpan& s) { return b.last_key >= s.first && b.first_key < s.end; };
    if (!meets(any) && b.first_key >= all) return Seen::none;
    bool seen = within(whole) || b.last_key < all;
    if (ranges != nullptr) {
      const KeySpan one = range_of(b.sequence, b.first_query, b.length),
                    last = range_of(b.sequence, b.last_query, b.length);
      if (!meets({one.first, last.end})) return Seen::none;
      seen = seen && within({last.first, one.end});
    }
    return seen ? Seen::all : Seen::some;
  }
  MT_FN Row row(const QueryAt& q) const {
    const KeySpan range = range_of(q.sequence, q.position, q.length);
    return {common({first_of(q.position, q.length), end_of(q.position, q.length)}, range),
            common({0, prefix_of(q.sequence)}, range)};
  }
  /// Is what a query sees one span of keys, which kernels compare with faster?
  MT_FN bool one_span() const { return prefix == nullptr; }
  MT_FN KeySpan span(const QueryAt& q, int length) const { return common(row(q).own, {0, length}); }
  /// Without branches: it is asked for each element of a block.
  MT_FN bool sees(const Row& r, int key) const { return (static_cast<int>(holds(r.own, key)) | static_cast<int>(holds(r.prefix, key))) != 0; }
  /// By one comparison: keys before the span wrap around to large numbers.
  static MT_FN bool holds(const KeySpan& s, int key) {
    const auto count = static_cast<uint32_t>(s.end > s.first ? s.end - s.first : 0);
    return static_cast<uint32_t>(key) - static_cast<uint32_t>(s.first) < count;
  }
};

/// A causal mask or none: nothing is looked up. What most prefill is, and 2 to 4 % faster than the mask of one span.
struct CausalMask : EveryKey {
  bool causal = true;

  MT_FN int end_of(int query, int length) const { return !causal ? length : query < 0 ? 0 : query + 1; }
  MT_FN KeySpan keys(int /*sequence*/, int /*first_query*/, int last_query, int length) const {
    return {0, end_of(last_query, length)};
  }
  MT_FN KeySpan whole(int /*sequence*/, int first_query, int /*last_query*/, int length) const {
    return {0, end_of(first_query, length)};
  }
  static constexpr bool one_span() { return true; }
  MT_FN KeySpan span(const QueryAt& q, int length) const { return {0, end_of(q.position, length)}; }
  MT_FN bool sees(const QueryAt& q, int key) const { return key < end_of(q.position, q.length); }
};

/// The library's own masks where a query sees one span of keys: without a prefix beside a window.
struct SpanMask : RangeMask {
  using Row = KeySpan;
  MT_FN KeySpan span_of(int sequence, int query, int length) const {
    const int end = end_of(query, length), all = prefix_of(sequence);
    return common({first_of(query, length), end > all ? end : all}, range_of(sequence, query, length));
  }
  MT_FN KeySpan keys(int sequence, int first_query, int last_query, int length) const {
    return common({span_of(sequence, first_query, length).first, span_of(sequence, last_query, length).end}, {0, length});
  }
  MT_FN KeySpan whole(int sequence, int first_query, int last_query, int length) const {
    return {span_of(sequence, last_query, length).first, span_of(sequence, first_query, length).end};
  }
  static constexpr bool one_span() { return true; }
  MT_FN KeySpan span(const QueryAt& q, int length) const { return common(row(q), {0, length}); }
  MT_FN Row row(const QueryAt& q) const { return span_of(q.sequence, q.position, q.length); }
  MT_FN bool sees(const Row& r, int key) const { return holds(r, key); }
};

/// And its own changes of scores, in this order: soft-cap, ALiBi, bias by distance.
struct ScoredMask : RangeMask {
  static constexpr bool changes_scores = true;
  float softcap = 0.0f, softcap_inverse = 0.0f;  ///< 0: none
  const float* slopes = nullptr;                 ///< per head: score += slope * (key - query)
  const float* bias = nullptr;                   ///< per head, by (key - query) from -radius to radius, the ends go on
  int64_t bias_stride = 0;
  int bias_radius = 0;

  /// What there is of them: where products overlap, kernels have code of its own for one change alone.
  enum class Changes : uint8_t { cap, slope, any };
  MT_FN Changes changes() const {
    if (bias != nullptr || (softcap > 0.0f && slopes != nullptr)) return Changes::any;
    return softcap > 0.0f ? Changes::cap : Changes::slope;
  }

  struct Row : RangeMask::Row {
    int position;
    float slope;
    const float* bias;  ///< of distance 0
  };
  MT_FN Row row(const QueryAt& q) const {
    return {RangeMask::row(q), q.position, slopes == nullptr ? 0.0f : slopes[q.head],
            bias == nullptr ? nullptr : bias + q.head * bias_stride + bias_radius};
  }
  template <class V>  // a template, since the host, which only fills this in, has no mathematics of a target
  MT_FN V score(V s, const Row& r, int key) const {
    const int distance = key - r.position;
    if (softcap > 0.0f) s = softcap * near_tanh(s * softcap_inverse);
    s += r.slope * static_cast<float>(distance);
    if (bias != nullptr)
      s += r.bias[distance < -bias_radius ? -bias_radius : distance > bias_radius ? bias_radius : distance];
    return s;
  }
};

}  // namespace monotile::kernels
