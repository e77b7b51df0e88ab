// Builds without CUDA: only the CPU's libraries are compared with.

#include "bench/baselines.hpp"
#include "bench/hipblaslt.hpp"

namespace monotile::bench {

Baselines<ops::RmsNormArgs> baselines(const DeviceInfo&, const ops::RmsNormArgs&) { return {}; }
Baselines<ops::LayerNormArgs> baselines(const DeviceInfo&, const ops::LayerNormArgs&) { return {}; }
Baselines<ops::AttentionArgs> baselines(const DeviceInfo&, const ops::AttentionArgs&) { return {}; }
Baselines<ops::RopeArgs> baselines(const DeviceInfo&, const ops::RopeArgs&) { return {}; }
Baselines<ops::GatedActivationArgs> baselines(const DeviceInfo&, const ops::GatedActivationArgs&) { return {}; }
Baselines<ops::SoftmaxArgs> baselines(const DeviceInfo&, const ops::SoftmaxArgs&) { return {}; }
Baselines<ops::EmbeddingArgs> baselines(const DeviceInfo&, const ops::EmbeddingArgs&) { return {}; }
Baselines<ops::ArgmaxArgs> baselines(const DeviceInfo&, const ops::ArgmaxArgs&) { return {}; }
Baselines<ops::RmsNormQuantiseArgs> baselines(const DeviceInfo&, const ops::RmsNormQuantiseArgs&) { return {}; }
Baselines<ops::QuantiseArgs> baselines(const DeviceInfo&, const ops::QuantiseArgs&) { return {}; }
Baselines<ops::DequantiseArgs> baselines(const DeviceInfo&, const ops::DequantiseArgs&) { return {}; }
Baselines<ops::GatedQuantiseArgs> baselines(const DeviceInfo&, const ops::GatedQuantiseArgs&) { return {}; }
Baselines<ops::BiasActivationArgs> baselines(const DeviceInfo&, const ops::BiasActivationArgs&) { return {}; }

Baselines<ops::GemmArgs> baselines(const DeviceInfo& device, const ops::GemmArgs& args) {
  if (device.device.kind == DeviceKind::hip) return hipblaslt_baseline(device, args);
  return device.device.kind == DeviceKind::cpu ? host_product_baselines(args) : Baselines<ops::GemmArgs>{};
}

std::vector<std::string> absent_baselines(const DeviceInfo& device) {
  if (device.device.kind != DeviceKind::hip) return absent_host_libraries();
  const std::string why = hipblaslt_absent();
  return why.empty() ? std::vector<std::string>{} : std::vector{why};
}

}  // namespace monotile::bench
