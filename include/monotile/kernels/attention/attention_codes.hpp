#pragma once
// Attention of many queries on codes of 8 bits: queries, keys and values, and the weights between the products. Factors of
// codes go where they cost nothing: those of queries and keys into the exponent's scale, those of values into the results'.

#include "monotile/kernels/attention/attention_prefill.hpp"

namespace monotile::kernels {

struct CodedTile : PrefillTile {
  float scale, value;  ///< of scores, for the exponent to the base of 2; of values
};

/// T: of the results. Heads of a tile share a scale.
template <class Cfg, class Code, class T>
struct AttentionCodes : AttentionPrefill<Cfg, Code, SpanMask> {
  using Base = AttentionPrefill<Cfg, Code, SpanMask>;
  using Params = CodedParams<SpanMask>;
  using result = T;
  static constexpr int kRaise = 8;  ///< weights up to 256: e4m3 has 448, and 17 powers of 2 below

  const Params& coded;
  MT_FN explicit AttentionCodes(const Params& params) : Base{{params}}, coded(params) {}

  template <class Ctx>
  static MT_FN void run(Ctx& ctx, const Params& params) {
    chain_loop<Cfg>(ctx, AttentionCodes(params));
  }
  template <class Binder>
  static void bind(const Binder& binder, Params& p) {
    Base::bind(binder, p);
  }
  MT_FN CodedTile tile(int64_t index) const {
    CodedTile t{Base::tile(index)};
    const int head = t.group * coded.q.box_x;
    t.scale =
        coded.scale_log2 * coded.q_scale[head * coded.q_scale_stride] * coded.k_scale[t.kv_head * coded.k_scale_stride];
    t.value = coded.v_scale[t.kv_head * coded.v_scale_stride];
    return t;
  }
  template <class Ctx, class State, class Acc, class Hides>
  MT_FN auto weigh(Ctx& cx, State& state, Acc& s, const CodedTile& t, int block, Hides hides) const {
    return this->template weigh_by<kRaise>(cx, state, s, t, block, hides, t.scale);
  }
  template <class Ctx, class State, class Acc>
  MT_FN void finish(Ctx& cx, State& state, Acc& out, const CodedTile& t) const {
    this->template finish_by<kRaise>(cx, state, out, t, t.scale, t.value);
  }
};

}  // namespace monotile::kernels
