#include "monotile/device.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>

#include "runtime/cpu_features.hpp"
#include "runtime/driver.hpp"
#include "runtime/kernels.hpp"
#include "runtime/scoped_target.hpp"
#include "runtime/thread_pool.hpp"
#include "runtime/version.hpp"

#if !defined(MONOTILE_VERSION)
#define MONOTILE_VERSION "unversioned"
#endif

namespace monotile {
namespace {

struct KindName {
  DeviceKind kind;
  std::string_view name;
};
constexpr KindName kKinds[] = {{DeviceKind::cpu, "cpu"},
                               {DeviceKind::cuda, "cuda"},
                               {DeviceKind::hip, "hip"},
                               {DeviceKind::opencl, "opencl"},
                               {DeviceKind::emulated, "emulated"}};

// Emulated devices are the same on every machine, so that plans made for them are too. Sizes as on sm_90 and gfx942.
constexpr int kEmulatedUnits = 8;
constexpr size_t kEmulatedShared32 = 227 * 1024;
constexpr size_t kEmulatedShared64 = 64 * 1024;
// On a CPU scratch is ordinary memory that grows as needed; this bound only stops absurd plans.
constexpr size_t kCpuScratch = size_t{16} << 20;

constexpr std::string_view kCpuPrefix = "cpu_";

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

size_t system_value(int name) {
  const long value = sysconf(name);
  return value > 0 ? static_cast<size_t>(value) : 0;
}

struct Found {
  std::vector<DeviceInfo> devices;
  std::vector<std::string> absent;
};

DeviceInfo describe_cpu(std::vector<std::string>& notes) {
  DeviceInfo info;
  info.device = {};
  info.name = cpu_name();
  info.path = to_string(cpu_targets().back());
  info.architecture = info.path.substr(kCpuPrefix.size());
  if (const char* forced = std::getenv("MONOTILE_CPU_PATH"); forced != nullptr && *forced != '\0') {
    std::string allowed = "auto";
    bool known = std::string_view(forced) == "auto";
    for (const Target target : cpu_targets()) {
      const std::string_view name = std::string_view(to_string(target)).substr(kCpuPrefix.size());
      allowed += ", " + std::string(name);
      if (name != forced) continue;
      info.path = to_string(target);
      known = true;
    }
    if (!known)
      notes.push_back("cpu: MONOTILE_CPU_PATH: \"" + std::string(forced) + "\"; allowed: " + allowed + "; ignored");
  }
  info.units = cpu_threads();
  info.wave = 1;
  info.memory_bytes = system_value(_SC_PHYS_PAGES) * system_value(_SC_PAGESIZE);
  info.l2_bytes = system_value(_SC_LEVEL2_CACHE_SIZE);
  info.shared_bytes = kCpuScratch;
  return info;
}

DeviceInfo describe_emulated(int wave) {
  DeviceInfo info;
  info.device = {DeviceKind::emulated, static_cast<int16_t>(wave)};
  info.name = "GPU emulated on the CPU, " + std::to_string(wave) + " lanes";
  info.path = info.architecture = "emulated" + std::to_string(wave);
  info.units = kEmulatedUnits;
  info.wave = wave;
  info.memory_bytes = system_value(_SC_PHYS_PAGES) * system_value(_SC_PAGESIZE);
  info.l2_bytes = size_t{4} << 20;
  info.shared_bytes = wave == 32 ? kEmulatedShared32 : kEmulatedShared64;
  return info;
}

Found& found() {
  static Found result = [] {
    Found all;
    all.devices.push_back(describe_cpu(all.absent));
    for (const Driver* driver : {&cuda_driver, &hip_driver, &opencl_driver}) {
      const FoundDevices part = driver->find();
      all.devices.insert(all.devices.end(), part.devices.begin(), part.devices.end());
      all.absent.insert(all.absent.end(), part.absent.begin(), part.absent.end());
    }
    all.devices.push_back(describe_emulated(32));
    all.devices.push_back(describe_emulated(64));
    return all;
  }();
  return result;
}

}  // namespace

std::string to_string(Device device) {
  std::string text = "device kind " + std::to_string(static_cast<int>(device.kind));
  for (const KindName& known : kKinds) {
    if (known.kind == device.kind) text = known.name;
  }
  if (device.kind != DeviceKind::cpu || device.index != 0) text += ":" + std::to_string(device.index);
  return text;
}

Device parse_device(std::string_view text) {
  const auto refuse = [&]() {
    throw Error(ErrorCode::invalid_argument, "device: \"" + std::string(text) +
                                                 "\"; allowed: cpu, cuda:N, hip:N, opencl:N, emulated:32, emulated:64");
  };
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  Device device{DeviceKind::cpu, -1};
  for (const KindName& known : kKinds) {
    if (known.name == name) device = {known.kind, static_cast<int16_t>(known.kind == DeviceKind::emulated ? 32 : 0)};
  }
  if (device.index < 0) refuse();
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), device.index);
    if (status != std::errc() || end != digits.data() + digits.size() || device.index < 0 || digits[0] == '-') refuse();
  }
  if (device.kind == DeviceKind::cpu && device.index != 0) refuse();
  if (device.kind == DeviceKind::emulated && device.index != 32 && device.index != 64) refuse();
  return device;
}

const std::vector<DeviceInfo>& devices() { return found().devices; }

const std::vector<std::string>& absent_backends() { return found().absent; }

const char* detail::version() { return MONOTILE_VERSION; }

void detail::note_cpu_threads(int n) { found().devices.front().units = n; }

const DeviceInfo& device_info(Device device) {
  for (const DeviceInfo& info : devices()) {
    if (info.device == device) return info;
  }
  std::string present;
  for (const DeviceInfo& info : devices()) present += (present.empty() ? "" : ", ") + to_string(info.device);
  std::string why;
  for (const std::string& line : absent_backends()) {
    if (line.rfind(to_string(device).substr(0, to_string(device).find(':')) + ":", 0) == 0) why += "; " + line;
  }
  throw Error(ErrorCode::not_found, "device: " + to_string(device) + " is not usable here; present: " + present + why);
}

const char* to_string(Target target) {
  switch (target) {
    case Target::cpu_plain: return "cpu_plain";
    case Target::cpu_avx2: return "cpu_avx2";
    case Target::cpu_avx512: return "cpu_avx512";
    case Target::cpu_amx: return "cpu_amx";
    case Target::emulated32: return "emulated32";
    case Target::emulated64: return "emulated64";
    case Target::cuda_sm80: return "cuda_sm80";
    case Target::cuda_sm90: return "cuda_sm90";
    case Target::hip_gfx90a: return "hip_gfx90a";
    case Target::hip_gfx942: return "hip_gfx942";
    case Target::hip_gfx1100: return "hip_gfx1100";
    case Target::spirv: return "spirv";
    case Target::emulated_sm90: return "emulated_sm90";
    case Target::count: break;
  }
  return "unknown target";
}

namespace {

constexpr int kNoTarget = -1;
thread_local int forced_target = kNoTarget;

DeviceKind kind_of(Target target) {
  switch (target) {
    case Target::cpu_plain:
    case Target::cpu_avx2:
    case Target::cpu_avx512:
    case Target::cpu_amx: return DeviceKind::cpu;
    case Target::cuda_sm80:
    case Target::cuda_sm90: return DeviceKind::cuda;
    case Target::hip_gfx90a:
    case Target::hip_gfx942:
    case Target::hip_gfx1100: return DeviceKind::hip;
    case Target::spirv: return DeviceKind::opencl;
    default: return DeviceKind::emulated;
  }
}

}  // namespace

ScopedTarget::ScopedTarget(Target target) : before_(forced_target) { forced_target = static_cast<int>(target); }
ScopedTarget::~ScopedTarget() { forced_target = before_; }

Target target_of(const DeviceInfo& device) {
  if (forced_target != kNoTarget && kind_of(static_cast<Target>(forced_target)) == device.device.kind) return static_cast<Target>(forced_target);
  switch (device.device.kind) {
    case DeviceKind::cpu:
      for (const Target target : {Target::cpu_amx, Target::cpu_avx512, Target::cpu_avx2}) {
        if (device.path == to_string(target)) return target;
      }
      return Target::cpu_plain;
    case DeviceKind::emulated: return device.wave == 64 ? Target::emulated64 : Target::emulated32;
    case DeviceKind::cuda: return device.path == "cuda_sm90" ? Target::cuda_sm90 : Target::cuda_sm80;
    case DeviceKind::hip:
      return device.path == "hip_gfx90a"   ? Target::hip_gfx90a
             : device.path == "hip_gfx942" ? Target::hip_gfx942
                                           : Target::hip_gfx1100;
    case DeviceKind::opencl: return Target::spirv;
    default: break;
  }
  throw Error(ErrorCode::unsupported, "device: " + to_string(device.device) + " has no code path in this build");
}

}  // namespace monotile
