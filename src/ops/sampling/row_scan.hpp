#pragma once
// Long rows on lanes are cut into chunks that are scanned by programs of their own. The cut depends on the length of a row alone, so that
// results do not change with the batch; many rows are taken in slices, which bounds the workspace.

#include <algorithm>

#include "monotile/kernels/sampling/params.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {

struct RowScan {
  int64_t chunks = 0;  ///< 0: rows are not scanned
  int64_t capacity_log2 = 0;
  int64_t slice = 0;  ///< rows taken at once

  static constexpr int kThreads = 256;
  static constexpr int64_t kChunk = kThreads * 32;  ///< columns: what the lanes hold
  static constexpr int64_t kListBytes = 65536;      ///< scratch of a row's program for what the chunks listed

  int64_t cells() const { return slice * chunks; }
  size_t workspace_bytes() const {
    return chunks == 0 ? 0 : static_cast<size_t>(cells()) * (24 + (size_t{8} << capacity_log2));
  }
  kernels::ChunkFacts facts(void* workspace) const {
    kernels::ChunkFacts f{};
    if (chunks == 0) return f;
    auto* at = static_cast<unsigned char*>(workspace);
    const auto take = [&](int64_t bytes) {
      unsigned char* const p = at;
      at += cells() * bytes;
      return p;
    };
    f.mass = reinterpret_cast<float*>(take(4));
    f.largest = reinterpret_cast<float*>(take(4));
    f.index = reinterpret_cast<int32_t*>(take(4));
    f.threshold = reinterpret_cast<float*>(take(4));
    f.count = reinterpret_cast<int32_t*>(take(4));
    f.drawn = reinterpret_cast<int32_t*>(take(4));
    f.values = reinterpret_cast<float*>(take(int64_t{4} << capacity_log2));
    f.columns = reinterpret_cast<int32_t*>(take(int64_t{4} << capacity_log2));
    f.chunks = static_cast<int32_t>(chunks);
    f.capacity_log2 = static_cast<int32_t>(capacity_log2);
    return f;
  }
};

/// Room for a few more than `wanted`: elements come in neighbourhoods, and some are equal.
inline RowScan pick_row_scan(int64_t rows, int64_t cols, int64_t wanted, const DeviceInfo& device) {
  RowScan scan;
  if (device.device.kind == DeviceKind::cpu || cols <= RowScan::kChunk) return scan;
  scan.chunks = (cols + RowScan::kChunk - 1) / RowScan::kChunk;
  scan.capacity_log2 = 8;
  while ((int64_t{1} << scan.capacity_log2) < std::min(2 * wanted, RowScan::kChunk)) ++scan.capacity_log2;
  scan.slice = std::min<int64_t>(rows, std::max<int64_t>(64, 8192 / scan.chunks));
  return scan;
}

}  // namespace monotile::ops
