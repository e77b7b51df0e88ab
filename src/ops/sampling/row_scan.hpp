#pragma once
// Long rows on lanes are cut into chunks that are scanned by programs of their own. The cut depends on the length of a row alone, so that
// results do not change with the batch; many rows are taken in slices, which bounds the workspace.

#include <algorithm>

#include "monotile/kernels/sampling/params.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {

struct RowScan {
  int64_t chunks = 0;  ///< 0: rows are not scanned
  int64_t groups = 0;  ///< of eight neighbours, in whole vectors
  int64_t slice = 0;   ///< rows taken at once

  static int threads_on(const DeviceInfo& device) { return lanes_on(device, 256); }
  /// Columns: what the lanes hold.
  static int64_t chunk_on(const DeviceInfo& device) { return int64_t{threads_on(device)} * 32; }
  static constexpr int64_t kListBytes = 65536;      ///< scratch of a row's program for its candidates

  int64_t cells() const { return slice * chunks; }
  size_t workspace_bytes() const { return static_cast<size_t>(cells() * 16 + slice * groups * 4); }
  kernels::ChunkFacts facts(void* workspace) const {
    kernels::ChunkFacts f{};
    if (chunks == 0) return f;
    f.maxima = {static_cast<float*>(workspace), groups, 0, groups, 1, false};
    f.mass = f.maxima.data + slice * groups;
    f.largest = f.mass + cells();
    f.index = reinterpret_cast<int32_t*>(f.largest + cells());
    f.drawn = f.index + cells();
    f.chunks = static_cast<int32_t>(chunks);
    return f;
  }
};

inline RowScan pick_row_scan(int64_t rows, int64_t cols, const DeviceInfo& device) {
  RowScan scan;
  if (device.device.kind == DeviceKind::cpu || cols <= RowScan::chunk_on(device)) return scan;
  scan.chunks = ceil_div(cols, RowScan::chunk_on(device));
  scan.groups = ceil_div(cols, 32) * 4;
  scan.slice = std::min<int64_t>(rows, std::max<int64_t>(64, 8192 / scan.chunks));
  return scan;
}
/// The layout of a chunk.
inline uint32_t scan_layout(const TensorView& logits, const DeviceInfo& device) {
  return whole_vectors(logits) && !compiles_on_use(device) ? kExact + kBlock4 : kBlock4;
}

}  // namespace monotile::ops
