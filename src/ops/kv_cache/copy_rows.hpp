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

/// Layouts of a copy: short rows side by side in a program, long rows cut into chunks of up to 8 KB, and those of whole aligned vectors, all of whose
/// loads are on their way at once.
enum CopyLayout : uint32_t { kShort, kLong, kLongExact };

/// Which kernel a copy takes; every part of it is one rows' copy with these.
struct Choice {
  bool words;
  uint32_t layout;
  int threads;

  std::array<int64_t, 8> packed() const { return {words, layout, threads}; }
  static Choice unpacked(const std::array<int64_t, 8>& c) {
    return {c[0] != 0, static_cast<uint32_t>(c[1]), static_cast<int>(c[2])};
  }
};

/// Rows that follow each other without gaps, in all tensors alike, become longer ones: a block of a cache that is packed is one row. `a` and `b`: rows
/// of an item.
inline void fold(Pair (&pairs)[2], uint32_t& a, uint32_t& b) {
  const auto packed = [&](size_t axis) {
    return std::all_of(std::begin(pairs), std::end(pairs), [&](const Pair& pair) {
      return pair.cols == 0 || (pair.to.stride[axis] == pair.cols && pair.from.stride[axis] == pair.cols);
    });
  };
  const auto merge = [&](uint32_t& rows) {
    for (Pair& pair : pairs) pair.cols *= rows;
    rows = 1;
  };
  if (b > 1 && packed(2)) merge(b);
  if (b == 1 && a > 1 && packed(1)) merge(a);
}

constexpr int64_t kShortBytes = 1024;
constexpr int kLongThreads = 128, kLongVectors = 4;

inline bool whole_16_bytes(const Pair& pair) {
  const int64_t size = dtype_info(pair.to.tensor.dtype).block_bytes;
  bool whole = pair.cols * size % 16 == 0;
  for (const Side* side : {&pair.to, &pair.from}) {
    whole = whole && reinterpret_cast<uintptr_t>(side->tensor.data) % 16 == 0;
    for (const int64_t stride : side->stride) whole = whole && stride * size % 16 == 0;
  }
  return whole;
}

/// `pairs` as `fold` leaves them.
inline Choice choose(const Pair (&pairs)[2], const DeviceInfo& device) {
  Choice choice{true, kShort, 1};
  bool exact = true;
  int64_t widest = 0;
  for (const Pair& pair : pairs) {
    if (pair.cols == 0) continue;
    choice.words = choice.words && whole_words(pair);
    exact = exact && whole_16_bytes(pair);
    widest = std::max(widest, pair.cols * dtype_info(pair.to.tensor.dtype).block_bytes);
  }
  if (device.device.kind == DeviceKind::cpu) return choice;
  choice.threads = lanes_on(device, kLongThreads);
  if (widest <= kShortBytes) return choice;
  choice.layout = choice.words && exact ? kLongExact : kLong;
  const int64_t vectors = ceil_div(widest, choice.words ? 16 : 8), most = int64_t{kLongVectors} * choice.threads;
  choice.threads = whole_waves(ceil_div(vectors, ceil_div(vectors, most)), kLongVectors, device);
  return choice;
}

inline const void* kernel_of(const Choice& choice, const DeviceInfo& device) {
  return reinterpret_cast<const void*>(
      find_kernel(choice.words ? "copy_rows_words" : "copy_rows_bytes", target_of(device), choice.layout));
}

/// Elements that a program takes of each row: 16 lanes of one vector, or all of several.
template <class T>
int64_t chunk_of(const Choice& choice) {
  constexpr int64_t kVector = sizeof(T) == 4 ? 4 : 8;
  return choice.layout == kShort ? 16 * kVector : kVector * kLongVectors * choice.threads;
}

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

/// `p` holds indices, counts and status; the rest comes from the pairs (the second may have no columns).
template <class T>
void launch(const void* kernel, Stream& stream, kernels::CopyRowsParams<T> p, const Pair (&pairs)[2],
            const Choice& choice) {
  int64_t widest = 0, programs = 0;
  const bool lanes = choice.threads > 1;
  const int rows_per_program = lanes && choice.layout == kShort ? choice.threads / 16 : 1;
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
    part.chunks = lanes ? ceil_div(part.cols, chunk_of<T>(choice)) : 1;
    widest = std::max(widest, part.cols);
    const int64_t of_part = ceil_div(p.items * p.a * p.b, rows_per_program) * part.chunks;
    if (i == 0) p.first_programs = of_part;
    programs += of_part;
  }
  reinterpret_cast<KernelFn<kernels::CopyRowsParams<T>>>(const_cast<void*>(kernel))(
      stream, Grid{programs, choice.threads, 0, cpu_grain(widest * static_cast<int64_t>(sizeof(T)))}, p);
}

}  // namespace monotile::ops::copy_rows
