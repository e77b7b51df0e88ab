#pragma once
// Launching the kernel that moves rows: elements of any plain dtype travel as words of 4 bytes, or as bytes where rows do not allow that.

#include <algorithm>
#include <array>

#include "monotile/kernels/kv_cache/params.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops::copy_rows {

/// Rows (item, a, b) of `cols` elements in one tensor, with the strides of the three in elements.
struct Side {
  TensorView tensor;
  std::array<int64_t, 3> stride{};
};
struct Pair {
  Side to, from;
  int64_t cols = 0;
};

inline bool whole_words(const Pair& pair) {
  const int64_t size = dtype_info(pair.to.tensor.dtype).block_bytes;
  bool whole = pair.cols * size % 4 == 0;
  for (const Side* side : {&pair.to, &pair.from}) {
    whole = whole && reinterpret_cast<uintptr_t>(side->tensor.data) % 4 == 0;
    for (const int64_t stride : side->stride) whole = whole && stride * size % 4 == 0;
  }
  return whole;
}

inline const char* kernel_name(bool words) { return words ? "copy_rows_words" : "copy_rows_bytes"; }

template <class T, class Data>
lang::view<T> view_of(const Side& side, const std::array<int64_t, 3>& stride, Data* data) {
  lang::view<T> v;
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(T)), kVector = lang::vector_bytes(kSize);
  v.data = reinterpret_cast<T*>(data);
  v.outer_stride = 1;
  v.vectors = reinterpret_cast<uintptr_t>(side.tensor.data) % kVector == 0;
  for (const int64_t s : stride) v.vectors = v.vectors && s * kSize % kVector == 0;
  return v;
}

/// Lanes of a program, 16 to a row; 1 on CPU.
inline int threads_on(const DeviceInfo& device) { return device.device.kind == DeviceKind::cpu ? 1 : lanes_on(device, 128); }

/// `p` holds indices, counts and status; the rest comes from the pairs (the second may have no columns).
template <class T>
void launch(const void* kernel, Stream& stream, kernels::CopyRowsParams<T> p, const Pair (&pairs)[2], int threads) {
  int64_t widest = 0, programs = 0;
  const int rows_per_program = std::max(1, threads / 16);
  for (int i = 0; i < 2; ++i) {
    const Pair& pair = pairs[i];
    if (pair.cols == 0) continue;
    const int64_t size = dtype_info(pair.to.tensor.dtype).block_bytes;
    const auto scaled = [&](const std::array<int64_t, 3>& stride) {
      return std::array<int64_t, 3>{stride[0] * size / static_cast<int64_t>(sizeof(T)),
                                    stride[1] * size / static_cast<int64_t>(sizeof(T)),
                                    stride[2] * size / static_cast<int64_t>(sizeof(T))};
    };
    const auto to = scaled(pair.to.stride), from = scaled(pair.from.stride);
    kernels::CopyRowsPart<T>& part = p.part[i];
    part.to = view_of<T>(pair.to, to, pair.to.tensor.as<unsigned char>());
    part.from = view_of<const T>(pair.from, from, pair.from.tensor.as<unsigned char>());
    std::copy(to.begin(), to.end(), part.to_stride);
    std::copy(from.begin(), from.end(), part.from_stride);
    part.cols = part.to.cols = part.from.cols = pair.cols * size / static_cast<int64_t>(sizeof(T));
    widest = std::max(widest, part.cols);
    const int64_t of_part = (p.items * p.a * p.b + rows_per_program - 1) / rows_per_program;
    if (i == 0) p.first_programs = of_part;
    programs += of_part;
  }
  p.step = threads > 1 ? 128 : widest;
  reinterpret_cast<KernelFn<kernels::CopyRowsParams<T>>>(const_cast<void*>(kernel))(
      stream, Grid{programs, threads, 0, cpu_grain(widest * static_cast<int64_t>(sizeof(T)))}, p);
}

}  // namespace monotile::ops::copy_rows
