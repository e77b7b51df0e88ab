#include "bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "monotile/error.hpp"
#include "runtime/dtype_named.hpp"

namespace monotile::bench {
namespace {

Json spread_json(const Spread& s) { return {{"median", s.median}, {"p10", s.p10}, {"p90", s.p90}, {"n", s.n}}; }
Spread read_spread(const Json& j) { return {j.at("median"), j.at("p10"), j.at("p90"), j.at("n")}; }

Json row_json(const Row& r) {
  Json j = {{"op", r.op},
            {"shape", r.shape},
            {"dtype", r.dtype},
            {"model", r.model},
            {"phase", r.phase},
            {"calls", r.calls},
            {"column", r.column},
            {"implementation", r.implementation},
            {"chosen", r.chosen},
            {"status", r.status},
            {"note", r.note},
            {"us", spread_json(r.us)},
            {"method", r.method},
            {"bytes", r.bytes},
            {"flops", r.flops},
            {"gbs", r.gbs()},
            {"tflops", r.tflops()},
            {"bound", r.memory_bound ? "memory" : "compute"},
            {"of_spec", r.of_spec()},
            {"of_measured", r.of_peak()},
            {"first_call_us", r.first_call_us},
            {"workspace_bytes", r.workspace_bytes},
            {"error_over_bound", r.error},
            {"checked_elements", r.checked}};
  if (r.threads > 0) j["threads"] = r.threads;
  if (r.copy_gbs > 0) {
    j["memcpy_gbs"] = r.copy_gbs;
    j["of_memcpy"] = r.of_copy();
  }
  if (r.host)
    j["host_us"] = {{"call", spread_json(r.host->call)},
                    {"bare", spread_json(r.host->bare)},
                    {"difference", spread_json(r.host->difference)}};
  return j;
}

Row read_row(const Json& j) {
  Row r;
  r.op = j.at("op");
  r.shape = j.at("shape");
  r.dtype = j.at("dtype");
  r.model = j.value("model", "");
  r.phase = j.value("phase", "");
  r.calls = j.value("calls", 0.0);
  r.column = j.at("column");
  r.implementation = j.value("implementation", "");
  r.chosen = j.value("chosen", false);
  r.status = j.value("status", "ok");
  r.note = j.value("note", "");
  r.us = read_spread(j.at("us"));
  r.method = j.value("method", "");
  r.bytes = j.value("bytes", 0.0);
  r.flops = j.value("flops", 0.0);
  r.first_call_us = j.value("first_call_us", 0.0);
  r.workspace_bytes = j.value("workspace_bytes", size_t{0});
  r.error = j.value("error_over_bound", 0.0);
  r.checked = j.value("checked_elements", int64_t{0});
  r.threads = j.value("threads", 0);
  r.copy_gbs = j.value("memcpy_gbs", 0.0);
  if (j.contains("host_us") && j["host_us"].contains("bare")) {
    const Json& h = j["host_us"];
    r.host = HostCost{read_spread(h.at("call")), read_spread(h.at("bare")), read_spread(h.at("difference"))};
  }
  return r;
}

Json ceilings_json(const Ceilings& c) {
  Json streams = Json::object(), products = Json::object(), ridge = Json::object();
  for (const Ceiling& s : c.streams) streams[s.name] = s.value;
  for (const auto& [dtype, p] : c.products) products[dtype] = {{"tflops", p.value}, {"by", p.name}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (c.ridge_of(dtype) > 0) ridge[dtype_info(dtype).name] = c.ridge_of(dtype);
  }
  if (c.spec.tflops.count("fp8") != 0 && c.spec.gbs > 0) ridge["fp8"] = c.spec.tflops.at("fp8") * 1e3 / c.spec.gbs;
  return {{"spec", {{"name", c.spec.name}, {"gbs", c.spec.gbs}, {"tflops", c.spec.tflops}}},
          {"streams_gbs", streams},
          {"copy_gbs", c.copy_gbs},
          {"peak_gbs", c.peak_gbs},
          {"products", products},
          {"ridge_flop_per_byte", ridge},
          {"bare_launch_us", c.launch_us},
          {"empty_node_us", c.empty_node_us}};
}

Ceilings read_ceilings(const Json& j) {
  Ceilings c;
  c.spec.name = j.at("spec").value("name", "");
  c.spec.gbs = j.at("spec").value("gbs", 0.0);
  for (const auto& [dtype, rate] : j.at("spec").at("tflops").items()) c.spec.tflops[dtype] = rate;
  for (const auto& [name, value] : j.at("streams_gbs").items()) c.streams.push_back({name, value});
  for (const auto& [dtype, p] : j.at("products").items()) c.products[dtype] = {p.at("by"), p.at("tflops")};
  c.copy_gbs = j.at("copy_gbs");
  c.peak_gbs = j.at("peak_gbs");
  c.launch_us = j.value("bare_launch_us", 0.0);
  c.empty_node_us = j.value("empty_node_us", 0.0);
  return c;
}

}  // namespace

bool Report::refused() const {
  return std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.status == "refused"; });
}

void place(Row& row, const Ceilings& c) {
  const DType dtype = dtype_named(row.dtype, {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2, DType::i8});
  // Flops of memory-bound operators are done outside the matrix units: only products and attention are judged by their rate.
  const bool product = row.op.rfind("gemm", 0) == 0 || row.op.rfind("attention", 0) == 0;
  const auto us = [&](double gbs, double tflops) {
    const double memory = gbs > 0 ? row.bytes * 1e-3 / gbs : 0,
                 compute = product && tflops > 0 ? row.flops * 1e-6 / tflops : 0;
    row.memory_bound = memory >= compute;
    return std::max(memory, compute);
  };
  row.best_us = us(c.peak_gbs, c.tflops_of(dtype));
  if (c.spec.gbs > 0) row.floor_us = us(c.spec.gbs, c.spec.flops_of(dtype));
}

Json to_json(const Report& report) {
  Json rows = Json::array();
  for (const Row& row : report.rows) rows.push_back(row_json(row));
  return {{"schema", 1},
          {"environment", report.environment},
          {"seconds", report.seconds},
          {"ceilings", ceilings_json(report.ceilings)},
          {"notes", report.notes},
          {"rows", rows}};
}

Report read_report(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(ErrorCode::not_found, path + ": cannot be read");
  try {
    const Json j = Json::parse(in);
    Report report;
    report.environment = j.value("environment", Json::object());
    report.seconds = j.value("seconds", 0.0);
    report.ceilings = read_ceilings(j.at("ceilings"));
    report.notes = j.value("notes", std::vector<std::string>{});
    for (const Json& row : j.at("rows")) {
      report.rows.push_back(read_row(row));
      place(report.rows.back(), report.ceilings);
    }
    return report;
  } catch (const nlohmann::json::exception&) {  // its own words would say nothing to the reader
    throw Error(ErrorCode::bad_file,
                path + ": not a result of `monotile bench ops --json` (or of benchmarks/peers/run.py)");
  }
}

std::vector<std::pair<std::string, Price>> prices(const Report& report) {
  std::vector<std::pair<std::string, Price>> list;
  std::map<std::string, size_t> at;
  for (const Row& row : report.rows) {
    if (row.status != "ok" || row.us.median <= 0) continue;
    const auto [found, is_new] = at.try_emplace(row.work_key(), list.size());
    if (is_new) list.push_back({row.work_key(), {}});
    Price& price = list[found->second].second;
    const auto keep = [&row](const Row*& slot) {
      if (slot == nullptr || row.us.median < slot->us.median) slot = &row;
    };
    if (row.column == "reference") continue;
    if (row.column == "portable") keep(price.portable);
    if (row.column == "portable_sm80") keep(price.ampere);
    if (row.column == "tuned") keep(price.tuned);
    if (row.column == "native") keep(price.native);
    if (row.column == "naive") keep(price.naive);
    if (row.column == "vendor") keep(price.vendor);
    if (row.column == "peer") keep(price.peer);
    keep(price.best);
  }
  return list;
}

}  // namespace monotile::bench
