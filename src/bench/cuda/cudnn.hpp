#pragma once
#include "bench/baselines.hpp"
#include "monotile/ops/attention.hpp"

namespace monotile::bench {

/// cuDNN's plan for this call, the first that its heuristic offers. Empty without the library, or where it has none.
Baselines<ops::AttentionArgs> cudnn_baseline(const DeviceInfo& device, const ops::AttentionArgs& args);
Baselines<ops::RmsNormArgs> cudnn_baseline(const DeviceInfo& device, const ops::RmsNormArgs& args);
Baselines<ops::LayerNormArgs> cudnn_baseline(const DeviceInfo& device, const ops::LayerNormArgs& args);
/// Why there is none; empty if it was found.
std::string cudnn_absent();

}  // namespace monotile::bench
