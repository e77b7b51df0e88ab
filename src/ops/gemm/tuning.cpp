#include "ops/gemm/tuning.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tile_cost.hpp"
#include "runtime/dtype_named.hpp"
#include "runtime/kernels.hpp"

namespace monotile::ops::tiles {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr const char* kForms[] = {"nt", "nn", "tn"};
constexpr DType kTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::i8,   DType::f8_e4m3, DType::f8_e5m2,
                            DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k};

int exponent(int64_t n) { return std::bit_width(static_cast<uint64_t>(n)) - 1; }

[[noreturn]] void refuse(const std::string& path, const std::string& given, const std::string& allowed) {
  throw Error(ErrorCode::bad_file, "tuning table " + path + ": " + given + "; allowed: " + allowed);
}

/// The index of a name in a list.
template <size_t N>
int index_of(const std::string& path, const char* what, const std::string& name, const char* const (&names)[N]) {
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<int>(i);
  }
  refuse(path, std::string(what) + " '" + name + "'", "a name that this version writes");
}
DType type_named(const std::string& path, const std::string& name) {
  if (const DType t = dtype_named(name, kTypes); t != DType::none) return t;
  refuse(path, "dtype '" + name + "'", "an operand of products");
}

thread_local std::optional<const TuningTable*> forced;

}  // namespace

std::optional<Range> range_of(const GemmArgs& args) {
  if (args.c.rank != 2 || args.gated() || args.m() < 1 || args.n() < 1 || args.k() < 1) return std::nullopt;
  return Range{args.a.dtype,       args.b.dtype,       args.cast,         args.form,
               exponent(args.m()), exponent(args.n()), exponent(args.k())};
}

std::string to_string(const Range& range) {
  const auto from_to = [](int e) {
    return std::to_string(int64_t{1} << e) + " to " + std::to_string((int64_t{2} << e) - 1);
  };
  return "m " + from_to(range.m) + ", n " + from_to(range.n) + ", k " + from_to(range.k);
}

const Tuned* TuningTable::find(const Range& range) const {
  for (const Tuned& row : rows) {
    if (row.range == range) return &row;
  }
  return nullptr;
}

std::string tiles_fingerprint() {
  uint64_t hash = 1469598103934665603u;  // FNV-1a
  const auto add = [&](uint64_t v) {
    for (int i = 0; i < 8; ++i) hash = (hash ^ (v >> (8 * i) & 255u)) * 1099511628211u;
  };
  for (const TileShape& s : kShapes) {
    for (const int v : {static_cast<int>(s.kind), s.bm, s.bn, s.bk, s.cluster, s.operand_bytes})
      add(static_cast<uint64_t>(v));
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

std::string to_json(const TuningTable& table) {
  Json root = {{"monotile_tuning", kVersion},
               {"device", table.device},
               {"path", table.code_path},
               {"operator", "gemm"},
               {"tiles", tiles_fingerprint()}};
  root["ranges"] = Json::array();
  for (const Tuned& row : table.rows) {
    const auto range = [](int e) { return Json::array({int64_t{1} << e, (int64_t{2} << e) - 1}); };
    root["ranges"].push_back({{"a", dtype_info(row.range.a).name},
                              {"b", dtype_info(row.range.b).name},
                              {"cast", kCastNames[static_cast<int>(row.range.cast)]},
                              {"form", kForms[static_cast<int>(row.range.form)]},
                              {"m", range(row.range.m)},
                              {"n", range(row.range.n)},
                              {"k", range(row.range.k)},
                              {"implementation", row.implementation},
                              {"tile", row.tile},
                              {"split", row.split},
                              {"measured", Json::array({row.m, row.n, row.k})},
                              {"us", std::round(row.us * 100) / 100},
                              {"us_without", std::round(row.chosen_us * 100) / 100}});
  }
  return root.dump(2) + "\n";
}

TuningTable read_tuning(const std::string& path, const DeviceInfo& device) {
  std::ifstream file(path);
  if (!file) refuse(path, "a file that cannot be read", "what `monotile tune` wrote");
  TuningTable table;
  table.path = path;
  try {
    const Json root = Json::parse(file);
    if (root.at("monotile_tuning").get<int>() != kVersion)
      refuse(path, "version " + root.at("monotile_tuning").dump(), std::to_string(kVersion));
    table.device = root.at("device"), table.code_path = root.at("path");
    if (table.device != device.name || table.code_path != device.path)
      refuse(path, "of " + table.device + ", path " + table.code_path, "of " + device.name + ", path " + device.path);
    if (root.at("tiles") != tiles_fingerprint())
      refuse(path, "of a version with other tiles", "a table of this version: run `monotile tune` again");
    const auto range = [&](const Json& from_to) {
      const auto low = from_to.at(0).get<int64_t>(), high = from_to.at(1).get<int64_t>();
      if (low < 1 || !std::has_single_bit(static_cast<uint64_t>(low)) || high != 2 * low - 1)
        refuse(path, "a range from " + std::to_string(low) + " to " + std::to_string(high),
               "from a power of two up to the next one");
      return exponent(low);
    };
    for (const Json& row : root.at("ranges")) {
      Tuned t;
      t.range = {type_named(path, row.at("a")),
                 type_named(path, row.at("b")),
                 static_cast<ProductCast>(index_of(path, "cast", row.at("cast"), kCastNames)),
                 static_cast<ProductForm>(index_of(path, "form", row.at("form"), kForms)),
                 range(row.at("m")),
                 range(row.at("n")),
                 range(row.at("k"))};
      t.implementation = row.at("implementation"), t.tile = row.at("tile"), t.split = row.at("split");
      if (t.implementation != gemm_tiles.name && t.implementation != gemm_portable.name)
        refuse(path, "implementation '" + t.implementation + "'",
               std::string(gemm_tiles.name) + ", " + gemm_portable.name);
      if (t.implementation == gemm_tiles.name) (void)index_of(path, "tile", t.tile, kConfigNames);
      if (std::find(std::begin(kSplits), std::end(kSplits), t.split) == std::end(kSplits))
        refuse(path, "split " + std::to_string(t.split), "1, 2, 3, 4, 8");
      t.us = row.at("us"), t.chosen_us = row.at("us_without");
      t.m = row.at("measured").at(0), t.n = row.at("measured").at(1), t.k = row.at("measured").at(2);
      if (table.find(t.range) != nullptr) refuse(path, "two rows for " + to_string(t.range), "one");
      table.rows.push_back(std::move(t));
    }
  } catch (const nlohmann::json::exception& error) {
    refuse(path, error.what(), "what `monotile tune` wrote");
  }
  return table;
}

const TuningTable* tuning_for(const DeviceInfo& device) {
  if (forced) return *forced;
  static const char* const path = std::getenv("MONOTILE_TUNING");
  if (path == nullptr || *path == '\0') return nullptr;
  struct Loaded {
    const DeviceInfo* device;
    Target target;
    std::unique_ptr<TuningTable> table;  ///< null: the file is of another device
  };
  static std::mutex mutex;
  static std::vector<Loaded> tables;
  const Target target = target_of(device);
  const std::lock_guard lock(mutex);
  for (const Loaded& loaded : tables) {
    if (loaded.device == &device && loaded.target == target) return loaded.table.get();
  }
  std::unique_ptr<TuningTable> table;
  if (std::ifstream file(path); file) {
    const Json root = Json::parse(file, nullptr, false);
    const bool other = root.is_object() && root.contains("device") &&
                       (root["device"] != device.name || root.value("path", "") != device.path);
    if (!other) table = std::make_unique<TuningTable>(read_tuning(path, device));
  } else {
    table = std::make_unique<TuningTable>(read_tuning(path, device));  // says what is wrong
  }
  tables.push_back({&device, target, std::move(table)});
  return tables.back().table.get();
}

const Tuned* tuned(const GemmArgs& args, const DeviceInfo& device) {
  const TuningTable* const table = tuning_for(device);
  if (table == nullptr) return nullptr;
  const std::optional<Range> range = range_of(args);
  return range ? table->find(*range) : nullptr;
}

ScopedTuning::ScopedTuning(const TuningTable* table) : before_(std::exchange(forced, table)) {}
ScopedTuning::~ScopedTuning() { forced = before_; }

}  // namespace monotile::ops::tiles
