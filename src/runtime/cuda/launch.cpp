#include "runtime/cuda/launch.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <string>

#include "monotile/device.hpp"
#include "monotile/dtype.hpp"
#include "monotile/lang/box_view.hpp"
#include "monotile/lang/matrix_view.hpp"
#include "runtime/cuda/current_device.hpp"

namespace monotile::cuda {
namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // a refused call must not show up again in the application's next one
  throw Error(ErrorCode::device_error, std::string("cuda: ") + what + cudaGetErrorString(status));
}

/// Kernels may use 48 KB of shared memory unasked; more must be allowed once per kernel and device.
void allow_scratch(Launchable& kernel, int device) {
  const std::atomic_ref<uint64_t> allowed(kernel.allowed);
  const uint64_t bit = uint64_t{1} << device;
  if ((allowed.load(std::memory_order_relaxed) & bit) != 0) return;
  int most = 0;
  cudaFuncAttributes attributes{};
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory limit: ");
  check(cudaFuncGetAttributes(&attributes, kernel.entry), "kernel attributes: ");
  check(cudaFuncSetAttribute(kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize, most - static_cast<int>(attributes.sharedSizeBytes)),
        "shared memory limit: ");
  allowed.fetch_or(bit, std::memory_order_relaxed);
}

/// The driver's encoder, asked for at run time: nothing links against the driver library.
decltype(&cuTensorMapEncodeTiled) map_encoder() {
  static const auto encoder = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
    if (status != cudaSuccess || found != cudaDriverEntryPointSuccess) {
      (void)cudaGetLastError();
      throw Error(ErrorCode::device_error, "cuda: the driver has no cuTensorMapEncodeTiled (CUDA 12 or later is needed)");
    }
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  return encoder;
}

CUtensorMapDataType map_type(DType dtype) {
  switch (dtype) {
    case DType::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::i8: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    default: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  }
}

/// `View`'s map of boxes, one box `box` cells; cells are zeros where there are none. `shape` says what was refused.
template <uint32_t Rank, class View, class Shape>
void encode(View& v, const cuuint64_t (&extents)[Rank], const cuuint64_t (&strides)[Rank - 1], const cuuint32_t (&box)[Rank], Shape shape) {
  cuuint32_t steps[Rank];
  for (cuuint32_t& step : steps) step = 1;
  CUtensorMap map;
  static_assert(sizeof map == sizeof v.map);
  // Promotion to 256 bytes was measured to add 10 % of traffic in the second-level cache and to gain no time.
  const CUresult status = map_encoder()(&map, map_type(v.dtype), Rank, v.data, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw Error(ErrorCode::device_error, "cuda: cuTensorMapEncodeTiled refuses " + shape() + ": status " + std::to_string(status));
  }
  std::memcpy(v.map, &map, sizeof map);
}

cuuint64_t bytes_of(DType dtype) { return static_cast<cuuint64_t>(dtype_info(dtype).block_bytes); }

}  // namespace

void launch(Stream& stream, Launchable& kernel, const Grid& grid, const void* params, int cluster) {
  if (grid.programs > INT32_MAX) {
    throw Error(ErrorCode::invalid_argument, "cuda: " + std::to_string(grid.programs) + " programs; at most 2147483647 fit into one launch");
  }
  const int device = stream.device().index;
  const CurrentDevice selected(device);
  if (grid.scratch_bytes > 47 * 1024) allow_scratch(kernel, device);  // the slots count, too
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.programs));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = grid.scratch_bytes;
  config.stream = static_cast<cudaStream_t>(stream.native());
  cudaLaunchAttribute attributes[3];
  config.attrs = attributes;
  const auto next = [&](cudaLaunchAttributeID id) -> cudaLaunchAttributeValue& {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute = {};
    attribute.id = id;
    return attribute.val;
  };
  if (kernel.waits_itself) next(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed = 1;
  if (kernel.after_scratch) next(cudaLaunchAttributePreferredSharedMemoryCarveout).sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  if (cluster > 1) next(cudaLaunchAttributeClusterDimension).clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  void* arguments[] = {const_cast<void*>(params)};
  check(cudaLaunchKernelExC(&config, kernel.entry, arguments), "launch failed: ");
}

void encode_map(lang::matrix_view& v, int rows) {
  const cuuint64_t bytes = bytes_of(v.dtype);
  const int64_t batch_stride = v.batch > 1 ? v.batch_stride : v.stride * v.rows;
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(v.cols), static_cast<cuuint64_t>(v.rows), static_cast<cuuint64_t>(v.batch)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(v.stride) * bytes, static_cast<cuuint64_t>(batch_stride) * bytes};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(128 / bytes), static_cast<cuuint32_t>(rows), 1};
  encode<3>(v, extents, strides, box, [&] {
    return "a matrix of " + std::to_string(v.rows) + " x " + std::to_string(v.cols) + ", stride " + std::to_string(v.stride);
  });
}

void encode_map(lang::box_view& v, int box_x, int box_y) {
  const cuuint64_t bytes = bytes_of(v.dtype);
  const auto extent = [](int32_t n) { return static_cast<cuuint64_t>(n < 1 ? 1 : n); };
  // Strides of dimensions with a single index are never used, but must look like strides.
  const auto stride = [&](int32_t n, int64_t s) { return n > 1 ? static_cast<cuuint64_t>(s) * bytes : cuuint64_t{16}; };
  const cuuint64_t extents[] = {extent(v.cols), extent(v.extent_x), extent(v.extent_y), extent(v.extent_z)};
  const cuuint64_t strides[] = {stride(v.extent_x, v.stride_x), stride(v.extent_y, v.stride_y), stride(v.extent_z, v.stride_z)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(128 / bytes), static_cast<cuuint32_t>(box_x), static_cast<cuuint32_t>(box_y), 1};
  encode<4>(v, extents, strides, box, [&] {
    return "rows of " + std::to_string(v.cols) + ", " + std::to_string(v.extent_x) + " x " + std::to_string(v.extent_y) + " x " +
           std::to_string(v.extent_z);
  });
}

}  // namespace monotile::cuda
