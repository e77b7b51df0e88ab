#pragma once
// What a run found, and its forms: JSON, terminal, Markdown, one HTML page.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/machine.hpp"
#include "bench/measure.hpp"
#include "bench/operator.hpp"

namespace monotile::bench {

using Json = nlohmann::ordered_json;

struct Row {
  std::string op, shape, dtype, model, phase;
  double calls = 0;  ///< in one step of the model
  std::string column, implementation;
  bool chosen = false;
  Spread us;
  std::string method;
  double bytes = 0, flops = 0;
  double floor_us = 0;  ///< by the specified limits
  double best_us = 0;   ///< by the measured limits
  bool memory_bound = true;
  int threads = 0;      ///< of the CPU; 0: not on a CPU, or not recorded
  double copy_gbs = 0;  ///< memcpy with as many threads, just before and after this row; 0: not measured
  double first_call_us = 0;
  size_t workspace_bytes = 0;
  std::optional<HostCost> host;
  double error = 0;  ///< largest error over its bound
  int64_t checked = 0;
  std::string status = "ok";  ///< "ok", "refused", "failed"
  std::string note;

  double gbs() const { return us.median > 0 ? bytes * 1e-3 / us.median : 0; }
  double tflops() const { return us.median > 0 ? flops * 1e-6 / us.median : 0; }
  double of_spec() const { return us.median > 0 ? floor_us / us.median : 0; }
  double of_peak() const { return us.median > 0 ? best_us / us.median : 0; }
  double of_copy() const { return copy_gbs > 0 ? gbs() / copy_gbs : 0; }
  /// Rows that measure the same work, with as many threads where a run has several numbers of them.
  std::string work_key() const {
    return op + " " + shape + " " + dtype + " " + phase + " " + model +
           (threads > 0 ? " " + std::to_string(threads) : "");
  }
  std::string key() const { return work_key() + " " + column + " " + implementation; }
};

struct Report {
  Json environment;
  Ceilings ceilings;
  std::vector<Row> rows;
  std::vector<std::string> notes;  ///< absent libraries, raised peaks
  double seconds = 0;
  bool refused() const;
};

/// Fills floor_us, best_us and memory_bound from the ceilings.
void place(Row& row, const Ceilings& ceilings);

Json to_json(const Report& report);
/// Throws Error(bad_file) naming the file and what is wrong with it.
Report read_report(const std::string& path);

std::string text_table(const Report& report, bool wide);
std::string markdown(const Report& report);
/// The short table of the README: single shapes only.
std::string readme_table(const Report& report);
/// `other`: an earlier run or another machine, compared in a section of its own.
std::string html(const Report& report, const Report* other = nullptr);

/// Of one work: the time of the best implementation of ours, and of the portable kernel.
struct Price {
  const Row *portable = nullptr, *best = nullptr, *native = nullptr, *naive = nullptr, *vendor = nullptr,
            *tuned = nullptr, *ampere = nullptr, *peer = nullptr;
  /// portable time over the best of all columns; 0 if there is no portable row.
  double price() const { return portable != nullptr && best != nullptr ? portable->us.median / best->us.median : 0; }
};
/// In order of first appearance, by work_key().
std::vector<std::pair<std::string, Price>> prices(const Report& report);

}  // namespace monotile::bench
