// Builds without CUDA: no hand-written kernels for caches, experts and sampling.

#include "bench/baselines.hpp"

namespace monotile::bench {

Baselines<ops::NormRopeAppendArgs> baselines(const DeviceInfo&, const ops::NormRopeAppendArgs&) { return {}; }
Baselines<ops::KvAppendArgs> baselines(const DeviceInfo&, const ops::KvAppendArgs&) { return {}; }
Baselines<ops::KvGatherArgs> baselines(const DeviceInfo&, const ops::KvGatherArgs&) { return {}; }
Baselines<ops::CopyBlocksArgs> baselines(const DeviceInfo&, const ops::CopyBlocksArgs&) { return {}; }
Baselines<ops::GatherRowsArgs> baselines(const DeviceInfo&, const ops::GatherRowsArgs&) { return {}; }
Baselines<ops::RouterArgs> baselines(const DeviceInfo&, const ops::RouterArgs&) { return {}; }
Baselines<ops::AlignArgs> baselines(const DeviceInfo&, const ops::AlignArgs&) { return {}; }
Baselines<ops::RouteArgs> baselines(const DeviceInfo&, const ops::RouteArgs&) { return {}; }
Baselines<ops::DispatchArgs> baselines(const DeviceInfo&, const ops::DispatchArgs&) { return {}; }
Baselines<ops::PermuteArgs> baselines(const DeviceInfo&, const ops::PermuteArgs&) { return {}; }
Baselines<ops::CombineArgs> baselines(const DeviceInfo&, const ops::CombineArgs&) { return {}; }
Baselines<ops::TopKArgs> baselines(const DeviceInfo&, const ops::TopKArgs&) { return {}; }
Baselines<ops::LogprobsArgs> baselines(const DeviceInfo&, const ops::LogprobsArgs&) { return {}; }
Baselines<ops::PenaltiesArgs> baselines(const DeviceInfo&, const ops::PenaltiesArgs&) { return {}; }
Baselines<ops::SampleArgs> baselines(const DeviceInfo&, const ops::SampleArgs&) { return {}; }
Baselines<ops::VerifyArgs> baselines(const DeviceInfo&, const ops::VerifyArgs&) { return {}; }

}  // namespace monotile::bench
