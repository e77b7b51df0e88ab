#pragma once
// How comparison kernels are launched.

#include <functional>
#include <initializer_list>

#include "bench/baselines.hpp"
#include "bench/cuda/check.hpp"
#include "bench/cuda/vectors.cuh"

namespace monotile::bench {

/// The hand-written argmax for packed logits, which baselines.cu lists with the naive one.
Baselines<ops::ArgmaxArgs> native_argmax(const DeviceInfo& device, const ops::ArgmaxArgs& args);

inline constexpr int kBlock = 256;

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

/// Rows of whole 16-byte vectors without gaps, all of one floating-point type; undefined views do not count.
inline bool packed(std::initializer_list<TensorView> views) {
  for (const TensorView& view : views) {
    if (view.defined() && (!view.contiguous() || view.dtype != views.begin()->dtype || view.dim(-1) % 8 != 0))
      return false;
  }
  return is_float(views.begin()->dtype);
}
/// On a GPU, and rows as above.
inline bool fits(const DeviceInfo& device, std::initializer_list<TensorView> views) {
  return device.device.kind == DeviceKind::cuda && packed(views);
}
inline bool all_contiguous(std::initializer_list<TensorView> views) {
  for (const TensorView& view : views) {
    if (view.defined() && !view.contiguous()) return false;
  }
  return true;
}

/// Threads of a block, a multiple of 32, when each holds `per_thread` vectors of a row.
inline int row_threads(int64_t cols, DType dtype, int per_thread) {
  const int64_t vectors = cols * dtype_info(dtype).block_bytes / 16;
  return static_cast<int>(((vectors + per_thread - 1) / per_thread + 31) / 32 * 32);
}
/// Vectors per thread, 1, 2, 4 or 8; 0 if the row is too long for a block's registers.
inline int vectors_per_thread(int64_t cols, DType dtype) {
  for (const int n : {1, 2, 4, 8}) {
    if (row_threads(cols, dtype, n) <= (n == 1 ? 512 : 1024)) return n;
  }
  return 0;
}
/// The function for the vectors per thread that a row needs.
template <class Args>
void (*by_vectors(int n, void (*f1)(Stream&, const Args&), void (*f2)(Stream&, const Args&),
                  void (*f4)(Stream&, const Args&), void (*f8)(Stream&, const Args&)))(Stream&, const Args&) {
  return n == 1 ? f1 : n == 2 ? f2 : n == 4 ? f4 : f8;
}

}  // namespace monotile::bench
