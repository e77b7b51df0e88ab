#pragma once
#include "bench/baselines.hpp"

namespace monotile::bench {

/// The best of up to 8 algorithms that cuBLASLt proposes for this product, each tried on its data. Empty without the library.
Baselines<ops::GemmArgs> cublaslt_baseline(const DeviceInfo& device, const ops::GemmArgs& args);
/// Why there is none; empty if it was found.
std::string cublaslt_absent();

}  // namespace monotile::bench
