#include "monotile/tensor.hpp"

#include <algorithm>

namespace monotile {
namespace {

std::string list_text(std::span<const int64_t> values) {
  std::string text;
  for (const int64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text;
}

[[noreturn]] void refuse(const std::string& what, const std::string& given, const std::string& allowed) {
  throw Error(ErrorCode::invalid_argument, what + ": " + given + "; allowed: " + allowed);
}

std::span<const int64_t> extents_of(const TensorView& view) {
  return {view.extent.data(), static_cast<size_t>(view.rank)};
}

void check_new_extents(const char* part, DType dtype, std::span<const int64_t> extents) {
  const DTypeInfo info = dtype_info(dtype);
  const std::string given = "[" + list_text(extents) + "]";
  if (info.block_bytes == 0)
    refuse(std::string(part) + ": dtype", std::to_string(static_cast<int>(dtype)), "a known element type");
  if (extents.empty() || extents.size() > static_cast<size_t>(kMaxRank)) {
    refuse(std::string(part) + ": extents", "rank " + std::to_string(extents.size()),
           "rank 1 to " + std::to_string(kMaxRank));
  }
  for (const int64_t extent : extents) {
    if (extent < 0) refuse(std::string(part) + ": extents", given, "0 or more each");
  }
  if (extents.back() % info.block_elements != 0) {
    refuse(std::string(part) + ": innermost extent", std::to_string(extents.back()),
           "a multiple of the " + std::to_string(info.block_elements) + " elements of a " + info.name + " block");
  }
}

/// Row-major strides; the product of all extents must fit in 63 bits.
void pack(const char* part, TensorView& view, std::span<const int64_t> extents) {
  check_new_extents(part, view.dtype, extents);
  view.rank = static_cast<int>(extents.size());
  int64_t step = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    view.extent[i] = extents[i];
    view.stride[i] = step;
    if (__builtin_mul_overflow(step, std::max<int64_t>(extents[i], 1), &step)) {
      refuse(std::string(part) + ": extents", "[" + list_text(extents) + "]", "fewer than 2^63 elements");
    }
  }
}

}  // namespace

TensorView::TensorView(void* data, DType dtype, std::initializer_list<int64_t> extents, Device device)
    : TensorView(data, dtype, std::span<const int64_t>(extents.begin(), extents.size()), device) {}

TensorView::TensorView(void* data_in, DType dtype_in, std::span<const int64_t> extents, Device device_in)
    : data(data_in), dtype(dtype_in), device(device_in) {
  pack("TensorView", *this, extents);
}

int64_t TensorView::size() const {
  if (rank == 0) return 0;
  int64_t count = 1;
  bool overflow = false, empty = false;
  for (int i = 0; i < rank; ++i) {
    empty |= dim(i) == 0;
    overflow |= __builtin_mul_overflow(count, dim(i), &count);
  }
  if (empty) return 0;
  if (overflow)
    refuse("TensorView::size: extents", "[" + list_text(extents_of(*this)) + "]", "fewer than 2^63 elements");
  return count;
}

bool TensorView::contiguous() const {
  int64_t expected = 1;
  bool packed = true;
  for (int i = rank - 1; i >= 0; --i) {
    if (dim(i) == 0) return true;
    if (dim(i) == 1) continue;
    packed &= step(i) == expected;
    if (packed && __builtin_mul_overflow(expected, dim(i), &expected)) return false;
  }
  return packed;
}

TensorView TensorView::slice(int axis, int64_t begin, int64_t end) const {
  if (axis < -rank || axis >= rank) {
    refuse("TensorView::slice: axis", std::to_string(axis),
           rank == 0 ? "a defined view" : std::to_string(-rank) + " to " + std::to_string(rank - 1));
  }
  const size_t at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  const std::string range = "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
  if (begin < 0 || end < begin || end > extent[at]) {
    refuse("TensorView::slice: range", range + " of dimension " + std::to_string(at),
           "within [0, " + std::to_string(extent[at]) + ")");
  }
  const DTypeInfo info = dtype_info(dtype);
  if (at == static_cast<size_t>(rank - 1) && (begin % info.block_elements != 0 || end % info.block_elements != 0)) {
    refuse("TensorView::slice: range", range,
           "multiples of the " + std::to_string(info.block_elements) + " elements of a " + info.name + " block");
  }
  TensorView result = *this;
  result.extent[at] = end - begin;
  if (data != nullptr && begin != 0)
    result.data = static_cast<char*>(data) + begin * stride[at] / info.block_elements * info.block_bytes;
  return result;
}

TensorView TensorView::reshape(std::initializer_list<int64_t> extents) const {
  if (!contiguous()) refuse("TensorView::reshape: view", to_string(*this), "a contiguous view");
  TensorView result = *this;
  result.extent = {};
  result.stride = {};
  pack("TensorView::reshape", result, {extents.begin(), extents.size()});
  if (result.size() != size()) {
    refuse("TensorView::reshape: extents", "[" + list_text({extents.begin(), extents.size()}) + "]",
           "the " + std::to_string(size()) + " elements of " + to_string(*this));
  }
  return result;
}

std::string to_string(const TensorView& view) {
  if (!view.defined()) return "an undefined view";
  std::string text = std::string(dtype_info(view.dtype).name) + "[" + list_text(extents_of(view));
  if (!view.contiguous()) text += "; strides " + list_text({view.stride.data(), static_cast<size_t>(view.rank)});
  return text + "] on " + to_string(view.device);
}

int64_t storage_bytes(DType dtype, int64_t elements) {
  const DTypeInfo info = dtype_info(dtype);
  if (info.block_bytes == 0)
    refuse("storage_bytes: dtype", std::to_string(static_cast<int>(dtype)), "a known element type");
  if (elements < 0 || elements % info.block_elements != 0) {
    refuse("storage_bytes: elements", std::to_string(elements),
           "0 or more, whole " + std::string(info.name) + " blocks of " + std::to_string(info.block_elements));
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / info.block_elements, info.block_bytes, &bytes)) {
    refuse("storage_bytes: elements", std::to_string(elements) + " of " + info.name, "fewer than 2^63 bytes");
  }
  return bytes;
}

namespace {

size_t bytes_of(Device device, DType dtype, std::span<const int64_t> extents) {
  return static_cast<size_t>(storage_bytes(dtype, TensorView(nullptr, dtype, extents, device).size()));
}

}  // namespace

Tensor::Tensor(Device device, DType dtype, std::span<const int64_t> extents)
    : buffer_(device, bytes_of(device, dtype, extents)), view_(buffer_.data(), dtype, extents, device) {}

Tensor::Tensor(Device device, DType dtype, std::initializer_list<int64_t> extents)
    : Tensor(device, dtype, std::span<const int64_t>(extents.begin(), extents.size())) {}

}  // namespace monotile
