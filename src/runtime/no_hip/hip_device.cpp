// Builds without AMD code: no device is found, so nothing else of the table is ever reached.

#include "runtime/driver.hpp"

namespace monotile {
namespace {
FoundDevices find() { return {{}, {"hip: this build has no AMD code; configure with the hip preset"}}; }
}  // namespace

const Driver hip_driver{.find = find};

}  // namespace monotile
