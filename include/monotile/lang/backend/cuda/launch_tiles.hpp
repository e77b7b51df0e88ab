#pragma once
// Launching matrix kernels on NVIDIA: tensor maps are encoded here from the kernel's `bind`, clusters and shared
// memory follow from its configuration.

#include <cuda.h>

#include <atomic>
#include <cstring>

#include "monotile/lang/backend/cuda/launch.hpp"
#include "monotile/lang/backend/cuda/warpgroups.hpp"

namespace monotile::lang::inline MONOTILE_TARGET_NAME {

/// This target has warpgroup instructions, tensor maps and clusters.
inline constexpr bool kHasWarpgroups = kTarget == Target::cuda_sm90;
inline constexpr bool kHasRing = true, kHasMfma = false;

template <class Cfg, class Stage, class Load, class Compute, class Finish>
MT_DEVICE void mainloop(Context& ctx, const tile_space& space, Load load, Compute compute, Finish finish) {
  if constexpr (Cfg::kind == schedule::ring) {
    ring_mainloop<Cfg, Stage>(ctx, space, load, compute, finish);
  } else if constexpr (Cfg::kind == schedule::split) {
    split_mainloop<Cfg, Stage>(ctx, space, load, compute, finish);
  } else {
    warpgroup_mainloop<Cfg, Stage>(ctx, space, load, compute, finish);
  }
}

namespace hopper {

/// The driver's encoder, asked for at run time: nothing links against the driver library.
inline decltype(&cuTensorMapEncodeTiled) map_encoder() {
  static const auto encoder = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
    if (status != cudaSuccess || found != cudaDriverEntryPointSuccess) {
      (void)cudaGetLastError();
      throw Error(ErrorCode::device_error,
                  "cuda: the driver has no cuTensorMapEncodeTiled (CUDA 12 or later is needed)");
    }
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  return encoder;
}

/// Boxes of 128 bytes x `rows` of v, in 128-byte swizzle; cells that do not exist are read as zeros and not written.
inline void encode_map(matrix_view& v, int rows) {
  static_assert(sizeof(CUtensorMap) == sizeof(v.map));
  const auto bytes = static_cast<cuuint64_t>(dtype_info(v.dtype).block_bytes);
  const CUtensorMapDataType type = v.dtype == DType::bf16  ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                   : v.dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                           : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const cuuint64_t extents[3] = {static_cast<cuuint64_t>(v.cols), static_cast<cuuint64_t>(v.rows),
                                 static_cast<cuuint64_t>(v.batch)};
  const int64_t batch_stride = v.batch > 1 ? v.batch_stride : v.stride * v.rows;
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(v.stride) * bytes,
                                 static_cast<cuuint64_t>(batch_stride) * bytes};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(128 / bytes), static_cast<cuuint32_t>(rows), 1};
  const cuuint32_t steps[3] = {1, 1, 1};
  CUtensorMap map;
  // Promotion to 256 bytes was measured to add 10 % of traffic in the second-level cache and to gain no time.
  const CUresult status =
      map_encoder()(&map, type, 3, v.data, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                    CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw Error(ErrorCode::device_error, "cuda: cuTensorMapEncodeTiled refuses a matrix of " + std::to_string(v.rows) +
                                             " x " + std::to_string(v.cols) + ", stride " + std::to_string(v.stride) +
                                             ": status " + std::to_string(status));
  }
  std::memcpy(v.map, &map, sizeof map);
}

/// Given to a kernel's `bind`: which matrix is copied into which kind of tile.
template <class Cfg>
struct map_binder {
  template <class T, int R, int C, along A>
  void operand(matrix_view& v, const smem_tile<T, R, C, A>*) const {
    encode_map(v, A == along::n ? R / Cfg::cluster : R);
  }
  void result(matrix_view& v) const {
    if (v.vectors && v.dtype != DType::f32) encode_map(v, 16);
  }
};

template <class K, class Params>
__global__ void __launch_bounds__(warpgroup_traits<typename K::Config>::threads, 1)
    warpgroup_entry(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  Context ctx{static_cast<int64_t>(blockIdx.x), static_cast<int>(blockDim.x), nullptr, dynamic_shared};
  K::run(ctx, p);
}

/// `allowed`: of this kernel, see allow_scratch. Programs of a cluster share their shared memory. `early`: the kernel waits
/// itself for the one before.
template <class Params>
void launch_program(Stream& stream, void (*entry)(Params), std::atomic<uint64_t>& allowed, const Params& params,
                    int64_t programs, int threads, size_t bytes, int cluster = 1, bool early = false) {
  const int device = stream.device().index;
  const cuda::CurrentDevice selected(device);
  allow_scratch(reinterpret_cast<const void*>(entry), allowed, device);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(programs));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = bytes;
  config.stream = static_cast<cudaStream_t>(stream.native());
  cudaLaunchAttribute attribute{};
  if (early) {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  } else {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  }
  config.attrs = &attribute;
  config.numAttrs = early || cluster > 1 ? 1 : 0;
  check_launch(cudaLaunchKernelEx(&config, entry, params), "launch failed: ");
}

}  // namespace hopper

/// `grid.programs`: at most that many programs share the tiles (0: one per tile).
template <class K, class Params>
void launch_tiles(Stream& stream, const Grid& grid, const Params& params) {
  using Cfg = typename K::Config;
  if constexpr (Cfg::kind == schedule::ring) {
    launch_ring<K>(stream, grid, params);
  } else {
    Params bound = params;
    K::bind(hopper::map_binder<Cfg>{}, bound);
    using Stage = typename K::Stage;
    constexpr bool kSplit = Cfg::kind == schedule::split;
    constexpr size_t kBytes = (kSplit ? sizeof(split_memory<Cfg, Stage>) : sizeof(warpgroup_memory<Cfg, Stage>)) + 1024;
    static_assert(kBytes <= 227 * 1024, "shared memory of a program on sm_90");
    const int cluster = kSplit ? params.tiles.split : Cfg::cluster;
    int64_t clusters = tile_count<Cfg>(params.tiles);
    if (!kSplit && grid.programs > 0) {
      clusters = clusters < grid.programs / cluster ? clusters : grid.programs / cluster;
    }
    static std::atomic<uint64_t> allowed{0};
    hopper::launch_program(stream, hopper::warpgroup_entry<K, Params>, allowed, bound, clusters * cluster,
                           warpgroup_traits<Cfg>::threads, kBytes, cluster);
  }
}

}  // namespace monotile::lang::inline MONOTILE_TARGET_NAME
