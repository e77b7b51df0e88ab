#pragma once
// What all reference implementations share: element access through double, and the Implementation around a plain
// function.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "monotile/dispatch.hpp"
#include "monotile/numeric.hpp"

namespace monotile::ops::reference {

/// Rounds to a binary format with `fraction_bits` stored fraction bits and smallest normal exponent `lowest_exponent`:
/// half to even, once.
inline double round_to_format(double value, int fraction_bits, int lowest_exponent) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), lowest_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(value, fraction_bits - exponent)), exponent - fraction_bits);
}

/// `value` as stored in a float type, with one rounding (never by way of fp32, which would round twice).
inline double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f32: return static_cast<double>(static_cast<float>(value));
    case DType::f16:
      return static_cast<double>(to_float(from_float<half_t>(static_cast<float>(round_to_format(value, 10, -14)))));
    case DType::bf16:
      return static_cast<double>(to_float(from_float<bfloat16_t>(static_cast<float>(round_to_format(value, 7, -126)))));
    // Saturating: the largest numbers stand for all that is larger, infinities too.
    case DType::f8_e4m3: return std::isnan(value) ? value : std::clamp(round_to_format(value, 3, -6), -448.0, 448.0);
    case DType::f8_e5m2:
      return std::isnan(value) ? value : std::clamp(round_to_format(value, 2, -14), -57344.0, 57344.0);
    default: return value;
  }
}

/// What an 8-bit float code stands for, from its fields.
inline double value_of_code(uint8_t code, int fraction_bits, int bias) {
  const int exponent = (code & 0x7f) >> fraction_bits, fraction = code & ((1 << fraction_bits) - 1);
  const double size = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                    : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  return (code & 0x80) != 0 ? -size : size;
}

/// Element `index` of a row of GGUF blocks that starts at `blocks` (defined in gemm/dequantise.cpp).
double dequantise(DType dtype, const void* blocks, int64_t index);

/// The element `offset` elements after view.data (for block types: `offset` counts elements, whole blocks first).
inline double get(const TensorView& view, int64_t offset) {
  switch (view.dtype) {
    case DType::f32: return static_cast<double>(view.as<float>()[offset]);
    case DType::f64: return view.as<double>()[offset];
    case DType::f16: return static_cast<double>(to_float(view.as<half_t>()[offset]));
    case DType::bf16: return static_cast<double>(to_float(view.as<bfloat16_t>()[offset]));
    case DType::f8_e4m3: {
      const uint8_t code = view.as<uint8_t>()[offset];
      return (code & 0x7f) == 0x7f ? std::nan("") : value_of_code(code, 3, 7);
    }
    case DType::f8_e5m2: {
      const uint8_t code = view.as<uint8_t>()[offset];
      if ((code & 0x7f) < 0x7c) return value_of_code(code, 2, 15);
      return (code & 0x7f) > 0x7c ? std::nan("") : std::copysign(HUGE_VAL, (code & 0x80) != 0 ? -1.0 : 1.0);
    }
    case DType::i8: return static_cast<double>(view.as<int8_t>()[offset]);
    case DType::u8: return static_cast<double>(view.as<uint8_t>()[offset]);
    case DType::i32: return static_cast<double>(view.as<int32_t>()[offset]);
    case DType::i64: return static_cast<double>(view.as<int64_t>()[offset]);
    default: return dequantise(view.dtype, view.data, offset);
  }
}

/// Stores `value` with one rounding.
inline void set(const TensorView& view, int64_t offset, double value) {
  switch (view.dtype) {
    case DType::f32: view.as<float>()[offset] = static_cast<float>(value); break;
    case DType::f64: view.as<double>()[offset] = value; break;
    case DType::f16:
      view.as<half_t>()[offset] = from_float<half_t>(static_cast<float>(round_to(DType::f16, value)));
      break;
    case DType::bf16:
      view.as<bfloat16_t>()[offset] = from_float<bfloat16_t>(static_cast<float>(round_to(DType::bf16, value)));
      break;
    case DType::f8_e4m3:
      view.as<e4m3_t>()[offset] = from_float<e4m3_t>(static_cast<float>(round_to(DType::f8_e4m3, value)));
      break;
    case DType::f8_e5m2:
      view.as<e5m2_t>()[offset] = from_float<e5m2_t>(static_cast<float>(round_to(DType::f8_e5m2, value)));
      break;
    case DType::i8: view.as<int8_t>()[offset] = static_cast<int8_t>(value); break;
    case DType::u8: view.as<uint8_t>()[offset] = static_cast<uint8_t>(value); break;
    case DType::i32: view.as<int32_t>()[offset] = static_cast<int32_t>(value); break;
    case DType::i64: view.as<int64_t>()[offset] = static_cast<int64_t>(value); break;
    default: break;  // block types are never outputs
  }
}

/// An element of an i32 or i64 table.
inline int64_t get_index(const TensorView& view, int64_t offset) {
  return view.dtype == DType::i64 ? view.as<int64_t>()[offset] : static_cast<int64_t>(view.as<int32_t>()[offset]);
}

template <class Args>
const char* host_memory_only(const Args&, const DeviceInfo& device) {
  return device.device.host_memory() ? nullptr : "runs on host memory only";
}

/// So high that any other implementation wins.
template <class Args>
double highest_cost(const Args&, const DeviceInfo&) {
  return 1e9;
}

template <class Args>
void nothing_to_plan(const Args&, const DeviceInfo&, Plan<Args>&) {}

template <class Args, void (*Run)(const Args&)>
void run_plain(const Plan<Args>&, Stream&, const Args& args, void*) {
  Run(args);
}

/// The Implementation around a plain function on host memory.
template <class Args, void (*Run)(const Args&)>
constexpr Implementation<Args> implementation(const char* name) {
  return {
      name, Tier::reference, host_memory_only<Args>, highest_cost<Args>, nothing_to_plan<Args>, run_plain<Args, Run>};
}

}  // namespace monotile::ops::reference
