#pragma once
// Random host data of every dtype, from a seed: for self-tests and tests.

#include <cstdint>
#include <cstring>
#include <vector>

#include "monotile/numeric.hpp"
#include "monotile/tensor.hpp"
#include "ops/reference.hpp"

namespace monotile::ops {

/// SplitMix64: a small generator whose output is the same everywhere.
class RandomData {
 public:
  explicit RandomData(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53; }
  /// Uniform in [low, high], for integers.
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }

  /// `elements` packed elements at `data`: uniform in [low, high) for plain types; for block types random codes whose
  /// fp16 scales make values of about that size.
  void fill(void* data, DType dtype, int64_t elements, double low = -1.0, double high = 1.0) {
    if (is_quantised(dtype)) return fill_blocks(static_cast<uint8_t*>(data), dtype, elements, high);
    TensorView view;
    view.data = data;
    view.dtype = dtype;
    const bool integral = !is_float(dtype) && dtype != DType::f64 && dtype != DType::f8_e4m3 && dtype != DType::f8_e5m2;
    for (int64_t i = 0; i < elements; ++i) {
      reference::set(view, i,
                     integral ? static_cast<double>(integer(static_cast<int64_t>(low), static_cast<int64_t>(high)))
                              : uniform(low, high));
    }
  }

 private:
  void fill_blocks(uint8_t* data, DType dtype, int64_t elements, double size) {
    const DTypeInfo info = dtype_info(dtype);
    for (int64_t block = 0; block < elements / info.block_elements; ++block, data += info.block_bytes) {
      for (int i = 0; i < info.block_bytes; ++i) data[i] = static_cast<uint8_t>(bits() >> 56);
      switch (dtype) {
        case DType::q4_0: scale(data, size / 8); break;
        case DType::q5_0: scale(data, size / 16); break;
        case DType::q8_0: scale(data, size / 127); break;
        case DType::q4_k: scale(data, size / (63 * 8)), scale(data + 2, size / 63); break;
        case DType::q6_k: scale(data + 208, size / (127 * 32)); break;
        default: break;
      }
    }
  }
  /// Between half of `largest` and `largest`, of random sign.
  void scale(uint8_t* at, double largest) {
    const double value = uniform(0.5, 1.0) * largest * ((bits() >> 63) != 0 ? -1.0 : 1.0);
    const half_t stored = from_float<half_t>(static_cast<float>(value));
    std::memcpy(at, &stored, sizeof(stored));
  }

  uint64_t state_;
};

}  // namespace monotile::ops
