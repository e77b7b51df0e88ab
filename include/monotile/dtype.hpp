#pragma once
// Element types: plain ones, and the block-quantised types of GGUF files (extents always count elements, not blocks).

#include <cstddef>
#include <cstdint>

namespace monotile {

/// Values are part of the C ABI; never renumber.
enum class DType : uint8_t {
  none = 0,
  f32 = 1,
  f16 = 2,
  bf16 = 3,
  f64 = 4,
  i8 = 5,
  u8 = 6,
  i32 = 7,
  i64 = 8,
  f8_e4m3 = 9,   ///< OCP: 4 bits of exponent, no infinity, largest 448
  f8_e5m2 = 10,  ///< OCP: 5 bits of exponent, largest 57,344
  // GGUF block types: `block_elements` consecutive elements of a row share one block of `block_bytes` bytes.
  q4_0 = 32,
  q5_0 = 33,
  q8_0 = 34,
  q4_k = 35,
  q6_k = 36,
};

struct DTypeInfo {
  const char* name;
  int block_elements;  ///< 1 for plain types
  int block_bytes;     ///< bytes of one element, or of one block
};

/// Name, block length and block size of `t`; {"none", 1, 0} for DType::none and unknown values.
constexpr DTypeInfo dtype_info(DType t) {
  switch (t) {
    case DType::f32: return {"f32", 1, 4};
    case DType::f16: return {"f16", 1, 2};
    case DType::bf16: return {"bf16", 1, 2};
    case DType::f64: return {"f64", 1, 8};
    case DType::i8: return {"i8", 1, 1};
    case DType::u8: return {"u8", 1, 1};
    case DType::i32: return {"i32", 1, 4};
    case DType::i64: return {"i64", 1, 8};
    case DType::f8_e4m3: return {"f8_e4m3", 1, 1};
    case DType::f8_e5m2: return {"f8_e5m2", 1, 1};
    case DType::q4_0: return {"q4_0", 32, 18};
    case DType::q5_0: return {"q5_0", 32, 22};
    case DType::q8_0: return {"q8_0", 32, 34};
    case DType::q4_k: return {"q4_k", 256, 144};
    case DType::q6_k: return {"q6_k", 256, 210};
    default: return {"none", 1, 0};
  }
}

constexpr bool is_quantised(DType t) { return dtype_info(t).block_elements > 1; }
/// One-byte codes that are worth something only together with a scale.
constexpr bool is_code(DType t) { return t == DType::f8_e4m3 || t == DType::f8_e5m2 || t == DType::i8; }
constexpr bool is_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }

// Storage-only 16-bit and 8-bit types. Arithmetic happens in fp32; conversions are in numeric.hpp (host) and in the language.
struct alignas(2) half_t {
  uint16_t bits;
};
struct alignas(2) bfloat16_t {
  uint16_t bits;
};
struct e4m3_t {
  uint8_t bits;
};
struct e5m2_t {
  uint8_t bits;
};

template <class T>
struct dtype_of_t;
template <> struct dtype_of_t<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of_t<double> { static constexpr DType value = DType::f64; };
template <> struct dtype_of_t<half_t> { static constexpr DType value = DType::f16; };
template <> struct dtype_of_t<bfloat16_t> { static constexpr DType value = DType::bf16; };
template <> struct dtype_of_t<e4m3_t> { static constexpr DType value = DType::f8_e4m3; };
template <> struct dtype_of_t<e5m2_t> { static constexpr DType value = DType::f8_e5m2; };
template <> struct dtype_of_t<int8_t> { static constexpr DType value = DType::i8; };
template <> struct dtype_of_t<uint8_t> { static constexpr DType value = DType::u8; };
template <> struct dtype_of_t<int32_t> { static constexpr DType value = DType::i32; };
template <> struct dtype_of_t<int64_t> { static constexpr DType value = DType::i64; };
/// The DType of a C++ element type.
template <class T>
inline constexpr DType dtype_of = dtype_of_t<T>::value;

}  // namespace monotile
