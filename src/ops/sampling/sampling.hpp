#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/sampling.hpp"

namespace monotile::ops {

extern const Implementation<ArgmaxArgs> argmax_reference, argmax_portable;
extern const Implementation<SampleArgs> sample_reference, sample_portable;
extern const Implementation<TopKArgs> top_k_reference, top_k_portable;
extern const Implementation<PenaltiesArgs> penalties_reference, penalties_portable;
extern const Implementation<LogprobsArgs> logprobs_reference, logprobs_portable;
extern const Implementation<VerifyArgs> verify_reference, verify_portable;
/// The oracles; host memory only, arguments checked.
void argmax_reference_run(const ArgmaxArgs& args);
void sample_reference_run(const SampleArgs& args);
void top_k_reference_run(const TopKArgs& args);
void penalties_reference_run(const PenaltiesArgs& args);
void logprobs_reference_run(const LogprobsArgs& args);
void verify_reference_run(const VerifyArgs& args);

extern const OperatorInfo argmax_operator, sample_operator, top_k_operator, penalties_operator, logprobs_operator,
    verify_operator;

}  // namespace monotile::ops
