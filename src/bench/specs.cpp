// Stated limits of devices, and what the driver tells about clocks and power.

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/machine.hpp"
#include "monotile/error.hpp"

namespace monotile::bench {
namespace {

struct SpecRow {
  const char* name;  ///< part of the device's name
  double gbs, f32, tf32, bf16, fp8, int8;
};
/// Makers' data sheets: GB/s; dense TFLOP/s (TOP/s for int8). The first row that matches counts.
constexpr SpecRow kSpecs[] = {
    {"H200 NVL", 4800, 60, 418, 836, 1671, 1671},
    {"H200", 4800, 67, 495, 989, 1979, 1979},
    {"H100 NVL", 3900, 60, 418, 836, 1671, 1671},
    {"H100 PCIe", 2039, 51, 378, 756, 1513, 1513},
    {"H100", 3352, 67, 495, 989, 1979, 1979},
    {"H800", 3352, 67, 495, 989, 1979, 1979},
    {"H20", 4000, 44, 74, 148, 296, 296},
    {"GH200", 4000, 67, 495, 989, 1979, 1979},
    {"A100-SXM4-80GB", 2039, 19.5, 156, 312, 0, 624},
    {"A100 80GB", 1935, 19.5, 156, 312, 0, 624},
    {"A100", 1555, 19.5, 156, 312, 0, 624},
    {"A10G", 600, 31.5, 35, 70, 0, 140},
    {"A30", 933, 10.3, 82, 165, 0, 330},
    {"L40S", 864, 91.6, 183, 362, 733, 733},
    {"L4", 300, 30.3, 60, 121, 242, 242},
    {"B200", 8000, 75, 1100, 2250, 4500, 4500},
    {"MI300X", 5300, 163.4, 653.7, 1307.4, 2614.9, 2614.9},
    {"MI325X", 6000, 163.4, 653.7, 1307.4, 2614.9, 2614.9},
    {"MI250X", 3277, 95.7, 0, 383, 0, 383},
    {"RTX 4090", 1008, 82.6, 82.6, 165.2, 330.3, 660.6},
};

/// The few calls of the management library that are needed, found at run time.
class Nvml {
 public:
  static const Nvml& instance() {
    static const Nvml nvml;
    return nvml;
  }
  explicit operator bool() const { return ready_; }

  Sensors sensors(unsigned index) const {
    Sensors s;
    void* device = nullptr;
    if (!ready_ || by_index_ == nullptr || by_index_(index, &device) != 0) return s;
    unsigned value = 0;
    if (clock_ != nullptr && clock_(device, 1, &value) == 0) s.sm_mhz = value;
    if (clock_ != nullptr && clock_(device, 2, &value) == 0) s.memory_mhz = value;
    if (power_ != nullptr && power_(device, &value) == 0) s.watts = value * 1e-3;
    if (limit_ != nullptr && limit_(device, &value) == 0) s.watts_limit = value * 1e-3;
    if (temperature_ != nullptr && temperature_(device, 0, &value) == 0) s.celsius = value;
    unsigned long long reasons = 0;
    if (reasons_ != nullptr && reasons_(device, &reasons) == 0) {
      constexpr std::array<const char*, 9> names = {
          "idle",          "application clocks", "power cap",        "hardware slowdown",
          "sync boost",    "software thermal",   "hardware thermal", "power brake",
          "display clocks"};
      for (size_t bit = 0; bit < names.size(); ++bit) {
        if ((reasons >> bit & 1u) != 0) s.throttled.emplace_back(names[bit]);
      }
    }
    return s;
  }

 private:
  Nvml() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    int (*init)() = nullptr;
    find(init, "nvmlInit_v2");
    find(by_index_, "nvmlDeviceGetHandleByIndex_v2");
    find(clock_, "nvmlDeviceGetClockInfo");
    find(power_, "nvmlDeviceGetPowerUsage");
    find(limit_, "nvmlDeviceGetEnforcedPowerLimit");
    find(temperature_, "nvmlDeviceGetTemperature");
    find(reasons_, "nvmlDeviceGetCurrentClocksThrottleReasons");
    ready_ = init != nullptr && init() == 0;
  }

  bool ready_ = false;
  int (*by_index_)(unsigned, void**) = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*power_)(void*, unsigned*) = nullptr;
  int (*limit_)(void*, unsigned*) = nullptr;
  int (*temperature_)(void*, int, unsigned*) = nullptr;
  int (*reasons_)(void*, unsigned long long*) = nullptr;
};

}  // namespace

double Spec::flops_of(DType dtype) const {
  // As data sheets say it.
  const char* const name = dtype == DType::f16                                  ? "bf16"
                           : dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 ? "fp8"
                           : dtype == DType::i8                                 ? "int8"
                                                                                : dtype_info(dtype).name;
  const auto found = tflops.find(name);
  return found == tflops.end() ? 0.0 : found->second;
}

Spec spec_of(const std::string& device_name) {
  for (const SpecRow& row : kSpecs) {
    if (device_name.find(row.name) == std::string::npos) continue;
    return {row.name,
            row.gbs,
            {{"f32", row.f32}, {"tf32", row.tf32}, {"bf16", row.bf16}, {"fp8", row.fp8}, {"int8", row.int8}}};
  }
  return {};
}

Spec read_spec(const std::string& path) {
  try {
    std::ifstream in(path);
    const auto json = nlohmann::json::parse(in);
    Spec spec{json.at("name"), json.at("gbs"), {}};
    for (const auto& [dtype, rate] : json.at("tflops").items()) spec.tflops[dtype] = rate;
    return spec;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::bad_file, fmt::format("{}: not {{\"name\", \"gbs\", \"tflops\"}}: {}", path, error.what()));
  }
}

double Ceilings::tflops_of(DType dtype) const {
  const auto found = products.find(dtype_info(dtype).name);
  return found == products.end() ? 0.0 : found->second.value;
}

double Ceilings::ridge_of(DType dtype) const {
  const double flops = spec.flops_of(dtype) > 0 ? spec.flops_of(dtype) : tflops_of(dtype),
               bytes = spec.gbs > 0 ? spec.gbs : peak_gbs;
  return flops > 0 && bytes > 0 ? flops * 1e3 / bytes : 0.0;
}

Sensors read_sensors(const DeviceInfo& device) {
  if (device.device.kind != DeviceKind::cuda) return {};
  return Nvml::instance().sensors(static_cast<unsigned>(device.device.index));
}

}  // namespace monotile::bench
