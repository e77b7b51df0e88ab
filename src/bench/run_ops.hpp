#pragma once
// `monotile bench ops`: ceilings, then every operator, shape and implementation that was asked for.

#include <functional>
#include <string>
#include <vector>

#include "bench/report.hpp"
#include "bench/shapes.hpp"

namespace monotile::bench {

struct OpsOptions {
  std::vector<std::string> patterns;  ///< globs over operator names; empty: all
  double seconds = 0;                 ///< stop after this time, with a note; 0: never
  std::string shapes = "default";
  std::vector<std::pair<WorkItem, DType>> work;  ///< if given, exactly this, instead of `shapes`
  std::vector<std::string> dtypes;               ///< empty: the first that an operator lists (f32 on the CPU)
  std::vector<std::string> columns;              ///< empty: all but the reference
  Device device;
  Cache cache = Cache::cold;
  bool every_call_in_graphs = false;
  bool gaps = false;
  double budget_us = 0;  ///< of one row's samples; 0: by shapes
  std::vector<int>
      threads;  ///< on the CPU: everything with each of these numbers of threads; empty: as many as there are
  std::string spec_file;
  std::function<void(const std::string&)> progress;  ///< one line per row
};

/// Throws Error for wrong options. Broken measurements become rows with the status "refused".
Report run_ops(const OpsOptions& options);

/// Throws Fault(under_floor) for a row that is faster than the specified limits allow.
void check_floor(const Row& row, Cache cache);

}  // namespace monotile::bench
