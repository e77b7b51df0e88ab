#pragma once
// What shared tiles hold where it is not what memory holds: tags for products whose operands are converted on their way.

#include "monotile/dtype.hpp"

namespace monotile::lang {

/// fp32 that enters a product rounded to 10 bits of mantissa (half away from zero), as NVIDIA's matrix instructions take it.
struct tf32_t {
  uint32_t bits;
};
/// Elements of type T made of any plain type or GGUF block type as they are copied into a tile.
template <class T>
struct converted {
  T value;
};

/// Is T converted, and into what.
template <class T>
struct conversion_of {
  static constexpr bool wanted = false;
  using element = T;
};
template <class T>
struct conversion_of<converted<T>> {
  static constexpr bool wanted = true;
  using element = T;
};

}  // namespace monotile::lang

namespace monotile {
template <>
struct dtype_of_t<lang::tf32_t> {
  static constexpr DType value = DType::f32;
};
template <class T>
struct dtype_of_t<lang::converted<T>> : dtype_of_t<T> {};
}  // namespace monotile
