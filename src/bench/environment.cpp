// What a reader must know to judge or repeat a run.

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "bench/machine.hpp"
#include "runtime/version.hpp"

namespace monotile::bench {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

std::string host_system() {
  utsname name{};
  return uname(&name) == 0 ? std::string(name.sysname) + " " + name.release + " " + name.machine : std::string();
}

nlohmann::ordered_json sensors_json(const Sensors& s) {
  nlohmann::ordered_json j = nlohmann::ordered_json::object();
  const auto put = [&](const char* name, const std::optional<double>& value) {
    if (value) j[name] = *value;
  };
  put("SM MHz", s.sm_mhz);
  put("memory MHz", s.memory_mhz);
  put("W", s.watts);
  put("W limit", s.watts_limit);
  put("deg C", s.celsius);
  if (!s.throttled.empty()) j["throttle reasons"] = s.throttled;
  return j;
}

}  // namespace

nlohmann::ordered_json environment_json(const DeviceInfo& device) {
  double load[1] = {0};
  (void)getloadavg(load, 1);
  return {{"time", utc_now()},
          {"version", detail::version()},
          {"commit", MONOTILE_COMMIT},
          {"compiler", MONOTILE_COMPILER},
          {"device", to_string(device.device)},
          {"device_name", device.name},
          {"architecture", device.architecture},
          {"path", device.path},
          {"driver", device.driver},
          {"units", device.units},
          {"cpu_threads", cpu_threads()},
          {"host", host_system()},
          {"load_average", load[0]},
          {"seed", 42},
          {"sensors", sensors_json(read_sensors(device))}};
}

std::string busy_line(const nlohmann::ordered_json& environment) {
  const double load = environment.value("load_average", 0.0);
  const int threads = environment.value("cpu_threads", cpu_threads());
  if (load <= 0.5 * threads) return {};
  return fmt::format("the machine was busy (load {:.1f} on {} threads): these times say little", load, threads);
}

}  // namespace monotile::bench
