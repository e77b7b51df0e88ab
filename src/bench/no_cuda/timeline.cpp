// Builds without CUDA: there is no such device to open a timeline on.

#include "bench/timeline.hpp"
#include "bench/machine.hpp"
#include "monotile/error.hpp"

namespace monotile::bench {

std::unique_ptr<Timeline> cuda_timeline(Stream&) {
  throw Error(ErrorCode::unsupported, "bench: this build has no CUDA");
}

std::vector<StreamKernel> cuda_stream_kernels(Stream&, size_t) { return {}; }

}  // namespace monotile::bench
