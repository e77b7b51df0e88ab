// The GGUF block types, element by element, from their published layouts (scales are little-endian fp16):
//   q4_0  32 elements: scale d; 16 bytes of nibbles, byte j = elements j (low) and j + 16 (high); value d (q - 8)
//   q5_0  32 elements: d; 32 high bits, bit j of element j; nibbles as q4_0; value d (q - 16)
//   q8_0  32 elements: d; 32 signed bytes; value d q
//   q4_k 256 elements: d, dmin; 12 bytes holding 8 six-bit scales and 8 six-bit minima; 128 bytes of nibbles, 32 bytes
//        per pair of sub-blocks (low: even sub-block, high: odd one); value d scale q - dmin minimum
//   q6_k 256 elements: 128 bytes low nibbles, 64 bytes high bit pairs, 16 signed scales of 16 elements, d; value
//        d scale (q - 32)

#include "ops/reference.hpp"

namespace monotile::ops::reference {

namespace {

double half_at(const uint8_t* bytes) {
  return static_cast<double>(to_float(half_t{static_cast<uint16_t>(bytes[0] | bytes[1] << 8)}));
}

double q4_0(const uint8_t* block, int i) {
  const int byte = block[2 + i % 16];
  return half_at(block) * ((i < 16 ? byte & 15 : byte >> 4) - 8);
}

double q5_0(const uint8_t* block, int i) {
  const int byte = block[6 + i % 16], high = block[2 + i / 8] >> (i % 8) & 1;
  return half_at(block) * (((i < 16 ? byte & 15 : byte >> 4) | high << 4) - 16);
}

double q8_0(const uint8_t* block, int i) { return half_at(block) * static_cast<int8_t>(block[2 + i]); }

double q4_k(const uint8_t* block, int i) {
  const uint8_t* packed = block + 4;
  const uint8_t* codes = block + 16;
  const int sub = i / 32;
  int scale, minimum;
  if (sub < 4) {  // the low six bits of the first eight bytes
    scale = packed[sub] & 63;
    minimum = packed[sub + 4] & 63;
  } else {  // four bits in the last four bytes, two in the top of the first eight
    scale = (packed[sub + 4] & 15) | (packed[sub - 4] >> 6) << 4;
    minimum = packed[sub + 4] >> 4 | (packed[sub] >> 6) << 4;
  }
  const int byte = codes[i / 64 * 32 + i % 32];
  const int code = sub % 2 == 0 ? byte & 15 : byte >> 4;
  return half_at(block) * scale * code - half_at(block + 2) * minimum;
}

double q6_k(const uint8_t* block, int i) {
  const int half = i / 128, within = i % 128, quarter = within / 32, j = within % 32;
  const int low = block[64 * half + 32 * (quarter % 2) + j];
  const int high = block[128 + 32 * half + j] >> (2 * quarter) & 3;
  const int code = ((quarter < 2 ? low & 15 : low >> 4) | high << 4) - 32;
  return half_at(block + 208) * static_cast<int8_t>(block[192 + i / 16]) * code;
}

}  // namespace

double dequantise(DType dtype, const void* blocks, int64_t index) {
  const DTypeInfo info = dtype_info(dtype);
  const uint8_t* block = static_cast<const uint8_t*>(blocks) + index / info.block_elements * info.block_bytes;
  const int i = static_cast<int>(index % info.block_elements);
  switch (dtype) {
    case DType::q4_0: return q4_0(block, i);
    case DType::q5_0: return q5_0(block, i);
    case DType::q8_0: return q8_0(block, i);
    case DType::q4_k: return q4_k(block, i);
    case DType::q6_k: return q6_k(block, i);
    default: return std::nan("");
  }
}

}  // namespace monotile::ops::reference
