#pragma once
// The current CUDA device of a thread, chosen for the length of a call. Used by the runtime and by every launch.

#include <cuda_runtime_api.h>

#include <string>

#include "monotile/error.hpp"

namespace monotile::cuda {

/// `device` is this thread's current one while this lives (asked each time, some nanoseconds); the caller's own choice
/// comes back after.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    if (cudaGetDevice(&before_) == cudaSuccess && before_ == device) {
      before_ = -1;
      return;
    }
    const cudaError_t status = cudaSetDevice(device);
    if (status == cudaSuccess) return;
    (void)cudaGetLastError();  // a refused call must not show up again in the application's next one
    throw Error(ErrorCode::device_error, std::string("cuda: cudaSetDevice: ") + cudaGetErrorString(status) + " (" +
                                             cudaGetErrorName(status) + ")");
  }
  ~CurrentDevice() {
    if (before_ >= 0) (void)cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = -1;
};

}  // namespace monotile::cuda
