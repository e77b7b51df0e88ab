// Builds without SPIR-V: no device is found, so nothing else of the table is ever asked for.

#include "runtime/driver.hpp"

namespace monotile {

const Driver opencl_driver{.find = [] {
  return FoundDevices{
      {}, {"opencl: this build has no SPIR-V code; configure with the spirv preset (env/install.sh --spirv)"}};
}};

}  // namespace monotile
