#include "ops/check.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "monotile/error.hpp"

namespace monotile::ops::check {

namespace {

/// Bytes of one element of a plain type; block types are handled by whole rows.
int64_t offset_bytes(DType dtype, int64_t elements) {
  const DTypeInfo info = dtype_info(dtype);
  return elements / info.block_elements * info.block_bytes;
}

bool empty(const TensorView& view) {
  if (!view.defined()) return true;
  for (int i = 0; i < view.rank; ++i) {
    if (view.dim(i) == 0) return true;
  }
  return false;
}

/// Memory of a view as `count` pieces of `piece` bytes, `pitch` bytes apart; the pieces are the slices of the dimension
/// with the largest stride.
struct Pieces {
  uintptr_t begin = 0;
  int64_t count = 1, pitch = 0, piece = 0;
  uintptr_t end() const { return begin + static_cast<uintptr_t>((count - 1) * pitch + piece); }
};

Pieces pieces_of(const TensorView& view) {
  int outer = -1;
  for (int i = 0; i < view.rank; ++i) {
    if (view.dim(i) > 1 && (outer < 0 || view.step(i) > view.step(outer))) outer = i;
  }
  Pieces result;
  result.begin = reinterpret_cast<uintptr_t>(view.data);
  int64_t last = 0;  // largest element offset inside one piece
  for (int i = 0; i < view.rank; ++i) {
    if (i != outer || view.step(i) <= 1) last += (view.dim(i) - 1) * view.step(i);
  }
  const int block = dtype_info(view.dtype).block_elements;
  result.piece = offset_bytes(view.dtype, (last / block + 1) * block);
  if (outer >= 0 && view.step(outer) > 1) {
    result.count = view.dim(outer);
    result.pitch = offset_bytes(view.dtype, view.step(outer));
  }
  return result;
}

std::string names(std::initializer_list<DType> types) {
  std::string text;
  for (const DType type : types) text += std::string(text.empty() ? "" : ", ") + dtype_info(type).name;
  return text;
}

std::string extents_text(const TensorView& view) {
  std::string text = "[";
  for (int i = 0; i < view.rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(view.dim(i));
  return text + "]";
}

bool same_view(const TensorView& a, const TensorView& b) {
  if (a.data != b.data || a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.dim(i) != b.dim(i) || (a.dim(i) > 1 && a.step(i) != b.step(i))) return false;
  }
  return true;
}

}  // namespace

void fail(const char* op, const char* argument, const std::string& given, const std::string& allowed) {
  throw Error(ErrorCode::invalid_argument, std::string(op) + ": " + argument + ": " + given + "; allowed: " + allowed);
}

void present(const char* op, const char* argument, const TensorView& view, Device device) {
  if (!view.defined()) fail(op, argument, "undefined view", "a view of rank 1 to " + std::to_string(kMaxRank));
  if (view.rank > kMaxRank)
    fail(op, argument, "rank " + std::to_string(view.rank), "rank 1 to " + std::to_string(kMaxRank));
  int64_t elements = 1;
  for (int i = 0; i < view.rank; ++i) {
    if (view.dim(i) < 0) fail(op, argument, "negative extent in " + extents_text(view), "extents of 0 or more");
    if (view.dim(i) > 0 && __builtin_mul_overflow(elements, view.dim(i), &elements)) {
      fail(op, argument, "extents " + extents_text(view), "fewer than 2^63 elements");
    }
    int64_t reach = 0;
    if (view.dim(i) > 1 && __builtin_mul_overflow(view.dim(i) - 1, view.step(i), &reach)) {
      fail(op, argument, "stride " + std::to_string(view.step(i)), "offsets below 2^63");
    }
  }
  if (!(view.device == device)) {
    fail(op, argument, "memory on " + to_string(view.device), "memory on " + to_string(device));
  }
  if (view.data == nullptr && !empty(view)) fail(op, argument, "null data", "a non-null pointer");
}

void rank(const char* op, const char* argument, const TensorView& view, int lowest, int highest) {
  if (view.rank >= lowest && view.rank <= highest) return;
  fail(op, argument, "rank " + std::to_string(view.rank),
       lowest == highest ? "rank " + std::to_string(lowest)
                         : "rank " + std::to_string(lowest) + " to " + std::to_string(highest));
}

void dtype(const char* op, const char* argument, const TensorView& view, std::initializer_list<DType> allowed) {
  if (std::find(allowed.begin(), allowed.end(), view.dtype) != allowed.end()) return;
  fail(op, argument, std::string("dtype ") + dtype_info(view.dtype).name, names(allowed));
}

void same_dtype(const char* op, const char* argument, const TensorView& view, const char* other_name,
                const TensorView& other) {
  if (view.dtype == other.dtype) return;
  fail(op, argument, std::string("dtype ") + dtype_info(view.dtype).name,
       std::string(dtype_info(other.dtype).name) + ", the dtype of " + other_name);
}

void same_extents(const char* op, const char* argument, const TensorView& view, const char* other_name,
                  const TensorView& other) {
  bool same = view.rank == other.rank;
  for (int i = 0; same && i < view.rank; ++i) same = view.dim(i) == other.dim(i);
  if (same) return;
  const std::string given = view.rank == other.rank ? "extents " : "rank " + std::to_string(view.rank) + ", extents ";
  fail(op, argument, given + extents_text(view), extents_text(other) + ", the extents of " + other_name);
}

void extent(const char* op, const char* argument, const TensorView& view, int axis, int64_t wanted) {
  if (view.dim(axis) == wanted) return;
  fail(op, argument,
       "extent " + std::to_string(view.dim(axis)) + " of dimension " +
           std::to_string(axis < 0 ? view.rank + axis : axis),
       std::to_string(wanted));
}

void inner_stride(const char* op, const char* argument, const TensorView& view) {
  const DTypeInfo info = dtype_info(view.dtype);
  if (view.dim(-1) > 1 && view.step(-1) != 1)
    fail(op, argument, "innermost stride " + std::to_string(view.step(-1)), "1");
  if (view.dim(-1) % info.block_elements != 0) {
    fail(op, argument, "innermost extent " + std::to_string(view.dim(-1)),
         "a multiple of the " + std::to_string(info.block_elements) + " elements of a " + info.name + " block");
  }
  for (int i = 0; i < view.rank - 1; ++i) {
    if (view.dim(i) <= 1) continue;
    if (view.step(i) < 0) fail(op, argument, "negative stride " + std::to_string(view.step(i)), "strides of 0 or more");
    if (view.step(i) % info.block_elements != 0) {
      fail(op, argument, "stride " + std::to_string(view.step(i)),
           "multiples of the " + std::to_string(info.block_elements) + " elements of a " + info.name + " block");
    }
  }
}

void element_aligned(const char* op, const char* argument, const TensorView& view) {
  const DTypeInfo info = dtype_info(view.dtype);
  const uintptr_t alignment =
      info.block_elements > 1 ? 2 : static_cast<uintptr_t>(std::max(info.block_bytes, 1));  // blocks hold fp16 scales
  if (reinterpret_cast<uintptr_t>(view.data) % alignment == 0) return;
  fail(op, argument, "a misaligned pointer", "a multiple of " + std::to_string(alignment) + " bytes");
}

void no_self_overlap(const char* op, const char* argument, const TensorView& view) {
  if (empty(view)) return;
  std::array<std::pair<int64_t, int64_t>, kMaxRank> order;  // (stride, extent), extents above 1 only
  order.fill({INT64_MAX, 1});
  size_t count = 0;
  for (int i = 0; i < view.rank; ++i) {
    if (view.dim(i) > 1) order[count++] = {view.step(i), view.dim(i)};
  }
  std::sort(order.begin(), order.end());
  int64_t span = 1;  // elements covered by the dimensions so far
  for (size_t i = 0; i < count; ++i) {
    if (order[i].first < span)
      fail(op, argument, to_string(view) + ", whose elements overlap", "an output without overlap");
    span += (order[i].second - 1) * order[i].first;
  }
}

bool overlap(const TensorView& a, const TensorView& b) {
  if (empty(a) || empty(b)) return false;
  const Pieces x = pieces_of(a), y = pieces_of(b);
  if (x.end() <= y.begin || y.end() <= x.begin) return false;
  if (x.count > 1 && y.count > 1 && x.pitch != y.pitch) return true;
  const int64_t pitch = x.count > 1 ? x.pitch : y.pitch;
  if (pitch <= 0) return true;
  const int64_t difference = static_cast<int64_t>(y.begin) - static_cast<int64_t>(x.begin);
  const int64_t shift = ((difference % pitch) + pitch) % pitch;  // where b's pieces begin inside a's period
  return !(shift >= x.piece && shift + y.piece <= pitch);
}

void disjoint(const char* op, const char* argument, const TensorView& view, const char* other_name,
              const TensorView& other) {
  if (overlap(view, other))
    fail(op, argument, std::string("memory shared with ") + other_name, std::string("no overlap with ") + other_name);
}

void same_or_disjoint(const char* op, const char* argument, const TensorView& view, const char* other_name,
                      const TensorView& other) {
  if (!overlap(view, other) || same_view(view, other)) return;
  fail(op, argument, std::string("memory partly shared with ") + other_name,
       std::string("the same view as ") + other_name + ", or no overlap with it");
}

void indices(const char* op, const char* argument, const TensorView& view, Device device) {
  present(op, argument, view, device);
  rank(op, argument, view, 1, 1);
  dtype(op, argument, view, {DType::i32, DType::i64});
  inner_stride(op, argument, view);
  element_aligned(op, argument, view);
}

void optional_status(const char* op, const TensorView& view, int64_t length, Device device,
                     std::initializer_list<Named> others) {
  if (!view.defined()) return;
  present(op, "status", view, device);
  rank(op, "status", view, 1, 1);
  dtype(op, "status", view, {DType::i32});
  extent(op, "status", view, 0, length);
  inner_stride(op, "status", view);
  element_aligned(op, "status", view);
  for (const Named& other : others) disjoint(op, "status", view, other.name, other.view);
}

}  // namespace monotile::ops::check
