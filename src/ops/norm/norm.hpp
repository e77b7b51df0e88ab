#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/norm.hpp"

namespace monotile::ops {

extern const Implementation<RmsNormArgs> rms_norm_reference, rms_norm_portable, rms_norm_grouped;
extern const Implementation<RmsNormQuantiseArgs> rms_norm_quantise_reference, rms_norm_quantise_portable;
extern const Implementation<LayerNormArgs> layer_norm_reference, layer_norm_portable;
/// The oracle; host memory only, arguments checked.
void rms_norm_reference_run(const RmsNormArgs& args);
void rms_norm_quantise_reference_run(const RmsNormQuantiseArgs& args);
void layer_norm_reference_run(const LayerNormArgs& args);

namespace norm {
/// Whether rows are so long that a team of programs holds each: with all its extras, RMSNorm is one kernel then.
bool takes_team(const RmsNormArgs& a, const DeviceInfo& device);
}  // namespace norm

extern const OperatorInfo rms_norm_operator, add_rms_norm_operator, rms_norm_quantise_operator, layer_norm_operator;

}  // namespace monotile::ops
