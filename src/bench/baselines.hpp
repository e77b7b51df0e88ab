#pragma once
// What an operator is compared with, other than its own tiers: clean hand-written kernels, deliberately naive ones, and
// libraries found at run time.

#include <functional>
#include <string>
#include <vector>

#include "monotile/ops/activation.hpp"
#include "monotile/ops/attention.hpp"
#include "monotile/ops/embedding.hpp"
#include "monotile/ops/gemm.hpp"
#include "monotile/ops/kv_cache.hpp"
#include "monotile/ops/moe.hpp"
#include "monotile/ops/norm.hpp"
#include "monotile/ops/quant.hpp"
#include "monotile/ops/rope.hpp"
#include "monotile/ops/sampling.hpp"
#include "monotile/ops/softmax.hpp"

namespace monotile::bench {

template <class Args>
struct Baseline {
  std::string column;  ///< "native", "naive", "vendor"
  std::string name;
  std::function<void(Stream&, const Args&)> launch;
};
template <class Args>
using Baselines = std::vector<Baseline<Args>>;

/// Those that can do this call. Operators without an overload have none.
template <class Args>
Baselines<Args> baselines(const DeviceInfo&, const Args&) {
  return {};
}
Baselines<ops::RmsNormArgs> baselines(const DeviceInfo& device, const ops::RmsNormArgs& args);
Baselines<ops::LayerNormArgs> baselines(const DeviceInfo& device, const ops::LayerNormArgs& args);
Baselines<ops::AttentionArgs> baselines(const DeviceInfo& device, const ops::AttentionArgs& args);
Baselines<ops::RopeArgs> baselines(const DeviceInfo& device, const ops::RopeArgs& args);
Baselines<ops::GatedActivationArgs> baselines(const DeviceInfo& device, const ops::GatedActivationArgs& args);
Baselines<ops::SoftmaxArgs> baselines(const DeviceInfo& device, const ops::SoftmaxArgs& args);
Baselines<ops::EmbeddingArgs> baselines(const DeviceInfo& device, const ops::EmbeddingArgs& args);
Baselines<ops::ArgmaxArgs> baselines(const DeviceInfo& device, const ops::ArgmaxArgs& args);
Baselines<ops::RmsNormQuantiseArgs> baselines(const DeviceInfo& device, const ops::RmsNormQuantiseArgs& args);
Baselines<ops::QuantiseArgs> baselines(const DeviceInfo& device, const ops::QuantiseArgs& args);
Baselines<ops::DequantiseArgs> baselines(const DeviceInfo& device, const ops::DequantiseArgs& args);
Baselines<ops::GatedQuantiseArgs> baselines(const DeviceInfo& device, const ops::GatedQuantiseArgs& args);
Baselines<ops::BiasActivationArgs> baselines(const DeviceInfo& device, const ops::BiasActivationArgs& args);
Baselines<ops::NormRopeAppendArgs> baselines(const DeviceInfo& device, const ops::NormRopeAppendArgs& args);
Baselines<ops::KvAppendArgs> baselines(const DeviceInfo& device, const ops::KvAppendArgs& args);
Baselines<ops::KvGatherArgs> baselines(const DeviceInfo& device, const ops::KvGatherArgs& args);
Baselines<ops::CopyBlocksArgs> baselines(const DeviceInfo& device, const ops::CopyBlocksArgs& args);
Baselines<ops::GatherRowsArgs> baselines(const DeviceInfo& device, const ops::GatherRowsArgs& args);
Baselines<ops::RouterArgs> baselines(const DeviceInfo& device, const ops::RouterArgs& args);
Baselines<ops::AlignArgs> baselines(const DeviceInfo& device, const ops::AlignArgs& args);
Baselines<ops::RouteArgs> baselines(const DeviceInfo& device, const ops::RouteArgs& args);
Baselines<ops::DispatchArgs> baselines(const DeviceInfo& device, const ops::DispatchArgs& args);
Baselines<ops::PermuteArgs> baselines(const DeviceInfo& device, const ops::PermuteArgs& args);
Baselines<ops::CombineArgs> baselines(const DeviceInfo& device, const ops::CombineArgs& args);
Baselines<ops::TopKArgs> baselines(const DeviceInfo& device, const ops::TopKArgs& args);
Baselines<ops::LogprobsArgs> baselines(const DeviceInfo& device, const ops::LogprobsArgs& args);
Baselines<ops::PenaltiesArgs> baselines(const DeviceInfo& device, const ops::PenaltiesArgs& args);
Baselines<ops::SampleArgs> baselines(const DeviceInfo& device, const ops::SampleArgs& args);
Baselines<ops::VerifyArgs> baselines(const DeviceInfo& device, const ops::VerifyArgs& args);
Baselines<ops::GemmArgs> baselines(const DeviceInfo& device, const ops::GemmArgs& args);

/// OpenBLAS and oneDNN, where this machine has them.
Baselines<ops::GemmArgs> host_product_baselines(const ops::GemmArgs& args);
std::vector<std::string> absent_host_libraries();

/// One line per library or kernel family that is absent here, saying why.
std::vector<std::string> absent_baselines(const DeviceInfo& device);

}  // namespace monotile::bench
