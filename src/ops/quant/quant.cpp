#include "ops/quant/quant.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const Implementation<QuantiseArgs>* kQuantise[] = {&quantise_portable, &quantise_reference};
constexpr const Implementation<DequantiseArgs>* kDequantise[] = {&dequantise_portable, &dequantise_reference};
constexpr const Implementation<GatedQuantiseArgs>* kGatedQuantise[] = {&gated_quantise_portable,
                                                                       &gated_quantise_reference};

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

void check_matrix(const char* op, const char* argument, const TensorView& view, std::initializer_list<DType> dtypes,
                  Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 2, 2);
  check::dtype(op, argument, view, dtypes);
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
}

void check_block(const char* op, const char* argument, int64_t block) {
  if (block < 0) check::fail(op, argument, std::to_string(block), "0 (the whole extent) or more");
}

/// One value per block: scales, or zero points.
void check_blocks(const char* op, const char* argument, const TensorView& view, DType dtype, int64_t bands,
                  int64_t groups, bool written, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 2, 2);
  check::dtype(op, argument, view, {dtype});
  check::extent(op, argument, view, 0, bands);
  check::extent(op, argument, view, 1, groups);
  check::element_aligned(op, argument, view);
  for (int axis = 0; axis < 2; ++axis) {
    if (view.dim(axis) > 1 && view.step(axis) < (written ? 1 : 0)) {
      check::fail(op, argument, "stride " + std::to_string(view.step(axis)),
                  written ? "strides of 1 or more" : "strides of 0 or more");
    }
  }
  if (written) check::no_self_overlap(op, argument, view);
}

/// Codes of the shape of a matrix; int4 as bytes of half as many columns.
void check_codes(const char* op, const TensorView& codes, const TensorView& values, const char* name, bool int4,
                 bool blocks, Device device) {
  if (blocks) {
    check_matrix(op, "codes", codes,
                 {DType::f8_e4m3, DType::f8_e5m2, DType::i8, DType::u8, DType::q4_0, DType::q5_0, DType::q8_0,
                  DType::q4_k, DType::q6_k},
                 device);
  } else if (int4) {
    check_matrix(op, "codes", codes, {DType::f8_e4m3, DType::f8_e5m2, DType::i8, DType::u8}, device);
  } else {
    check_matrix(op, "codes", codes, {DType::f8_e4m3, DType::f8_e5m2, DType::i8}, device);
  }
  check::extent(op, "codes", codes, 0, values.dim(0));
  if (codes.dtype == DType::u8) {
    if (values.dim(1) % 2 != 0)
      check::fail(op, name, std::to_string(values.dim(1)) + " columns", "an even number of columns for int4 codes");
    check::extent(op, "codes", codes, 1, values.dim(1) / 2);
  } else {
    check::extent(op, "codes", codes, 1, values.dim(1));
  }
}

void check_int4_block(const char* op, int64_t block_rows, int64_t block_cols, int64_t cols) {
  const int64_t width = block_extent(block_cols, cols);
  if (block_rows != 1) check::fail(op, "block_rows", std::to_string(block_rows), "1 for int4 codes");
  if (width % 2 != 0 || width < 2 || cols % width != 0) {
    check::fail(op, "block_cols", std::to_string(width),
                "even for int4 codes, dividing the " + std::to_string(cols) + " columns");
  }
}

void check_args(const QuantiseArgs& a, Device device) {
  constexpr const char* op = QuantiseArgs::op_name;
  check_matrix(op, "x", a.x, {DType::f32, DType::f16, DType::bf16}, device);
  check_block(op, "block_rows", a.block_rows);
  check_block(op, "block_cols", a.block_cols);
  check_codes(op, a.codes, a.x, "x", true, false, device);
  check::no_self_overlap(op, "codes", a.codes);
  const int64_t rows = a.x.dim(0), cols = a.x.dim(1);
  const int64_t bands = ceil_divide(rows, block_extent(a.block_rows, rows)),
                groups = ceil_divide(cols, block_extent(a.block_cols, cols));
  check_blocks(op, "scales", a.scales, DType::f32, bands, groups, !a.given_scales, device);
  if (a.codes.dtype == DType::u8) {
    check_int4_block(op, a.block_rows, a.block_cols, cols);
    const int64_t width = block_extent(a.block_cols, cols);
    if (width > 256) check::fail(op, "block_cols", std::to_string(width), "at most 256 for int4 codes");
    if (a.given_scales) check::fail(op, "given_scales", "true", "false for int4 codes");
    if (a.zero_points.defined()) check_blocks(op, "zero_points", a.zero_points, DType::u8, bands, groups, true, device);
  } else if (a.zero_points.defined()) {
    check::fail(op, "zero_points", "a view", "none but for int4 codes");
  }
  check::disjoint(op, "codes", a.codes, "x", a.x);
  check::disjoint(op, "codes", a.codes, "scales", a.scales);
  check::disjoint(op, "codes", a.codes, "zero_points", a.zero_points);
  check::disjoint(op, "scales", a.scales, "x", a.x);
  check::disjoint(op, "scales", a.scales, "zero_points", a.zero_points);
  check::disjoint(op, "zero_points", a.zero_points, "x", a.x);
}

void check_args(const DequantiseArgs& a, Device device) {
  constexpr const char* op = DequantiseArgs::op_name;
  check_matrix(op, "y", a.y, {DType::f32, DType::f16, DType::bf16}, device);
  check::no_self_overlap(op, "y", a.y);
  check_block(op, "block_rows", a.block_rows);
  check_block(op, "block_cols", a.block_cols);
  check_codes(op, a.codes, a.y, "y", true, true, device);
  check::disjoint(op, "y", a.y, "codes", a.codes);
  if (is_quantised(a.codes.dtype)) {
    if (a.scales.defined()) check::fail(op, "scales", "a view", "none with GGUF blocks");
    if (a.zero_points.defined()) check::fail(op, "zero_points", "a view", "none with GGUF blocks");
    return;
  }
  const int64_t rows = a.y.dim(0), cols = a.y.dim(1);
  const int64_t bands = ceil_divide(rows, block_extent(a.block_rows, rows)),
                groups = ceil_divide(cols, block_extent(a.block_cols, cols));
  check_blocks(op, "scales", a.scales, DType::f32, bands, groups, false, device);
  check::disjoint(op, "y", a.y, "scales", a.scales);
  if (a.codes.dtype == DType::u8) {
    check_int4_block(op, a.block_rows, a.block_cols, cols);
    if (a.zero_points.defined())
      check_blocks(op, "zero_points", a.zero_points, DType::u8, bands, groups, false, device);
    check::disjoint(op, "y", a.y, "zero_points", a.zero_points);
  } else if (a.zero_points.defined()) {
    check::fail(op, "zero_points", "a view", "none but for int4 codes");
  }
}

void check_args(const GatedQuantiseArgs& a, Device device) {
  constexpr const char* op = GatedQuantiseArgs::op_name;
  check_matrix(op, "gate", a.gate, {DType::f32, DType::f16, DType::bf16}, device);
  check_matrix(op, "up", a.up, {a.gate.dtype}, device);
  check::same_extents(op, "up", a.up, "gate", a.gate);
  check_codes(op, a.codes, a.gate, "gate", false, false, device);
  check::no_self_overlap(op, "codes", a.codes);
  check_block(op, "block_cols", a.block_cols);
  const int64_t groups = ceil_divide(a.gate.dim(1), block_extent(a.block_cols, a.gate.dim(1)));
  if (a.given_scales && groups > 1) check::fail(op, "block_cols", std::to_string(a.block_cols), "0 with a given scale");
  check_blocks(op, "scales", a.scales, DType::f32, a.given_scales ? 1 : a.gate.dim(0), groups, !a.given_scales, device);
  if (static_cast<int>(a.activation) > static_cast<int>(Activation::relu2)) {
    check::fail(op, "activation", std::to_string(static_cast<int>(a.activation)), "silu, gelu_tanh, gelu_erf, relu2");
  }
  check::disjoint(op, "codes", a.codes, "gate", a.gate);
  check::disjoint(op, "codes", a.codes, "up", a.up);
  check::disjoint(op, "codes", a.codes, "scales", a.scales);
  check::disjoint(op, "scales", a.scales, "gate", a.gate);
  check::disjoint(op, "scales", a.scales, "up", a.up);
}

}  // namespace

template <>
Plan<QuantiseArgs> plan(Device device, const QuantiseArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.x.size() == 0) return entry::empty_plan<QuantiseArgs>(device);
  return detail::choose<QuantiseArgs>(QuantiseArgs::op_name, kQuantise, device, args, policy);
}

template <>
Plan<DequantiseArgs> plan(Device device, const DequantiseArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.y.size() == 0) return entry::empty_plan<DequantiseArgs>(device);
  return detail::choose<DequantiseArgs>(DequantiseArgs::op_name, kDequantise, device, args, policy);
}

template <>
Plan<GatedQuantiseArgs> plan(Device device, const GatedQuantiseArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.gate.size() == 0) return entry::empty_plan<GatedQuantiseArgs>(device);
  return detail::choose<GatedQuantiseArgs>(GatedQuantiseArgs::op_name, kGatedQuantise, device, args, policy);
}

namespace ops {

const OperatorInfo quantise_operator = {
    "quantise",
    "quant",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const QuantiseArgs args{dummy_view(info, DType::f8_e4m3, {64, 4096}),
                              dummy_view(info, DType::f32, {64, 1}),
                              {},
                              dummy_view(info, DType::bf16, {64, 4096})};
      return detail::explain<QuantiseArgs>(kQuantise, info, args, policy);
    },
    [](const DeviceInfo& info) {
      for (const DType codes : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
        for (const int64_t block_rows : {1, 7, 0}) {
          const std::string wrong = self_test<QuantiseArgs>(info, quantise_reference_run, [&](SelfTestCase& c) {
            const TensorView x = c.random(DType::bf16, {9, 300});
            const int64_t bands = block_rows == 1 ? 9 : block_rows == 7 ? 2 : 1;
            return QuantiseArgs{c.output("codes", codes, {9, 300}, 0.0),
                                c.output("scales", DType::f32, {bands, 3}, 0.0),
                                {},
                                x,
                                block_rows,
                                128};
          });
          if (!wrong.empty()) return wrong;
        }
      }
      return self_test<QuantiseArgs>(info, quantise_reference_run, [&](SelfTestCase& c) {
        const TensorView x = c.random(DType::bf16, {9, 192}), codes = c.output("codes", DType::u8, {9, 96}, 0.0);
        return QuantiseArgs{
            codes, c.output("scales", DType::f32, {9, 6}, 0.0), c.output("zero_points", DType::u8, {9, 6}, 0.0), x, 1,
            32};
      });
    },
};

const OperatorInfo dequantise_operator = {
    "dequantise",
    "quant",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const DequantiseArgs args{dummy_view(info, DType::bf16, {64, 4096}),
                                dummy_view(info, DType::f8_e4m3, {64, 4096}),
                                dummy_view(info, DType::f32, {64, 1}),
                                {}};
      return detail::explain<DequantiseArgs>(kDequantise, info, args, policy);
    },
    [](const DeviceInfo& info) {
      for (const DType codes : {DType::f8_e4m3, DType::f8_e5m2, DType::i8, DType::u8, DType::q4_0, DType::q5_0,
                                DType::q8_0, DType::q4_k, DType::q6_k}) {
        const std::string wrong = self_test<DequantiseArgs>(info, dequantise_reference_run, [&](SelfTestCase& c) {
          DequantiseArgs args;
          const double most = is_code(codes) || codes == DType::u8 ? 100.0 : 1.0;
          args.codes = c.random(codes, {9, codes == DType::u8 ? 256 : 512}, codes == DType::u8 ? 0.0 : -most, most);
          args.y = c.output("y", DType::f16, {9, 512}, is_quantised(codes) ? 1e-3 : 0.0);
          if (is_quantised(codes)) return args;
          args.scales = c.random(DType::f32, {9, 8});
          args.block_cols = 64;
          if (codes == DType::u8) args.zero_points = c.random(DType::u8, {9, 8}, 0.0, 15.0);
          return args;
        });
        if (!wrong.empty()) return std::string(dtype_info(codes).name) + ": " + wrong;
      }
      return std::string();
    },
};

const OperatorInfo gated_quantise_operator = {
    "gated_quantise",
    "quant",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      const TensorView x = dummy_view(info, DType::bf16, {64, 14336});
      const GatedQuantiseArgs args{dummy_view(info, DType::f8_e4m3, {64, 14336}), dummy_view(info, DType::f32, {64, 1}),
                                   x, x};
      return detail::explain<GatedQuantiseArgs>(kGatedQuantise, info, args, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<GatedQuantiseArgs>(info, gated_quantise_reference_run, [](SelfTestCase& c) {
        const TensorView packed = c.random(DType::bf16, {5, 2 * 77}, -6.0, 6.0);
        // Codes may differ by one step where the activation is rounded to the other side.
        return GatedQuantiseArgs{c.output("codes", DType::i8, {5, 77}, 1.0),
                                 c.output("scales", DType::f32, {5, 1}, 1e-2), packed.slice(1, 0, 77),
                                 packed.slice(1, 77, 154), Activation::gelu_tanh};
      });
    },
};

}  // namespace ops

}  // namespace monotile
