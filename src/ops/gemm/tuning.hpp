#pragma once
// A table of measurements over the cost model of products: which implementation and tile was fastest on this device for a range of sizes.
// `monotile tune` writes it, MONOTILE_TUNING names it. Ranges are powers of two, so that no shape is known by itself.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "monotile/dispatch.hpp"
#include "monotile/ops/gemm.hpp"

namespace monotile::ops::tiles {

/// By ProductCast.
inline constexpr const char* kCastNames[] = {"none", "int8_block", "bf16", "tf32"};

/// What sizes share a row of the table: extents from a power of two up to the next one.
struct Range {
  DType a = DType::none, b = DType::none;
  ProductCast cast = ProductCast::none;
  ProductForm form = ProductForm::nt;
  int m = 0, n = 0, k = 0;  ///< exponents
  bool operator==(const Range&) const = default;
};
/// Where a product belongs; nothing for products that are not tuned: batches, activations, sizes of zero.
std::optional<Range> range_of(const GemmArgs& args);
/// "m 1024 to 2047, n 4096 to 8191, k 4096 to 8191"
std::string to_string(const Range& range);

struct Tuned {
  Range range;
  std::string implementation;  ///< as in `monotile ops`
  std::string tile;            ///< of `tiles`: its name in kConfigNames
  int split = 1;
  double us = 0;                ///< measured
  double chosen_us = 0;         ///< of what would be chosen without the table, in the same run
  int64_t m = 0, n = 0, k = 0;  ///< the sizes that were measured
};

/// The rows for one device.
struct TuningTable {
  std::string path;  ///< of the file; for explanations
  std::string device, code_path;
  std::vector<Tuned> rows;

  const Tuned* find(const Range& range) const;
};

/// Tells tables of other tiles or other costs apart: they are refused.
std::string tiles_fingerprint();

std::string to_json(const TuningTable& table);
/// Throws Error(bad_file), which says what is wrong; a table of another device or of other tiles is refused, too.
TuningTable read_tuning(const std::string& path, const DeviceInfo& device);

/// The table that holds for a device: what MONOTILE_TUNING names, read once, if it is of this device; null without one. Throws as read_tuning where
/// the file cannot be read at all.
const TuningTable* tuning_for(const DeviceInfo& device);
/// The row for a product, or null.
const Tuned* tuned(const GemmArgs& args, const DeviceInfo& device);

/// For tests and `monotile tune`: this table, or none, in place of the file's for as long as it lives, on this thread.
class ScopedTuning {
 public:
  explicit ScopedTuning(const TuningTable* table);
  ~ScopedTuning();
  ScopedTuning(const ScopedTuning&) = delete;

 private:
  std::optional<const TuningTable*> before_;
};

/// Everything that could run a product on a device, with the table's names.
struct Candidate {
  std::string implementation, tile;
  int split = 1;
  Plan<GemmArgs> plan;
};
std::vector<Candidate> candidates(const GemmArgs& args, const DeviceInfo& device);

}  // namespace monotile::ops::tiles
