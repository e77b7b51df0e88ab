#pragma once
// TensorView: a non-owning, strided, typed view of device memory; Tensor: the same with its memory.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "monotile/device.hpp"
#include "monotile/dtype.hpp"

namespace monotile {

inline constexpr int kMaxRank = 8;

/// Pointer, dtype, up to 8 extents and element strides, device. Never owns. For quantised dtypes the innermost extent is a
/// multiple of the block length, the innermost stride is 1, and every other stride is a multiple of the block length.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::none;
  Device device;
  int rank = 0;
  std::array<int64_t, kMaxRank> extent{};
  std::array<int64_t, kMaxRank> stride{};  ///< in elements

  TensorView() = default;
  /// A packed row-major view.
  TensorView(void* data, DType dtype, std::initializer_list<int64_t> extents, Device device = {});
  TensorView(void* data, DType dtype, std::span<const int64_t> extents, Device device = {});

  bool defined() const { return rank > 0; }
  int64_t size() const;                 ///< number of elements
  int64_t dim(int i) const { return extent[static_cast<size_t>(i < 0 ? rank + i : i)]; }
  int64_t step(int i) const { return stride[static_cast<size_t>(i < 0 ? rank + i : i)]; }
  bool contiguous() const;
  /// Elements [begin, end) of dimension `axis`. Throws Error(invalid_argument) outside the extent.
  TensorView slice(int axis, int64_t begin, int64_t end) const;
  /// A contiguous view with new extents of the same size (needs contiguous()).
  TensorView reshape(std::initializer_list<int64_t> extents) const;
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

/// "bf16[4, 128; strides 256, 1] on cuda:0"
std::string to_string(const TensorView& view);
/// Bytes of `elements` consecutive elements of `dtype` (quantised: whole blocks). Throws on overflow or a partial block.
int64_t storage_bytes(DType dtype, int64_t elements);

/// A packed tensor that owns its memory.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Device device, DType dtype, std::span<const int64_t> extents);
  Tensor(Device device, DType dtype, std::initializer_list<int64_t> extents);
  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }  // NOLINT: a Tensor is meant to be passed as a view
  size_t bytes() const { return buffer_.size(); }

 private:
  Buffer buffer_;
  TensorView view_;
};

}  // namespace monotile
