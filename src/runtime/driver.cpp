#include "runtime/driver.hpp"

namespace monotile {

const Driver& driver_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cuda: return cuda_driver;
    case DeviceKind::hip: return hip_driver;
    case DeviceKind::opencl: return opencl_driver;
    default: break;
  }
  throw Error(ErrorCode::internal, "driver_of: " + to_string(Device{kind, 0}) + " has no driver");
}

void offload::launch(Stream& stream, Kernel& kernel, const Launch& launch) {
  if (launch.programs == 0) return;
  const Device device = stream.device();
  const auto queue = device.host_memory() ? nullptr : driver_of(device.kind).launch;
  if (queue == nullptr) {
    throw Error(ErrorCode::internal,
                std::string("launch: ") + kernel.name + " was compiled for another device than " + to_string(device));
  }
  queue(device.index, stream.native(), kernel, launch);
}

}  // namespace monotile
