#include "monotile/dispatch.hpp"
#include "ops/activation/activation.hpp"
#include "ops/attention/attention.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/moe/moe.hpp"
#include "ops/norm/norm.hpp"
#include "ops/quant/quant.hpp"
#include "ops/rope/rope.hpp"
#include "ops/sampling/sampling.hpp"
#include "ops/softmax/softmax.hpp"

namespace monotile {

const std::vector<OperatorInfo>& operators() {
  static const std::vector<OperatorInfo> list = {
      ops::rms_norm_operator,
      ops::add_rms_norm_operator,
      ops::rope_operator,
      ops::gated_activation_operator,
      ops::softmax_operator,
      ops::gemm_operator,
      ops::gemv_operator,
      ops::attention_prefill_operator,
      ops::attention_decode_operator,
      ops::attention_verify_operator,
      ops::merge_states_operator,
      ops::kv_append_operator,
      ops::argmax_operator,
      ops::sample_operator,
      ops::embedding_operator,
      ops::router_operator,
      ops::rms_norm_quantise_operator,
      ops::layer_norm_operator,
      ops::quantise_operator,
      ops::dequantise_operator,
      ops::gated_quantise_operator,
      ops::norm_rope_append_operator,
      ops::copy_blocks_operator,
      ops::kv_gather_operator,
      ops::gather_rows_operator,
      ops::bias_activation_operator,
      ops::top_k_operator,
      ops::penalties_operator,
      ops::logprobs_operator,
      ops::verify_operator,
      ops::align_operator,
      ops::dispatch_operator,
      ops::permute_operator,
      ops::combine_operator,
      ops::route_operator,
  };
  return list;
}

}  // namespace monotile
