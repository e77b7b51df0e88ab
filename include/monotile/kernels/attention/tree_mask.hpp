#pragma once
// The mask of speculative decoding with a tree of drafted tokens: another argument of `AttentionPrefill`.

#include "monotile/kernels/attention/scores.hpp"

namespace monotile::kernels {
using namespace lang;  // NOLINT: kernels are written in the language

/// The queries of a sequence are its drafted tokens, and their keys its last ones. A query sees every key before them and,
/// among them, itself and those that its row of `bits` names.
struct TreeMask : EveryKey {
  static constexpr bool changes_scores =
      true;  ///< one functor with and without a soft-cap: few queries wait for memory

  const int32_t* q_start = nullptr;
  const uint32_t* bits = nullptr;  ///< per token: bit j for draft j of its sequence
  int64_t bits_stride = 0;         ///< between tokens
  int words = 0;                   ///< of a token
  int tokens = 0;                  ///< of all sequences: what `q_start` says is cut to it
  int window = 0;  ///< 0: none; else at least the drafts of a sequence, so that ancestors are always within it
  float softcap = 0.0f, softcap_inverse = 0.0f;  ///< 0: none

  struct Row {
    int committed;  ///< keys before the drafts
    int first;      ///< the first of these that is seen
    int own;        ///< number among the drafts
    const uint32_t* bits;
  };
  struct Drafts {
    int first_token, count;
  };

  MT_FN int within(int token) const { return token < 0 ? 0 : token < tokens ? token : tokens; }
  MT_FN Drafts drafts(int sequence) const {
    const int first = within(q_start[sequence]), end = within(q_start[sequence + 1]);
    return {first, end > first ? end - first : 0};
  }
  /// Positions follow from the depth in the tree: drafts side by side have the same. Here of a token with `depth` ancestors.
  MT_FN int first_of(int committed, int depth) const {
    const int first = committed + depth + 1 - window;
    return window > 0 && first > 0 ? first : 0;
  }
  static MT_FN constexpr int bits_set(uint32_t v) {
    v -= v >> 1 & 0x55555555u;
    v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
    return static_cast<int>(((v + (v >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
  }
  /// Ancestors of draft `own` among `count`.
  MT_FN int depth_of(const uint32_t* row, int own, int count) const {
    int depth = 0;
    for (int w = 0; w < words && 32 * w < count; ++w) {
      const int left = count - 32 * w;
      const uint32_t there = left >= 32 ? ~0u : (1u << left) - 1, self = own / 32 == w ? 1u << own % 32 : 0u;
      depth += bits_set(row[w] & there & ~self);
    }
    return depth;
  }

  MT_FN KeySpan keys(int sequence, int /*first_query*/, int /*last_query*/, int length) const {
    return {first_of(length - drafts(sequence).count, 0), length};
  }
  MT_FN Seen block(const ScoreBlock& b) const {
    const int count = drafts(b.sequence).count, committed = b.length - count;
    return b.last_key < committed && b.first_key >= first_of(committed, count - 1) ? Seen::all : Seen::some;
  }
  MT_FN Row row(const QueryAt& q) const {
    const Drafts d = drafts(q.sequence);
    Row r{q.length - d.count, 0, q.position - (q.length - d.count), nullptr};
    r.bits = bits + (d.first_token + r.own) * bits_stride;
    r.first = first_of(r.committed, window > 0 ? depth_of(r.bits, r.own, d.count) : 0);
    return r;
  }
  MT_FN bool sees(const Row& r, int key) const {
    const int draft = key - r.committed;
    if (draft < 0) return key >= r.first;
    return draft == r.own || (draft < 32 * words && (r.bits[draft / 32] >> draft % 32 & 1u) != 0);
  }
  template <class V>  // a template, since the host, which only fills this in, has no mathematics of a target
  MT_FN V score(V s, const Row&, int /*key*/) const {
    return softcap > 0.0f ? softcap * near_tanh(s * softcap_inverse) : s;
  }
};

}  // namespace monotile::kernels
