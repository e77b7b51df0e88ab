// Builds without the headers of cuDNN and its front end: attention and norms have no vendor column.

#include "bench/cuda/cudnn.hpp"

namespace monotile::bench {

Baselines<ops::AttentionArgs> cudnn_baseline(const DeviceInfo&, const ops::AttentionArgs&) { return {}; }
Baselines<ops::RmsNormArgs> cudnn_baseline(const DeviceInfo&, const ops::RmsNormArgs&) { return {}; }
Baselines<ops::LayerNormArgs> cudnn_baseline(const DeviceInfo&, const ops::LayerNormArgs&) { return {}; }

std::string cudnn_absent() {
  return "cuDNN: its headers were not there when this was built (docs/dependencies.md); attention and norms have no vendor column";
}

}  // namespace monotile::bench
