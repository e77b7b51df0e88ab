// CUDA installations without cuBLASLt's header: products have no vendor column.

#include "bench/cuda/cublaslt.hpp"

namespace monotile::bench {

Baselines<ops::GemmArgs> cublaslt_baseline(const DeviceInfo&, const ops::GemmArgs&) { return {}; }

std::string cublaslt_absent() {
  return "cuBLASLt: its header was not there when this was built; products have no vendor column";
}

}  // namespace monotile::bench
