#pragma once
// What the machine is and what it could do at best: the specified limits (a table), the measured ones, clocks and power.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/timeline.hpp"
#include "monotile/tensor.hpp"

namespace monotile::bench {

/// Limits that the maker states. Rates are dense, without sparsity. 0: not known, nothing is refused by it.
struct Spec {
  std::string name;
  double gbs = 0;                        ///< memory bandwidth, GB/s
  std::map<std::string, double> tflops;  ///< by dtype name
  double flops_of(DType dtype) const;    ///< TFLOP/s; 0 if unknown
};
/// The row whose name is part of `device_name`; an empty Spec if there is none.
Spec spec_of(const std::string& device_name);
/// {"name", "gbs", "tflops": {"bf16": ...}} from a file, which replaces the table. Throws Error(bad_file).
Spec read_spec(const std::string& path);

/// One measured limit.
struct Ceiling {
  std::string name;  ///< "memcpy 2 GiB", "read-only stream", "cublasLt bf16 8192^3"
  double value = 0;  ///< GB/s or TFLOP/s
};

/// The machine's measured limits. Results above them raise them.
struct Ceilings {
  Spec spec;
  std::vector<Ceiling> streams;
  std::map<std::string, Ceiling> products;  ///< best product by dtype name
  double copy_gbs = 0;                      ///< best of memcpy and our own copy kernel, read and write counted
  double peak_gbs = 0;                      ///< best of all streams, raised by results
  double launch_us = 0;                     ///< host time of a bare launch
  double empty_node_us = 0;                 ///< an empty node in a recording
  double tflops_of(DType dtype) const;      ///< measured; 0 if unknown
  /// Flop per byte above which an operator is bound by arithmetic; 0 if a limit is unknown.
  double ridge_of(DType dtype) const;
};
/// Streams and overheads. Products are added by whoever measures them.
Ceilings measure_ceilings(Stream& stream, Timeline& timeline, bool quick);

/// A stream that moves memory as fast as the device can. `bytes` are what it reads and writes in all.
struct StreamKernel {
  std::string name;
  bool copies = false;  ///< as much written as read
  double bytes = 0;
  std::function<void()> launch;
  bool recorded = true;  ///< false for memcpy: as a node of a graph it took 1.5 times as long (H200, 2026-11-29)
};
/// On buffers of `bytes` each, which live as long as the result.
std::vector<StreamKernel> stream_kernels(Stream& stream, size_t bytes);
std::vector<StreamKernel> cuda_stream_kernels(Stream& stream, size_t bytes);

/// Clocks, power and throttling by the driver's management library; absent values are left out.
struct Sensors {
  std::optional<double> sm_mhz, memory_mhz, watts, watts_limit, celsius;
  std::vector<std::string> throttled;  ///< reasons in force
};
Sensors read_sensors(const DeviceInfo& device);

/// Everything that a reader must know to judge or repeat a run.
nlohmann::ordered_json environment_json(const DeviceInfo& device);
/// A sentence if others kept the CPUs busy when `environment` was taken; empty if not.
std::string busy_line(const nlohmann::ordered_json& environment);

}  // namespace monotile::bench
