// A mask and a change of scores of your own: a query sees itself and every `step`-th key before it, and weights fall with
// a power of the distance. The functor is all that is written; copies, products and softmax are the library's.

#include "dilated_attention.hpp"

#include "monotile/kernels/attention/attention_with.hpp"

namespace {

using namespace monotile::kernels;  // NOLINT

struct Dilated : EveryKey {
  static constexpr bool changes_scores = true;
  int step = 1;
  float power = 0.0f;

  MT_FN KeySpan keys(int /*sequence*/, int /*first_query*/, int last_query, int /*length*/) const {
    return {0, last_query + 1};
  }
  MT_FN Seen block(const ScoreBlock& b) const { return b.first_key > b.last_query ? Seen::none : Seen::some; }
  MT_FN bool sees(const QueryAt& q, int key) const { return key <= q.position && (q.position - key) % step == 0; }
  template <class V>
  MT_FN V score(V s, const QueryAt& q, int key) const {
    return s - power * fast_log(1.0f + static_cast<float>(q.position > key ? q.position - key : 0));
  }
};

}  // namespace

void dilated_attention(monotile::Context& context, const monotile::ops::AttentionArgs& args, int step, float power) {
  Dilated score;
  score.step = step;
  score.power = power;
  attention_with<monotile::bfloat16_t, 128>(context, args, score);
}
