#include "bench/run_ops.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <random>
#include <set>

#include "bench/shapes.hpp"
#include "runtime/version.hpp"

namespace monotile::bench {
namespace {

constexpr double kFloorTolerance = 0.98;
constexpr double kHostCostBelow_us = 30.0;  ///< longer calls hide what issuing them costs

class Run {
 public:
  explicit Run(const OpsOptions& options)
      : options_(options),
        info_(device_info(options.device)),
        stream_(options.device),
        timeline_(timeline_of(stream_)) {
    const bool quick = options.shapes == "quick";
    method_.cache = options.cache;
    method_.budget_us = options.budget_us > 0 ? options.budget_us : quick ? 250e3 : 150e3;
    if (options.every_call_in_graphs) method_.node_us = 1e12;
    if (options.gaps) method_.gap_us = 20e3;
  }

  Report operator()() {
    const double begin = timeline_->now_us();
    report_.environment = environment_json(info_);
    report_.environment["cache"] = options_.cache == Cache::cold ? "cold" : "hot";
    report_.environment["regime"] = options_.gaps ? "with gaps" : "sustained";
    if (std::string line = busy_line(report_.environment); host() && !line.empty())
      report_.notes.push_back(std::move(line));
    std::vector<std::string> names;
    for (const auto& op : bench_operators()) {
      const auto matches = [&](const std::string& pattern) {
        return fnmatch(pattern.c_str(), op->name.c_str(), 0) == 0;
      };
      if (options_.patterns.empty() || std::any_of(options_.patterns.begin(), options_.patterns.end(), matches))
        names.push_back(op->name);
    }
    if (names.empty()) {
      for (const auto& op : bench_operators()) names.push_back(op->name);
      throw Error(ErrorCode::not_found, fmt::format("--op: no operator matches \"{}\"; there are {}",
                                                    fmt::join(options_.patterns, ","), fmt::join(names, ", ")));
    }
    check_words(names);
    if (has_products(names)) {
      for (const std::string& line : absent_baselines(info_)) report_.notes.push_back(line);
    }
    if (!options_.threads.empty() && !info_.device.host_memory())
      throw Error(ErrorCode::invalid_argument,
                  "--threads: " + to_string(info_.device) + "; allowed: with --device cpu");
    if (options_.threads.empty()) {
      measure_all(names, begin);
    } else {
      const int before = cpu_threads();
      for (const int threads : options_.threads) {
        set_cpu_threads(threads);
        beside_copy_ = true;
        measure_all(names, begin);
      }
      set_cpu_threads(before);
    }
    report_.seconds = (timeline_->now_us() - begin) * 1e-6;
    report_.environment["sensors_after"] = environment_json(info_)["sensors"];
    return std::move(report_);
  }

 private:
  /// Tiers and types that nothing answers to are mistakes of typing.
  void check_words(const std::vector<std::string>& names) const {
    const std::vector<std::string> tiers = {"portable", "portable_sm80", "tuned",    "vendor",
                                            "native",   "naive",         "reference"};
    for (const std::string& column : options_.columns) {
      if (std::find(tiers.begin(), tiers.end(), column) == tiers.end())
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("--tier: \"{}\"; allowed: all, {}", column, fmt::join(tiers, ", ")));
    }
    if (options_.dtypes.empty()) return;
    std::set<std::string> known;
    for (const std::string& name : names) {
      for (const DType dtype : operator_named(name).dtypes) known.insert(dtype_info(dtype).name);
    }
    for (const std::string& dtype : options_.dtypes) {
      if (known.count(dtype) == 0)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("--dtype: \"{}\"; allowed for these operators: {}", dtype, fmt::join(known, ", ")));
    }
  }

  bool host() const { return by_host_clock(info_.device); }

  /// Ceilings and rows, with as many threads as there are now.
  void measure_all(const std::vector<std::string>& names, double begin) {
    const size_t first_row = report_.rows.size();
    Ceilings before = std::move(report_.ceilings);
    report_.ceilings = measure_ceilings(stream_, *timeline_, options_.shapes == "quick");
    if (!options_.spec_file.empty()) report_.ceilings.spec = read_spec(options_.spec_file);
    if (beside_copy_) {
      constexpr size_t kCopied = size_t{512} << 20;  // far past the size from which memcpy writes past the caches
      for (StreamKernel& kernel : stream_kernels(stream_, kCopied)) {
        if (kernel.copies) copy_ = std::move(kernel);
      }
    }
    if (has_products(names)) measure_products();
    for (const auto& [item, dtype] : options_.work) measure(item, dtype);
    const std::vector<WorkItem> work =
        options_.work.empty() ? work_for(options_.shapes, names, host()) : std::vector<WorkItem>{};
    for (size_t i = 0; i < work.size(); ++i) {
      const WorkItem& item = work[i];
      if (options_.seconds > 0 && timeline_->now_us() - begin > options_.seconds * 1e6) {
        report_.notes.push_back(fmt::format("stopped after {:.0f} s: {} of {} shapes were not measured",
                                            options_.seconds, work.size() - i, work.size()));
        break;
      }
      for (const DType dtype : dtypes_for(operator_named(item.op))) measure(item, dtype);
    }
    // Peaks may have been raised meanwhile.
    for (size_t i = first_row; i < report_.rows.size(); ++i) place(report_.rows[i], report_.ceilings);
    for (Ceiling& stream : report_.ceilings.streams) {
      if (beside_copy_) stream.name += fmt::format(" ({})", cpu_threads());
      before.streams.push_back(stream);
    }
    report_.ceilings.streams = std::move(before.streams);
  }

  /// One memcpy of memory far beyond the caches, GB/s.
  double copy_gbs() {
    const double begin = timeline_->now_us();
    copy_.launch();
    return copy_.bytes * 1e-3 / (timeline_->now_us() - begin);
  }

  static const Operator& operator_named(const std::string& name) {
    for (const auto& op : bench_operators()) {
      if (op->name == name) return *op;
    }
    throw Error(ErrorCode::not_found, "no operator \"" + name + "\" to measure");
  }

  std::vector<DType> dtypes_for(const Operator& op) const {
    const bool has_f32 = std::find(op.dtypes.begin(), op.dtypes.end(), DType::f32) != op.dtypes.end();
    if (options_.dtypes.empty()) return {host() && has_f32 ? DType::f32 : op.dtypes.front()};
    std::vector<DType> list;
    for (const DType dtype : op.dtypes) {
      if (std::find(options_.dtypes.begin(), options_.dtypes.end(), dtype_info(dtype).name) != options_.dtypes.end())
        list.push_back(dtype);
    }
    return list;
  }

  size_t memory_budget() const { return host() ? size_t{1} << 30 : info_.memory_bytes / 4; }

  static bool has_products(const std::vector<std::string>& names) {
    return std::any_of(names.begin(), names.end(),
                       [](const std::string& n) { return n.rfind("gemm", 0) == 0 || n.rfind("attention", 0) == 0; });
  }

  /// The measured peak of products: the best of everything that can do a large square one.
  void measure_products() {
    const int64_t size = host() ? 768 : 8192;
    Method method = method_;
    method.cache = Cache::hot;
    const std::vector<std::pair<const char*, DType>> kinds =
        host() ? std::vector<std::pair<const char*, DType>>{{"gemm", DType::f32}}
               : std::vector<std::pair<const char*, DType>>{{"gemm", DType::bf16}, {"gemm", DType::f16}, {"gemm_fp8", DType::f8_e4m3}, {"gemm_int8", DType::i8}};
    for (const auto& [op, dtype] : kinds) {
      const auto one =
          operator_named(op).make(stream_, *timeline_, {size, size, size}, dtype, Cache::hot, memory_budget());
      std::vector<std::string> columns = {"vendor", "tuned"};
      if (host() || dtype == DType::f8_e4m3 || dtype == DType::i8) columns.emplace_back("portable");
      for (const Candidate& candidate : one->candidates(columns)) {
        try {
          const Timing timing = time_device(*timeline_, {candidate.launch, 1, 0}, method);
          const double tflops = one->flops() * 1e-6 / timing.us.median;
          Ceiling& best = report_.ceilings.products[dtype_info(dtype).name];
          if (tflops > best.value)
            best = {fmt::format("{} {} {}^3", candidate.implementation, dtype_info(dtype).name, size), tflops};
        } catch (const std::exception& error) {
          report_.notes.push_back(candidate.implementation + ": " + error.what());
        }
      }
    }
  }

  void measure(const WorkItem& item, DType dtype) {
    Row row;
    row.op = item.op;
    row.shape = shape_text(item.dims);
    row.dtype = dtype_info(dtype).name;
    row.model = item.model;
    row.phase = item.phase;
    row.calls = item.calls;
    if (beside_copy_) row.threads = cpu_threads();
    std::unique_ptr<Case> one;
    std::vector<Candidate> candidates;
    try {
      one = operator_named(item.op).make(stream_, *timeline_, item.dims, dtype, options_.cache, memory_budget());
      candidates = one->candidates(options_.columns);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::invalid_argument) throw;
      row.status = "failed";
      row.note = error.what();
      return finish(std::move(row));
    }
    if (candidates.empty()) {
      row.status = "failed";
      row.note = "no implementation of the wanted tiers on " + to_string(info_.device);
      return finish(std::move(row));
    }
    row.bytes = one->bytes();
    row.flops = one->flops();
    place(row, report_.ceilings);
    // Shuffled, so that no implementation always runs on the chip that another has heated.
    std::vector<size_t> order(candidates.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<Row> rows(candidates.size(), row);
    for (const size_t i : order) measure_candidate(*one, candidates[i], rows[i]);
    for (Row& done : rows) finish(std::move(done));
  }

  void measure_candidate(Case& one, const Candidate& candidate, Row& row) {
    row.column = candidate.column;
    row.implementation = candidate.implementation;
    row.chosen = candidate.chosen;
    row.workspace_bytes = candidate.workspace_bytes;
    try {
      one.reset();
      int last_set = 0;  // that was timed: on slow machines not all are
      const auto launch = [&](int set) {
        last_set = std::max(last_set, set);
        candidate.launch(set);
      };
      const Subject subject{launch, one.sets(), static_cast<size_t>(row.bytes)};
      // Copies around the row: whoever else uses the machine's memory slows both.
      std::vector<double> copies;
      const auto copy = [&] {
        for (int i = 0; beside_copy_ && i < 3; ++i) copies.push_back(copy_gbs());
      };
      copy();
      const Timing timing = time_device(*timeline_, subject, method_);
      copy();
      row.copy_gbs = spread_of(copies).median;
      row.us = timing.us;
      row.method = timing.method;
      row.first_call_us = timing.first_call_us;
      verify(one, candidate, last_set, row);
      judge(row);
      if (timeline_->asynchronous() && timing.launches.size() == 1 && row.us.median < kHostCostBelow_us) {
        row.host = time_host(
            *timeline_, [&] { candidate.launch(0); }, [&] { timeline_->bare_launch(timing.launches.front()); });
      }
    } catch (const Fault& fault) {
      // In the profile of a model a call may touch too little of too much to be timed cold: no figure, and no lie either.
      const bool left_out = fault.kind() == FaultKind::warm_cache && !options_.work.empty();
      row.status = left_out ? "left out" : "refused";
      row.note = fault.what();
    } catch (const std::exception& error) {
      row.status = "failed";
      row.note = error.what();
    }
  }

  /// The timed output, or, where calls change their inputs, that of one more call of the timed kind on fresh data.
  void verify(Case& one, const Candidate& candidate, int set, Row& row) {
    if (one.changes_inputs()) {
      one.reset();
      candidate.launch(set);
    }
    timeline_->wait();
    const Accuracy accuracy = one.check(set);
    row.error = accuracy.worst;
    row.checked = accuracy.elements;
    if (!accuracy.wrong.empty()) throw Fault(FaultKind::wrong_output, accuracy.wrong);
  }

  void judge(Row& row) {
    check_floor(row, options_.cache);
    Ceilings& c = report_.ceilings;
    if (options_.cache == Cache::cold && row.memory_bound && row.gbs() > c.peak_gbs) {
      row.note = fmt::format("raised the measured peak from {:.0f} to {:.0f} GB/s", c.peak_gbs, row.gbs());
      c.peak_gbs = row.gbs();
    }
    const auto product = c.products.find(row.dtype);
    if (!row.memory_bound && product != c.products.end() && row.tflops() > product->second.value) {
      row.note =
          fmt::format("raised the measured peak from {:.1f} to {:.1f} TFLOP/s", product->second.value, row.tflops());
      product->second = {row.implementation + " " + row.op + " " + row.shape, row.tflops()};
    }
  }

  void finish(Row row) {
    if (options_.progress) {
      options_.progress(
          fmt::format("{} {} {} {}: {}", row.op, row.shape, row.dtype, row.column,
                      row.status == "ok" ? fmt::format("{:.2f} us", row.us.median) : row.status + ", " + row.note));
    }
    report_.rows.push_back(std::move(row));
  }

  const OpsOptions& options_;
  const DeviceInfo& info_;
  Stream stream_;
  std::unique_ptr<Timeline> timeline_;
  Method method_;
  Report report_;
  bool beside_copy_ = false;  ///< memcpy is measured beside every row
  StreamKernel copy_;
  std::mt19937 random_{1};
};

}  // namespace

void check_floor(const Row& row, Cache cache) {
  // What lies in the cache may be read faster than memory allows; arithmetic has no cache.
  if (cache == Cache::hot && row.memory_bound) return;
  if (row.floor_us > 0 && row.us.median < kFloorTolerance * row.floor_us) {
    throw Fault(
        FaultKind::under_floor,
        fmt::format(
            "{:.2f} us, but the device's specified limits allow no less than {:.2f} us ({:.0f} GB/s, {:.1f} TFLOP/s)",
            row.us.median, row.floor_us, row.gbs(), row.tflops()));
  }
}

Report run_ops(const OpsOptions& options) { return Run(options)(); }

}  // namespace monotile::bench
