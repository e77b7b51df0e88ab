#include <cmath>
#include <limits>
#include <vector>

#include "ops/activation/activation.hpp"
#include "ops/quant/quant.hpp"
#include "ops/reference.hpp"

namespace monotile::ops {

using reference::get;
using reference::set;

namespace {

/// The contract states fp32 operations: scales and codes are exact, so the oracle takes the same steps, in plain floats.
float scale_of(double most, float largest) {
  const float scale = static_cast<float>(most) / largest;
  return most == 0 ? 1.0f : std::max(scale, 0x1p-126f);
}
double code_of(DType dtype, double x, float inverse) {
  const double scaled = static_cast<double>(static_cast<float>(x) * inverse);
  if (dtype != DType::i8) return reference::round_to(dtype, scaled);
  return std::isnan(scaled) ? 0.0 : std::clamp(std::nearbyint(scaled), -128.0, 127.0);
}
/// Halves of bytes: column 2j is the low one of byte j.
void set_nibble(const TensorView& codes, int64_t row, int64_t col, int code) {
  uint8_t& byte = codes.as<uint8_t>()[row * codes.step(0) + col / 2];
  byte = static_cast<uint8_t>(col % 2 == 0 ? (byte & 0xf0) | code : (byte & 0x0f) | code << 4);
}
int get_nibble(const TensorView& codes, int64_t row, int64_t col) {
  return codes.as<uint8_t>()[row * codes.step(0) + col / 2] >> (4 * (col % 2)) & 15;
}

struct Block {
  int64_t first_row, last_row, first_col, last_col;
};

template <class Visit>
void each_block(int64_t rows, int64_t cols, int64_t block_rows, int64_t block_cols, Visit visit) {
  for (int64_t r = 0, band = 0; r < rows; r += block_rows, ++band) {
    for (int64_t c = 0, group = 0; c < cols; c += block_cols, ++group) {
      visit(Block{r, std::min(rows, r + block_rows), c, std::min(cols, c + block_cols)}, band, group);
    }
  }
}

void quantise_int4(const QuantiseArgs& args, const Block& b, int64_t group) {
  const auto value = [&](int64_t c) { return get(args.x, b.first_row * args.x.step(0) + c); };
  double high = 0, low = 0;
  for (int64_t c = b.first_col; c < b.last_col; ++c) {
    if (!std::isfinite(value(c))) continue;
    high = std::max(high, value(c));
    low = std::min(low, value(c));
  }
  const int64_t at = b.first_row;
  float scale, zero = 8.0f;
  if (!args.zero_points.defined()) {
    scale = scale_of(std::max(high, -low), 7.0f);
  } else {
    const float distance = static_cast<float>(high) / 15.0f - static_cast<float>(low) / 15.0f;
    scale = scale_of(static_cast<double>(distance), 1.0f);
    zero = std::min(std::nearbyint(static_cast<float>(-low) * (1.0f / scale)), 15.0f);
    args.zero_points.as<uint8_t>()[at * args.zero_points.step(0) + group * args.zero_points.step(1)] =
        static_cast<uint8_t>(zero);
  }
  set(args.scales, at * args.scales.step(0) + group * args.scales.step(1), static_cast<double>(scale));
  for (int64_t c = b.first_col; c < b.last_col; ++c) {
    const double x = std::isnan(value(c)) ? 0.0 : value(c);
    const double scaled = static_cast<double>(static_cast<float>(x) * (1.0f / scale));
    const double code =
        std::clamp(std::nearbyint(std::clamp(scaled, -16.0, 16.0)) + static_cast<double>(zero), 0.0, 15.0);
    set_nibble(args.codes, b.first_row, c, static_cast<int>(code));
  }
}

}  // namespace

void quantise_reference_run(const QuantiseArgs& args) {
  const int64_t rows = args.x.dim(0), cols = args.x.dim(1);
  each_block(rows, cols, block_extent(args.block_rows, rows), block_extent(args.block_cols, cols),
             [&](const Block& b, int64_t band, int64_t group) {
               if (args.codes.dtype == DType::u8) return quantise_int4(args, b, group);
               const int64_t scale_at = band * args.scales.step(0) + group * args.scales.step(1);
               float scale;
               if (args.given_scales) {
                 scale = static_cast<float>(get(args.scales, scale_at));
               } else {
                 double most = 0;
                 for (int64_t r = b.first_row; r < b.last_row; ++r) {
                   for (int64_t c = b.first_col; c < b.last_col; ++c) {
                     const double size = std::abs(get(args.x, r * args.x.step(0) + c));
                     if (std::isfinite(size)) most = std::max(most, size);
                   }
                 }
                 scale = scale_of(most, largest_code(args.codes.dtype));
                 set(args.scales, scale_at, static_cast<double>(scale));
               }
               for (int64_t r = b.first_row; r < b.last_row; ++r) {
                 for (int64_t c = b.first_col; c < b.last_col; ++c) {
                   set(args.codes, r * args.codes.step(0) + c,
                       code_of(args.codes.dtype, get(args.x, r * args.x.step(0) + c), 1.0f / scale));
                 }
               }
             });
}

void dequantise_reference_run(const DequantiseArgs& args) {
  const int64_t rows = args.y.dim(0), cols = args.y.dim(1);
  const int64_t block_rows = block_extent(args.block_rows, rows), block_cols = block_extent(args.block_cols, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      double value;
      if (is_quantised(args.codes.dtype)) {
        value = get(args.codes, r * args.codes.step(0) + c);
      } else {
        const int64_t band = r / block_rows, group = c / block_cols;
        const double scale = get(args.scales, band * args.scales.step(0) + group * args.scales.step(1));
        double code;
        if (args.codes.dtype == DType::u8) {
          double zero = 8;
          if (args.zero_points.defined())
            zero = get(args.zero_points, band * args.zero_points.step(0) + group * args.zero_points.step(1));
          code = get_nibble(args.codes, r, c) - zero;
        } else {
          code = get(args.codes, r * args.codes.step(0) + c);
        }
        value = static_cast<double>(static_cast<float>(code) * static_cast<float>(scale));
      }
      set(args.y, r * args.y.step(0) + c, value);
    }
  }
}

/// In two steps, as the contract says: the product as it would have been stored, then its codes.
void gated_quantise_reference_run(const GatedQuantiseArgs& args) {
  std::vector<uint8_t> memory(static_cast<size_t>(storage_bytes(args.gate.dtype, args.gate.size())));
  const TensorView product(memory.data(), args.gate.dtype, {args.gate.dim(0), args.gate.dim(1)});
  gated_activation_reference_run({product, args.gate, args.up, args.activation});
  quantise_reference_run({args.codes,
                          args.scales,
                          {},
                          product,
                          args.given_scales ? 0 : 1,
                          args.given_scales ? 0 : args.block_cols,
                          args.given_scales});
}

constinit const Implementation<QuantiseArgs> quantise_reference =
    reference::implementation<QuantiseArgs, quantise_reference_run>("quantise_reference");
constinit const Implementation<DequantiseArgs> dequantise_reference =
    reference::implementation<DequantiseArgs, dequantise_reference_run>("dequantise_reference");
constinit const Implementation<GatedQuantiseArgs> gated_quantise_reference =
    reference::implementation<GatedQuantiseArgs, gated_quantise_reference_run>("gated_quantise_reference");

}  // namespace monotile::ops
