#pragma once
// Argument checks shared by all operators. Messages: "<op>: <argument>: <given>; allowed: <allowed>".

#include <initializer_list>
#include <string>

#include "monotile/tensor.hpp"

namespace monotile::ops::check {

[[noreturn]] void fail(const char* op, const char* argument, const std::string& given, const std::string& allowed);
/// Defined, non-null data (unless it has no elements), on `device`, extents non-negative.
void present(const char* op, const char* argument, const TensorView& view, Device device);
void rank(const char* op, const char* argument, const TensorView& view, int lowest, int highest);
void dtype(const char* op, const char* argument, const TensorView& view, std::initializer_list<DType> allowed);
void same_dtype(const char* op, const char* argument, const TensorView& view, const char* other_name,
                const TensorView& other);
void same_extents(const char* op, const char* argument, const TensorView& view, const char* other_name,
                  const TensorView& other);
void extent(const char* op, const char* argument, const TensorView& view, int axis, int64_t wanted);
/// Innermost stride 1 (or extent <= 1), no negative strides; nothing is ever read as if it were contiguous.
void inner_stride(const char* op, const char* argument, const TensorView& view);
/// The pointer is a multiple of the element size.
void element_aligned(const char* op, const char* argument, const TensorView& view);
/// Rows of an output must not overlap one another (outer strides large enough or extents 1).
void no_self_overlap(const char* op, const char* argument, const TensorView& view);

/// True if some byte may belong to both views. Rows that interleave at one common row pitch (slices of a packed matrix)
/// are told apart.
bool overlap(const TensorView& a, const TensorView& b);
/// The two share no memory; undefined or empty views share none.
void disjoint(const char* op, const char* argument, const TensorView& view, const char* other_name,
              const TensorView& other);
/// The two are the same view (in-place use), or share no memory.
void same_or_disjoint(const char* op, const char* argument, const TensorView& view, const char* other_name,
                      const TensorView& other);
/// A vector of ids, positions or slots, i32 or i64.
void indices(const char* op, const char* argument, const TensorView& view, Device device);
struct Named {
  const char* name;
  const TensorView& view;
};
/// An i32 vector of `length` rows that receives status codes and shares no memory with `others`; undefined is fine.
void optional_status(const char* op, const TensorView& view, int64_t length, Device device,
                     std::initializer_list<Named> others);

}  // namespace monotile::ops::check
