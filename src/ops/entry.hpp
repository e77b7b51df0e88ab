#pragma once
// What all host entries share: the plan of a call that has nothing to write.

#include "monotile/dispatch.hpp"

namespace monotile::ops::entry {

template <class Args>
inline constexpr Implementation<Args> nothing = {
    "nothing_to_do",
    Tier::portable,
    [](const Args&, const DeviceInfo&) -> const char* { return nullptr; },
    [](const Args&, const DeviceInfo&) { return 0.0; },
    [](const Args&, const DeviceInfo&, Plan<Args>&) {},
    [](const Plan<Args>&, Stream&, const Args&, void*) {},
};

/// Plan of a call whose outputs have no elements: implementations never see such sizes when planning.
template <class Args>
Plan<Args> empty_plan(Device device) {
  Plan<Args> result;
  result.implementation = &nothing<Args>;
  result.device = &device_info(device);
  return result;
}

/// May the host read this table while it plans? Not on GPUs, where the words are only there in stream order.
inline bool host_readable(const TensorView& table) {
  return table.defined() && table.device.host_memory() && table.data != nullptr;
}

}  // namespace monotile::ops::entry
