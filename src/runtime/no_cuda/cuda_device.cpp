// Builds without CUDA: no device is found, so nothing else of the table is ever asked for.

#include "runtime/driver.hpp"

namespace monotile {

const Driver cuda_driver{.find = [] {
  return FoundDevices{{}, {"cuda: this build has no CUDA code; configure with the cuda preset"}};
}};

}  // namespace monotile
