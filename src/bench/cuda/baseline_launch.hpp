#pragma once
// What the files of comparison kernels share about launching them.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <initializer_list>

#include "bench/baselines.hpp"
#include "bench/cuda/check.hpp"
#include "monotile/device.hpp"
#include "monotile/tensor.hpp"

namespace monotile::bench {

/// The hand-written argmax for packed logits, which baselines.cu lists with the naive one.
Baselines<ops::ArgmaxArgs> native_argmax(const DeviceInfo& device, const ops::ArgmaxArgs& args);

constexpr int kBlock = 256;

inline cudaStream_t native_stream(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }
inline unsigned blocks_of(size_t threads, int block = kBlock) {
  return static_cast<unsigned>((threads + static_cast<size_t>(block) - 1) / static_cast<size_t>(block));
}
inline void launched() { check_cuda(cudaGetLastError(), "launch of a comparison kernel"); }

/// Calls `f` with a value of the element type.
template <class F>
void with_type(DType dtype, const F& f) {
  if (dtype == DType::f16) return f(__half());
  if (dtype == DType::bf16) return f(__nv_bfloat16());
  f(float());
}

inline bool packed(std::initializer_list<TensorView> views) {
  for (const TensorView& view : views) {
    if (view.defined() && (!view.contiguous() || view.dtype != views.begin()->dtype || view.dim(-1) % 8 != 0))
      return false;
  }
  return is_float(views.begin()->dtype);
}

}  // namespace monotile::bench
