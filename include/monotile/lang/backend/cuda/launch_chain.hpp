#pragma once
// Launching chained products on NVIDIA: maps of the rows are encoded here from the kernel's `bind`.

#include "monotile/lang/backend/cuda/chain_stream.hpp"
#include "monotile/lang/backend/cuda/chain_warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

template <class Cfg, class Body>
MT_DEVICE void chain_loop(Context& ctx, const Body& body) {
  if constexpr (Cfg::kind == schedule::ring) {
    ring_chain<Cfg>(ctx, body);
  } else if constexpr (Cfg::kind == schedule::stream) {
    stream_chain<Cfg>(ctx, body);
  } else {
    warpgroup_chain<Cfg>(ctx, body, body.p.total);
  }
}

namespace hopper {

/// Boxes of 128 bytes x box_x x box_y rows, in 128-byte swizzle; what does not exist is read as zeros and not written.
inline void encode_map(box_view& v, int box_x, int box_y) {
  static_assert(sizeof(CUtensorMap) == sizeof(v.map));
  const auto bytes = static_cast<cuuint64_t>(dtype_info(v.dtype).block_bytes);
  const auto extent = [](int32_t n) { return static_cast<cuuint64_t>(n < 1 ? 1 : n); };
  // Strides of dimensions with a single index are never used, but must look like strides.
  const auto stride = [&](int32_t n, int64_t s) { return n > 1 ? static_cast<cuuint64_t>(s) * bytes : cuuint64_t{16}; };
  const cuuint64_t extents[4] = {extent(v.cols), extent(v.extent_x), extent(v.extent_y), extent(v.extent_z)};
  const cuuint64_t strides[3] = {stride(v.extent_x, v.stride_x), stride(v.extent_y, v.stride_y),
                                 stride(v.extent_z, v.stride_z)};
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(128 / bytes), static_cast<cuuint32_t>(box_x),
                             static_cast<cuuint32_t>(box_y), 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult status =
      map_encoder()(&map, v.dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                    4, v.data, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                    CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw Error(ErrorCode::device_error, "cuda: cuTensorMapEncodeTiled refuses rows of " + std::to_string(v.cols) +
                                             ", " + std::to_string(v.extent_x) + " x " + std::to_string(v.extent_y) +
                                             " x " + std::to_string(v.extent_z) + ": status " + std::to_string(status));
  }
  std::memcpy(v.map, &map, sizeof map);
}
struct box_binder {
  void rows(box_view& v) const { encode_map(v, v.box_x, v.box_y); }
  void result(box_view& v) const {
    if (v.vectors && v.cols % 8 == 0 && 16 % v.box_x == 0) encode_map(v, v.box_x, 16 / v.box_x);
  }
};

/// Of a chain of the schedule that is not the ring.
template <class Cfg>
constexpr int chain_threads() {
  if constexpr (Cfg::kind == schedule::stream)
    return stream_chain_traits<Cfg>::threads;
  else
    return warpgroup_chain_traits<Cfg>::threads;
}
template <class K>
constexpr size_t chain_bytes() {
  using Cfg = typename K::Config;
  using T = typename K::element;
  if constexpr (Cfg::kind == schedule::stream)
    return sizeof(stream_chain_memory<Cfg, T, tile_of_chain<K>>) + 1024;
  else
    return sizeof(warpgroup_chain_memory<Cfg, T, tile_of_chain<K>>) + 1024;
}

template <class K, class Params>
__global__ void __launch_bounds__(chain_threads<typename K::Config>(), 1)
    chain_entry(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  Context ctx{static_cast<int64_t>(blockIdx.x), static_cast<int>(blockDim.x), nullptr, dynamic_shared};
  K::run(ctx, p);
}

}  // namespace hopper

/// `grid.programs`: at most that many programs share the tiles.
template <class K, class Params>
void launch_chain(Stream& stream, const Grid& grid, const Params& params) {
  using Cfg = typename K::Config;
  if constexpr (Cfg::kind == schedule::ring) {
    launch_ring_chain<K>(stream, params);
  } else {
    if (params.total == 0) return;
    Params bound = params;
    K::bind(hopper::box_binder{}, bound);
    constexpr size_t kBytes = hopper::chain_bytes<K>();
    static_assert(kBytes <= 227 * 1024, "shared memory of a program on sm_90");
    static std::atomic<uint64_t> allowed{0};
    hopper::launch_program(stream, hopper::chain_entry<K, Params>, allowed, bound,
                           params.total < grid.programs ? params.total : grid.programs, hopper::chain_threads<Cfg>(),
                           kBytes, 1, Cfg::kind == schedule::stream);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
