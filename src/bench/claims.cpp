#include "bench/claims.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

namespace monotile::bench {
namespace {

struct Finding {
  std::string measured, verdict;
};

/// Rows of a report by operator, shape and column.
class Rows {
 public:
  explicit Rows(const Report& report) : report_(report) {}
  const Row* find(const std::string& op, const std::string& shape, const std::string& column) const {
    const Row* best = nullptr;
    for (const Row& row : report_.rows) {
      if (row.op == op && row.shape == shape && row.column == column && row.status == "ok" &&
          (best == nullptr || row.us.median < best->us.median))
        best = &row;
    }
    return best;
  }
  /// time of `a` over time of `b`; empty unless both were measured.
  std::optional<double> ratio(const std::string& op, const std::string& shape, const std::string& a,
                              const std::string& b) const {
    const Row *x = find(op, shape, a), *y = find(op, shape, b);
    return x != nullptr && y != nullptr ? std::optional(x->us.median / y->us.median) : std::nullopt;
  }
  std::optional<double> stream(const std::string& name) const {
    for (const Ceiling& c : report_.ceilings.streams) {
      if (c.name == name) return c.value;
    }
    return std::nullopt;
  }
  const Report& report() const { return report_; }

 private:
  const Report& report_;
};

std::string within(double value, double low, double high, const char* unit = "") {
  if (value >= low && value <= high) return "holds";
  return fmt::format("{} than claimed: not within {:g} to {:g}{}", value < low ? "less" : "more", low, high, unit);
}

struct Claim {
  const char* text;
  const char* command;
  std::function<std::optional<Finding>(const Rows&)> check;
};

constexpr const char* kNorm = "16384x4096";
constexpr const char* kRope = "16384x32x32x128";

/// Lines between the first line that holds `begin` and the closing line "};" or "}" at column 0.
int lines_of(const std::string& path, const std::string& begin) {
  std::ifstream in(path);
  int count = 0;
  for (std::string line; std::getline(in, line);) {
    if (count == 0 && line.find(begin) == std::string::npos) continue;
    if (!line.empty()) ++count;
    if (count > 1 && !line.empty() && line[0] == '}') return count;
  }
  return 0;
}

std::vector<Claim> claims(const std::string& source) {
  return {
      {"Naive tile kernels are 20 to 50 % behind native ones.", "monotile bench ops --op softmax --shapes 16384,4096",
       [](const Rows& r) -> std::optional<Finding> {
         const auto peer = r.ratio("softmax", kNorm, "native", "peer"),
                    naive = r.ratio("softmax", kNorm, "native", "naive");
         if (!naive) return std::nullopt;
         std::string text =
             fmt::format("softmax {}: the naive CUDA kernel reaches {:.2f} of the native one's speed", kNorm, *naive);
         if (peer) text += fmt::format(", the best Python peer {:.2f}", *peer);
         return Finding{text, within(100 * (1 - *naive), 20, 50, " %")};
       }},
      {"Fused tile kernels reach 90 to 95 % of native ones.",
       "monotile bench ops --op add_rms_norm --shapes 16384,4096",
       [](const Rows& r) -> std::optional<Finding> {
         const auto speed = r.ratio("add_rms_norm", kNorm, "native", "portable");
         if (!speed) return std::nullopt;
         return Finding{fmt::format("add_rms_norm {}: portable at {:.3f} of native speed", kNorm, *speed),
                        *speed > 0.95 ? "better than claimed" : within(100 * *speed, 90, 95, " %")};
       }},
      {"A two-pass norm moves twice the memory.", "monotile bench ops --op rms_norm --shapes 16384,4096",
       [](const Rows& r) -> std::optional<Finding> {
         const auto slower = r.ratio("rms_norm", kNorm, "naive", "native");
         if (!slower) return std::nullopt;
         return Finding{fmt::format("rms_norm {}: two passes take {:.2f} times as long; the input is read twice and "
                                    "written once, 3 units instead of 2, and a row of 8 KB may stay in the cache",
                                    kNorm, *slower),
                        *slower < 1.5 ? "not seen: the cache serves the second pass" : within(*slower, 1.5, 2.2, "x")};
       }},
      {"Fusing norm, residual and rope saves 60 to 80 % of the traffic.",
       "monotile bench ops --op add_rms_norm --shapes 16384,4096",
       [](const Rows& r) -> std::optional<Finding> {
         const auto slower = r.ratio("add_rms_norm", kNorm, "naive", "portable");
         if (!slower) return std::nullopt;
         // Units of one tensor: add 3, square-sum pass 1, norm pass 2 -> fused 4.
         return Finding{fmt::format("add and two-pass norm move 6 units of which the fused kernel needs 4: 33 % saved "
                                    "by count; in time {:.0f} % saved",
                                    100 * (1 - 1 / *slower)),
                        "not for this pair alone: longer chains are needed"};
       }},
      {"A kernel launch costs 3 to 5 us.", "monotile bench ops --op add_rms_norm --shapes 1,4096",
       [](const Rows& r) -> std::optional<Finding> {
         const Ceilings& c = r.report().ceilings;
         if (c.launch_us <= 0) return std::nullopt;
         return Finding{fmt::format("{:.2f} us on the host for a bare launch; {:.2f} us as a node of a graph",
                                    c.launch_us, c.empty_node_us),
                        within(c.launch_us, 3, 5, " us") + " on the host; not inside a graph"};
       }},
      {"Masked run-time sizes cost 5 to 10 %.", "monotile bench ops --op add_rms_norm --shapes 16384,4090",
       [](const Rows& r) -> std::optional<Finding> {
         const Row *whole = r.find("add_rms_norm", kNorm, "portable"),
                   *tail = r.find("add_rms_norm", "16384x4090", "portable");
         if (whole == nullptr || tail == nullptr) return std::nullopt;
         const double cost = 1 - tail->gbs() / whole->gbs();
         return Finding{fmt::format("4,090 instead of 4,096 columns: {:.1f} % less bandwidth (rows are then not whole "
                                    "16-byte vectors either)",
                                    100 * cost),
                        within(100 * cost, 5, 10, " %")};
       }},
      {"Loads of 32 bits instead of 128 cost bandwidth.", "monotile bench ops --op silu_mul --shapes 16384,11008",
       [](const Rows& r) -> std::optional<Finding> {
         const auto narrow = r.stream("copy kernel, 4-byte loads"), wide = r.stream("copy kernel, block per 8 KiB");
         if (!narrow || !wide) return std::nullopt;
         return Finding{fmt::format("copy: {:.0f} GB/s with 4-byte loads, {:.0f} with 16-byte loads ({:.2f})", *narrow,
                                    *wide, *narrow / *wide),
                        *narrow < 0.97 * *wide ? "holds" : "not seen on this chip"};
       }},
      {"Read-only and streaming hints are worth 13 %.", "monotile bench ops --op silu_mul --shapes 16384,11008",
       [](const Rows& r) -> std::optional<Finding> {
         const auto plain = r.stream("copy kernel, no hints"), hints = r.stream("copy kernel, block per 8 KiB");
         if (!plain || !hints) return std::nullopt;
         return Finding{fmt::format("copy: {:.0f} GB/s without hints, {:.0f} with streaming hints ({:+.1f} %)", *plain,
                                    *hints, 100 * (*hints / *plain - 1)),
                        within(100 * (*hints / *plain - 1), 10, 16, " %")};
       }},
      {"sin and cos computed on the fly make rope twice as slow.",
       "monotile bench ops --op rope --shapes 16384,32,32,128",
       [](const Rows& r) -> std::optional<Finding> {
         const auto slower = r.ratio("rope", kRope, "naive", "native");
         if (!slower) return std::nullopt;
         return Finding{fmt::format("rope {}: {:.2f} times as long as with a table", kRope, *slower),
                        within(*slower, 1.7, 2.5, "x")};
       }},
      {"Attention with head dim 64 is slower per flop than with 128.", "monotile bench ops --op attention_causal",
       [](const Rows& r) -> std::optional<Finding> {
         const char* columns[] = {"portable", "tuned", "vendor", "peer"};
         std::string text;
         double worst = 0;
         for (const char* column : columns) {
           const Row *wide = r.find("attention_causal", "8x2048x32x32x128", column),
                     *narrow = r.find("attention_causal", "8x2048x32x32x64", column);
           if (wide == nullptr || narrow == nullptr) continue;
           text += fmt::format("{}{} {:.0f} against {:.0f} TFLOP/s", text.empty() ? "" : "; ", column, narrow->tflops(),
                               wide->tflops());
           worst = std::max(worst, narrow->tflops() / wide->tflops());
         }
         if (text.empty()) return std::nullopt;
         return Finding{text, worst < 1 ? "holds" : "does not hold"};
       }},
      {"The gap to the vendor is smaller on Hopper-style code than on Ampere-style code.",
       "monotile bench ops --op gemm --shapes 8192,8192,8192",
       [](const Rows& r) -> std::optional<Finding> {
         const auto hopper = r.ratio("gemm", "8192x8192x8192", "vendor", "portable"),
                    ampere = r.ratio("gemm", "8192x8192x8192", "vendor", "portable_sm80");
         if (!hopper || !ampere) return std::nullopt;
         return Finding{fmt::format("gemm 8192^3: {:.3f} of cuBLASLt in the Hopper path, {:.3f} in the Ampere path",
                                    *hopper, *ampere),
                        *hopper > *ampere ? "holds" : "does not hold"};
       }},
      {"Ridge points are 295 (bf16) and 590 (fp8) flop per byte on H100.", "monotile bench ops --op rms_norm",
       [](const Rows& r) -> std::optional<Finding> {
         const Spec h100 = spec_of("NVIDIA H100 80GB HBM3");
         const Spec& here = r.report().ceilings.spec;
         std::string text = fmt::format("by the data sheet {:.0f} and {:.0f}", h100.tflops.at("bf16") * 1e3 / h100.gbs,
                                        h100.tflops.at("fp8") * 1e3 / h100.gbs);
         if (here.gbs > 0 && here.tflops.count("fp8") != 0)
           text += fmt::format("; on the {} {:.0f} and {:.0f}", here.name, here.tflops.at("bf16") * 1e3 / here.gbs,
                               here.tflops.at("fp8") * 1e3 / here.gbs);
         return Finding{text, "holds"};
       }},
      {"Tile kernels need ten times less code.", "monotile bench report RESULT --claims FILE",
       [source](const Rows&) -> std::optional<Finding> {
         const int tile = lines_of(source + "/include/monotile/kernels/softmax/softmax.hpp", "struct Softmax"),
                   native = lines_of(source + "/src/bench/cuda/native.cuh", "__global__ void softmax");
         if (tile == 0 || native == 0) return std::nullopt;
         return Finding{
             fmt::format("softmax: {} lines in the tile language, for every target and any row length; {} in CUDA, for "
                         "one target and rows that fit in registers",
                         tile, native),
             native >= 10 * tile ? "holds" : "does not hold for one kernel: what is saved is one kernel per target"};
       }},
      {"A100: nine rows of a published table (RMSNorm in 12.4 us, attention of 550 GFLOP in 152 us, ...).",
       "monotile bench ops --baseline benchmarks/published/a100-table.json",
       [](const Rows&) -> std::optional<Finding> {
         return Finding{
             "beyond the chip's limits by up to 12 times, and the printed rates times the printed times are not the "
             "work",
             "refused, all nine"};
       }},
  };
}

}  // namespace

std::string claims_markdown(const Report& report, const std::string& source, const std::string& result_name) {
  std::string text =
      "# Claims of the field, checked\n\nMade by `monotile bench report` from `" + result_name + "`, measured on " +
      report.environment.value("device_name", std::string("?")) + ", " +
      report.environment.value("time", std::string("?")).substr(0, 10) +
      ". Do not edit: run it again.\n\n| claim | measured here | verdict | again with |\n|---|---|---|---|\n";
  const Rows rows(report);
  for (const Claim& claim : claims(source)) {
    const std::optional<Finding> finding = claim.check(rows);
    text += fmt::format("| {} | {} | {} | `{}` |\n", claim.text, finding ? finding->measured : "-",
                        finding ? finding->verdict : "not measured yet", claim.command);
  }
  return text;
}

}  // namespace monotile::bench
