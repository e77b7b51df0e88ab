#pragma once
#include <cuda_runtime_api.h>

#include <string>

#include "monotile/error.hpp"

namespace monotile::bench {

inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw Error(ErrorCode::device_error, std::string("cuda: ") + call + ": " + cudaGetErrorString(status));
}

}  // namespace monotile::bench
