#pragma once
// A dtype by its name, for what people and files write.

#include <initializer_list>
#include <string_view>

#include "monotile/dtype.hpp"

namespace monotile {

/// That of `among` whose dtype_info has this name; DType::none if there is none.
template <class Among = std::initializer_list<DType>>
DType dtype_named(std::string_view name, const Among& among) {
  for (const DType dtype : among) {
    if (name == dtype_info(dtype).name) return dtype;
  }
  return DType::none;
}

}  // namespace monotile
