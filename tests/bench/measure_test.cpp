// Planted faults: each way to fool a benchmark must be caught. They run on a simulated device with a clock of its own, so that
// every machine can test what needs an asynchronous one.

#include "bench/measure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "bench/compare.hpp"
#include "bench/report.hpp"
#include "bench/run_ops.hpp"

namespace monotile::bench {
namespace {

/// A queue whose work takes made-up time: `launch` costs the host something and the device something else, and a set that
/// is still in the cache is read faster.
class SimulatedDevice : public Timeline {
 public:
  double host_us = 0, device_us = 0;  ///< now; when the device will be done
  double issue_us = 4;                ///< host time of a launch
  bool spins = true, records = true;
  int other_stream_launches = 0;

  bool asynchronous() const override { return true; }
  double now_us() override { return host_us; }
  void wait() override { host_us = std::max(host_us, device_us); }
  void sleep(double us) override { host_us += us; }
  void spin(double us) override {
    if (spins) queue(us);
  }
  void flush_cache() override {
    last_used_.clear();
    if (spins) queue(40);
  }
  size_t cache_bytes() const override { return 50 << 20; }
  void mark(int which) override { marks_[which] = std::max(host_us, device_us); }
  bool passed(int which) override { return marks_[which] <= host_us; }
  double between_marks_us() override {
    wait();
    return marks_[1] - marks_[0];
  }
  std::unique_ptr<Recording> record(const std::function<void()>& issue) override {
    if (!records) return nullptr;
    auto recording = std::make_unique<Recorded>(*this);
    recording_ = recording.get();
    issue();
    recording_ = nullptr;
    return recording;
  }
  void bare_launch(const LaunchShape&) override {
    host_us += issue_us;
    queue(1);
  }

  /// A kernel on the timed stream: `cold_us`, or a third of it if its data is in the cache.
  void launch(int set, size_t bytes, double cold_us) {
    if (recording_ != nullptr) {
      recording_->launches.push_back({});
      recording_->work.push_back([=, this] { run(set, bytes, cold_us); });
      return;
    }
    host_us += issue_us;
    run(set, bytes, cold_us);
  }
  void launch_elsewhere() {
    host_us += issue_us;
    ++other_stream_launches;
  }

 private:
  struct Recorded : Recording {
    explicit Recorded(SimulatedDevice& d) : device(d) {}
    void replay() override {
      device.host_us += device.issue_us;
      for (const auto& node : work) node();
    }
    SimulatedDevice& device;
    std::vector<std::function<void()>> work;
  };
  void queue(double us) { device_us = std::max(device_us, host_us) + us; }
  void run(int set, size_t bytes, double cold_us) {
    const bool warm = last_used_.count(set) != 0 && touched_ - last_used_[set] + bytes <= cache_bytes();
    queue(warm ? cold_us / 3 : cold_us);
    touched_ += bytes;
    last_used_[set] = touched_;
  }

  std::map<int, double> marks_;
  std::map<int, size_t> last_used_;
  size_t touched_ = 0;
  Recorded* recording_ = nullptr;
};

FaultKind fault_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Fault& fault) {
    return fault.kind();
  }
  ADD_FAILURE() << "no fault was found";
  return FaultKind::under_floor;
}

constexpr size_t kMiB = size_t{1} << 20;

TEST(Measure, SpreadIsMedianAndPercentiles) {
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) values.push_back(i);
  const Spread s = spread_of(values);
  EXPECT_EQ(s.median, 50);
  EXPECT_EQ(s.p10, 10);
  EXPECT_EQ(s.p90, 90);
  EXPECT_EQ(s.n, 101);
  EXPECT_EQ(spread_of({}).n, 0);
}

TEST(Measure, ShortCallIsTimedInsideAGraphWithoutHostCost) {
  SimulatedDevice device;
  const Timing t = time_device(device, {[&](int set) { device.launch(set, kMiB, 3.0); }, 50, kMiB}, {});
  EXPECT_NEAR(t.us.median, 3.0, 0.01);  // the host needs 4 us for each launch
  EXPECT_EQ(t.us.n, 100);
  EXPECT_EQ(t.method, "graph of 50, cold");
}

TEST(Measure, EventsBehindASpinMeasureTheDevice) {
  SimulatedDevice device;
  device.records = false;
  const Timing t = time_device(device, {[&](int set) { device.launch(set, 40 * kMiB, 3.0); }, 8, 40 * kMiB}, {});
  EXPECT_NEAR(t.us.median, 3.0, 0.01);
  EXPECT_EQ(t.method, "events, cold");
}

TEST(Measure, HotIsFasterAndSaysSo) {
  SimulatedDevice device;
  Method method;
  method.cache = Cache::hot;
  const Timing t = time_device(device, {[&](int set) { device.launch(set, kMiB, 3.0); }, 4, kMiB}, method);
  EXPECT_NEAR(t.us.median, 1.0, 0.01);
  EXPECT_NE(t.method.find("hot"), std::string::npos);
}

TEST(PlantedFault, HostCostCountedAsDeviceTime) {
  SimulatedDevice device;
  device.records = false;
  device.spins = false;  // an idle stream: the device waits for each launch
  EXPECT_EQ(fault_of([&] {
              time_device(device, {[&](int set) { device.launch(set, 40 * kMiB, 3.0); }, 8, 40 * kMiB}, {});
            }),
            FaultKind::idle_device);
}

TEST(PlantedFault, WorkOnAnotherStream) {
  SimulatedDevice device;
  EXPECT_EQ(fault_of([&] {
              time_device(device, {[&](int) { device.launch_elsewhere(); }, 50, kMiB}, {});
            }),
            FaultKind::wrong_stream);
  EXPECT_GT(device.other_stream_launches, 0);
}

TEST(PlantedFault, WarmCacheShownAsCold) {
  SimulatedDevice device;
  // One set of 1 MiB, 50 calls in a row: only the first of them could be cold.
  EXPECT_EQ(fault_of([&] {
              time_device(device, {[&](int set) { device.launch(set, kMiB, 3.0); }, 1, kMiB}, {});
            }),
            FaultKind::warm_cache);
  EXPECT_GE(cold_sets(device, kMiB, kMiB, size_t{1} << 30), 50);
}

TEST(Measure, ShortCallsOnAFewLargeSetsUseEachSetOncePerSample) {
  SimulatedDevice device;
  const Timing timing = time_device(device, {[&](int set) { device.launch(set, kMiB, 3.0); }, 30, kMiB}, {});
  EXPECT_EQ(timing.method, "graph of 30, cold");
  EXPECT_NEAR(timing.us.median, 3.0, 0.5);
}

TEST(PlantedFault, WarmCacheShownAsColdOnACpu) {
  const auto timeline = host_timeline();
  EXPECT_EQ(fault_of([&] { time_device(*timeline, {[](int) {}, 2, 1024}, {}); }), FaultKind::warm_cache);
}

TEST(PlantedFault, CompilingInsideTheTimedRegion) {
  SimulatedDevice device;
  device.records = false;
  int calls = 0;
  // Something is built again whenever a measurement starts: after the warm-ups, at every 100th call.
  const auto launch = [&](int set) { device.launch(set, 40 * kMiB, ++calls % 100 == 11 ? 900.0 : 3.0); };
  EXPECT_EQ(fault_of([&] { time_device(device, {launch, 8, 40 * kMiB}, {}); }), FaultKind::one_off_cost);
}

TEST(Measure, CompilingOnceIsFirstCallTimeOnly) {
  SimulatedDevice device;
  bool compiled = false;
  const Timing t = time_device(device,
                               {[&](int set) {
                                  if (!compiled) device.host_us += 5000;
                                  compiled = true;
                                  device.launch(set, kMiB, 3.0);
                                },
                                50, kMiB},
                               {});
  EXPECT_GT(t.first_call_us, 5000);
  EXPECT_NEAR(t.us.median, 3.0, 0.01);
}

TEST(Measure, HostCostIsTheDifferenceToABareLaunch) {
  SimulatedDevice device;
  const HostCost cost = time_host(
      device, [&] { device.host_us += 0.4, device.launch(0, 1, 0.1); }, [&] { device.bare_launch({}); });
  EXPECT_NEAR(cost.difference.median, 0.4, 0.05);
  EXPECT_NEAR(cost.bare.median, 4.0, 0.05);
}

Row row_of(double us, double bytes, double flops = 0, const char* op = "softmax") {
  Row row;
  row.op = op;
  row.shape = "1x1";
  row.dtype = "bf16";
  row.column = "portable";
  row.us = {us, us * 0.99, us * 1.01, 100};
  row.bytes = bytes;
  row.flops = flops;
  return row;
}

Ceilings h200() {
  Ceilings c;
  c.spec = spec_of("NVIDIA H200");
  c.copy_gbs = c.peak_gbs = 4276;
  return c;
}

TEST(PlantedFault, FasterThanTheChipCanBe) {
  Row row = row_of(12.4, 4.0 * 2 * 16384 * 4096);
  place(row, h200());
  EXPECT_EQ(fault_of([&] { check_floor(row, Cache::cold); }), FaultKind::under_floor);
  Row product = row_of(152, 1e6, 5.5e11, "attention_full");
  place(product, h200());
  EXPECT_EQ(fault_of([&] { check_floor(product, Cache::hot); }), FaultKind::under_floor);  // arithmetic has no cache
  // The limit of 8-bit operands is another: 1,375 TFLOP/s are possible, 5,500 are not.
  for (const char* dtype : {"f8_e4m3", "f8_e5m2", "i8"}) {
    for (const double us : {400.0, 100.0}) {
      Row codes = row_of(us, 1e6, 5.5e11, "gemm_fp8");
      codes.dtype = dtype;
      place(codes, h200());
      if (us > 200)
        EXPECT_NO_THROW(check_floor(codes, Cache::hot)) << dtype;
      else
        EXPECT_EQ(fault_of([&] { check_floor(codes, Cache::hot); }), FaultKind::under_floor) << dtype;
    }
  }
  Row honest = row_of(134.8, 4.0 * 2 * 16384 * 4096);
  place(honest, h200());
  EXPECT_NO_THROW(check_floor(honest, Cache::cold));
}

TEST(Compare, OverlappingSpreadsCannotTell) {
  Report before, after;
  before.rows = {row_of(100, 1)};
  after.rows = {row_of(110, 1)};
  EXPECT_EQ(compare(before, after, 0.97).at(0).judgement, Judgement::slower);
  after.rows[0].us.p10 = 99;
  EXPECT_EQ(compare(before, after, 0.97).at(0).judgement, Judgement::cannot_tell);
  after.rows = {row_of(101, 1)};
  EXPECT_EQ(compare(before, after, 0.97).at(0).judgement, Judgement::same);
  after.rows = {row_of(50, 1)};
  EXPECT_EQ(compare(before, after, 0.97).at(0).judgement, Judgement::faster);
}

TEST(Report, JsonRoundTrip) {
  Report report;
  report.environment = {{"device_name", "test"}};
  report.ceilings = h200();
  report.rows = {row_of(134.8, 4.0 * 2 * 16384 * 4096)};
  report.rows[0].host = HostCost{{4, 4, 4, 50}, {3.8, 3.8, 3.8, 50}, {0.2, 0.2, 0.2, 50}};
  report.rows[0].threads = 2;
  report.rows[0].copy_gbs = 20.0;
  const std::string path = ::testing::TempDir() + "bench_report.json";
  std::ofstream(path) << to_json(report).dump();
  const Report again = read_report(path);
  ASSERT_EQ(again.rows.size(), 1u);
  EXPECT_EQ(again.rows[0].key(), report.rows[0].key());
  EXPECT_EQ(again.rows[0].us.median, 134.8);
  EXPECT_NEAR(again.rows[0].of_peak(), 4.0 * 2 * 16384 * 4096 * 1e-3 / 4276 / 134.8, 1e-9);
  EXPECT_EQ(again.rows[0].host->difference.median, 0.2);
  EXPECT_NEAR(again.rows[0].of_copy(), 4.0 * 2 * 16384 * 4096 * 1e-3 / 134.8 / 20.0, 1e-9);
  std::ofstream(path) << "{\"rows\": 3}";
  EXPECT_THROW(read_report(path), Error);
  std::remove(path.c_str());
}

TEST(Report, TableFitsEightyColumns) {
  Report report;
  report.environment = {{"device_name", "test"}};
  report.ceilings = h200();
  report.rows = {row_of(134.8, 4.0 * 2 * 16384 * 4096), row_of(0.4, 100), row_of(5e7, 1e12)};
  for (Row& row : report.rows) place(row, report.ceilings);
  for (const double copy_gbs : {0.0, 20.0}) {
    report.rows[0].copy_gbs = copy_gbs;
    std::istringstream lines(text_table(report, false));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
  const std::string page = html(report);
  EXPECT_EQ(page.find("http://"), std::string::npos);
  EXPECT_EQ(page.find("https://"), std::string::npos);
}

TEST(Published, NineRowsOfTheA100TableAreRefused) {
  std::ifstream in(MONOTILE_SOURCE_DIR "/benchmarks/published/a100-table.json");
  const Json table = Json::parse(in);
  const auto refusals = refuse_published(table.at("published"));
  EXPECT_EQ(refusals.size(), 9u);
  for (const std::string& line : refusals) EXPECT_NE(line.find(" are "), std::string::npos) << line;
}

}  // namespace
}  // namespace monotile::bench
