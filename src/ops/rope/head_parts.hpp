#pragma once
// Filling the parameters of the kernel on heads: for the fused operator of this family and for appends to caches of codes.

#include "monotile/kernels/rope/head_rows_params.hpp"
#include "ops/quant/quant.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops::heads {

constexpr int64_t kMostDim = 256;

inline RowTile tile_of(int64_t cols, const DeviceInfo& device) {
  if (device.device.kind == DeviceKind::cpu) return {kHeads16, 1, 1};
  const int threads = lanes_on(device, 128);
  return cols <= 128 ? RowTile{kHeads16, threads, threads / 16} : RowTile{kHeads32, threads, threads / 32};
}
inline auto kernel_of(DType dtype, const RowTile& tile, const DeviceInfo& device) {
  return find_kernel("head_rows", target_of(device), variant_of(dtype, tile.layout));
}

/// Rows of a cache start on whole vectors.
inline bool cache_vectors(const TensorView& cache) {
  const int64_t size = dtype_info(cache.dtype).block_bytes, vector = lang::vector_bytes(size);
  bool vectors = reinterpret_cast<uintptr_t>(cache.data) % static_cast<uintptr_t>(vector) == 0;
  for (int axis = 0; axis < 3; ++axis)
    vectors = vectors && (cache.dim(axis) <= 1 || cache.step(axis) * size % vector == 0);
  return vectors;
}

inline int64_t slots_of(const TensorView& cache) { return cache.dim(0) * cache.dim(2); }
constexpr const char* kTooManySlots = "more than 2^32 - 1 slots";

inline kernels::SlotTable slot_table(const TensorView& slots, const TensorView& status, const TensorView& cache) {
  return {index_vector(slots), status.as<int32_t>(), slots_of(cache),
          lang::divisor_of(static_cast<uint32_t>(std::max<int64_t>(1, cache.dim(2))))};
}

template <class X>
kernels::HeadPart<X> part_of(const TensorView& x, int64_t tokens) {
  kernels::HeadPart<X> part{};
  part.x = row_view<const X>(x);
  part.rows = tokens * x.dim(1);
  part.cols = x.dim(2);
  part.heads = lang::divisor_of(static_cast<uint32_t>(x.dim(1)));
  return part;
}

template <class X>
void add_cache(kernels::HeadPart<X>& part, const TensorView& cache, const TensorView& scale) {
  part.cache = {cache.data, 1, 0, cache.dim(3), 1, cache_vectors(cache), cache.dtype};
  part.page_stride = cache.step(0);
  part.head_stride = cache.step(1);
  part.token_stride = cache.step(2);
  if (!is_code(cache.dtype)) return;
  part.largest_code = largest_code(cache.dtype);
  part.scales = {scale.as<float>(), 1, 0, 1, 1, false};
  part.chooses_scales = scale.rank == 3;
  if (part.chooses_scales) {
    part.scale_page_stride = scale.step(0);
    part.scale_head_stride = scale.step(1);
    part.scale_token_stride = scale.step(2);
  } else {
    part.scale_head_stride = scale.dim(0) == 1 ? 0 : scale.step(0);
  }
}

template <class X>
void launch(const void* kernel, Stream& stream, kernels::HeadRowsParams<X>& p, const RowTile& tile) {
  int64_t programs = 0;
  for (int i = 0; i < 3; ++i) {
    p.first_programs[i] = programs;
    programs += programs_for(tile, p.part[i].rows);
  }
  const Grid grid{programs, tile.threads, 0,
                  cpu_grain(std::max<int64_t>(1, p.part[1].cols) * static_cast<int64_t>(sizeof(X)))};
  reinterpret_cast<KernelFn<kernels::HeadRowsParams<X>>>(const_cast<void*>(kernel))(stream, grid, p);
}

}  // namespace monotile::ops::heads
