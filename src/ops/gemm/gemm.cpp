#include "ops/gemm/gemm.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/gemm/tile_configs.hpp"
#include "ops/gemm/tuning.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"
#include "runtime/cpu_features.hpp"
#include "runtime/kernels.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const char* op = GemmArgs::op_name;

/// Rows from which unpacking weights and multiplying them as bf16, or with AVX-512 as fp32, beats integer products
/// (docs/notes/gemm-cpu.md, 2026-11-30).
constexpr int64_t kLeastBf16Rows = 16, kLeastFloatRows = 32;
/// Rows from which matrix instructions of a GPU are asked for; below, weights are streamed and the cast makes no difference. Not measured.
constexpr int64_t kLeastMatrixRows = 32;

constexpr const Implementation<GemmArgs>* kImplementations[] = {
    &gemm_portable,
    &gemm_tiles,
    &gemm_reference,
};

/// An optional operand beside c: f32 or `other`.
void check_beside(const char* name, const TensorView& view, DType other, Device device) {
  check::present(op, name, view, device);
  check::dtype(op, name, view, {other, DType::f32});
  check::inner_stride(op, name, view);
  check::element_aligned(op, name, view);
}

/// One factor for all rows of an operand, or one for each.
void check_scale(const char* name, const TensorView& scale, int64_t rows, const GemmArgs& args, Device device) {
  if (!scale.defined()) return;
  if (!is_code(args.a.dtype) || args.c.dtype == DType::i32)
    check::fail(op, name, "given", "with int8 or fp8 operands and a floating-point c only");
  check::present(op, name, scale, device);
  check::rank(op, name, scale, 1, 1);
  check::dtype(op, name, scale, {DType::f32});
  if (scale.dim(0) != 1) check::extent(op, name, scale, 0, rows);
  check::inner_stride(op, name, scale);
  check::element_aligned(op, name, scale);
  check::disjoint(op, "c", args.c, name, scale);
}

void check_args(const GemmArgs& args, Device device) {
  if (static_cast<int>(args.form) > static_cast<int>(ProductForm::tn))
    check::fail(op, "form", std::to_string(static_cast<int>(args.form)), "nt, nn, tn");
  const bool a_by_k = args.form == ProductForm::tn, b_by_k = args.form != ProductForm::nt;
  check::present(op, "a", args.a, device);
  check::rank(op, "a", args.a, 2, 3);
  const int rank = args.a.rank;
  check::dtype(op, "a", args.a, {DType::f32, DType::f16, DType::bf16, DType::i8, DType::f8_e4m3, DType::f8_e5m2});
  check::inner_stride(op, "a", args.a);
  check::element_aligned(op, "a", args.a);
  const bool codes = is_code(args.a.dtype), integers = args.a.dtype == DType::i8;
  const int64_t m = args.a.dim(a_by_k ? -1 : -2), k = args.a.dim(a_by_k ? -2 : -1);

  check::present(op, "b", args.b, device);
  check::rank(op, "b", args.b, rank, rank);
  if (codes) {
    check::dtype(op, "b", args.b, {args.a.dtype});
  } else {
    check::dtype(
        op, "b", args.b,
        {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k});
  }
  if (b_by_k && is_quantised(args.b.dtype))
    check::fail(op, "form", "not nt, with b of dtype " + std::string(dtype_info(args.b.dtype).name),
                "nt with a block-quantised b");
  check::extent(op, "b", args.b, rank - (b_by_k ? 2 : 1), k);
  if (rank == 3) check::extent(op, "b", args.b, 0, args.a.dim(0));
  check::inner_stride(op, "b", args.b);
  check::element_aligned(op, "b", args.b);
  const int64_t n = args.b.dim(b_by_k ? -1 : -2);

  check::present(op, "c", args.c, device);
  check::rank(op, "c", args.c, rank, rank);
  if (integers) {
    constexpr int64_t kMostInt8 = 65536;  // 128 * 128 * k stays within 31 bits
    if (k > kMostInt8) check::fail(op, "a", "k = " + std::to_string(k), "k up to 65536 with int8 operands");
    check::dtype(op, "c", args.c, {DType::i32, DType::f32, DType::f16, DType::bf16});
  } else if (codes) {
    check::dtype(op, "c", args.c, {DType::f32, DType::f16, DType::bf16});
  } else {
    check::dtype(op, "c", args.c, {args.a.dtype, DType::f32});
  }
  check::extent(op, "c", args.c, rank - 2, m);
  check::extent(op, "c", args.c, rank - 1, n);
  if (rank == 3) check::extent(op, "c", args.c, 0, args.a.dim(0));
  check::inner_stride(op, "c", args.c);
  check::element_aligned(op, "c", args.c);
  check::no_self_overlap(op, "c", args.c);
  check::disjoint(op, "c", args.c, "a", args.a);
  check::disjoint(op, "c", args.c, "b", args.b);

  if (args.c.dtype == DType::i32 && (args.bias.defined() || args.residual.defined()))
    check::fail(op, args.bias.defined() ? "bias" : "residual", "given", "none with c of dtype i32");
  const DType other = codes ? args.c.dtype : args.a.dtype;
  if (args.bias.defined()) {
    check::rank(op, "bias", args.bias, 1, 1);
    check_beside("bias", args.bias, other, device);
    check::extent(op, "bias", args.bias, 0, n);
    check::disjoint(op, "c", args.c, "bias", args.bias);
  }
  if (args.residual.defined()) {
    check_beside("residual", args.residual, other, device);
    check::same_extents(op, "residual", args.residual, "c", args.c);
    check::same_or_disjoint(op, "c", args.c, "residual", args.residual);
  }
  if (args.gated()) {
    const Activation f = args.activation;
    if (f != Activation::silu && f != Activation::gelu_tanh)
      check::fail(op, "activation", std::to_string(static_cast<int>(f)), "silu, gelu_tanh, and identity without a gate");
    const char* name = args.gate.defined() ? "gate" : "activation";
    if (codes) check::fail(op, name, std::string("given with ") + dtype_info(args.a.dtype).name + " operands", "none with int8 or fp8 operands");
    if (args.cast == ProductCast::int8_block) check::fail(op, name, "given with cast int8_block", "one with cast none, bf16, tf32");
  }
  if (args.gate.defined()) {
    check_beside("gate", args.gate, other, device);
    check::same_extents(op, "gate", args.gate, "c", args.c);
    check::same_or_disjoint(op, "c", args.c, "gate", args.gate);
  }
  check_scale("a_scale", args.a_scale, m, args, device);
  check_scale("b_scale", args.b_scale, n, args, device);
  const int cast = static_cast<int>(args.cast);
  if (cast > static_cast<int>(ProductCast::tf32))
    check::fail(op, "cast", std::to_string(cast), "none, int8_block, bf16, tf32");
  if (args.cast == ProductCast::int8_block && !is_quantised(args.b.dtype)) {
    check::fail(op, "cast", std::string("int8_block with b of dtype ") + dtype_info(args.b.dtype).name,
                "int8_block with a block-quantised b only");
  }
  if ((args.cast == ProductCast::bf16 || args.cast == ProductCast::tf32) && codes)
    check::fail(op, "cast", std::string(args.cast == ProductCast::bf16 ? "bf16" : "tf32") + " with " + std::string(dtype_info(args.a.dtype).name) + " operands", "none with int8 and fp8 operands");
}

std::vector<Choice> explain_product(const DeviceInfo& info, const TierPolicy& policy, int64_t m) {
  GemmArgs args;
  args.a = dummy_view(info, DType::bf16, {m, 4096});
  args.b = dummy_view(info, DType::bf16, {4096, 4096});
  args.c = dummy_view(info, DType::bf16, {m, 4096});
  std::vector<Choice> rows = detail::explain<GemmArgs>(kImplementations, info, args, policy);
  const tiles::Tuned* const row = tiles::tuned(args, info);
  for (Choice& choice : rows) {
    if (row == nullptr || policy.tier || !choice.supported || choice.implementation == gemm_reference.name) continue;
    choice.cost = choice.chosen ? row->us : row->chosen_us;
    choice.why = choice.chosen ? "tuning table " + tiles::tuning_for(info)->path + ": " + (row->tile.empty() ? "" : "tile " + row->tile + ", ") +
                                     "fastest of those measured for " + to_string(row->range)
                               : "not the tuning table's";
  }
  return rows;
}

std::string test_product(const DeviceInfo& info, int64_t m, DType b, ProductCast cast) {
  return self_test<GemmArgs>(info, gemm_reference_run, [=](SelfTestCase& c) {
    const int64_t k = is_quantised(b) ? 512 : 99;
    GemmArgs args;
    args.a = c.random(DType::bf16, {m, k});
    args.b = c.random(b, {37, k});
    args.bias = c.random(DType::f32, {37});
    args.c = c.output("c", DType::bf16, {m, 37}, cast == ProductCast::int8_block ? 0.05 : 0x1p-7);
    args.cast = cast;
    return args;
  });
}

std::string test_products(const DeviceInfo& info, int64_t m) {
  for (const DType b : {DType::f32, DType::bf16, DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k}) {
    for (const ProductCast cast : {ProductCast::none, ProductCast::int8_block}) {
      if (cast == ProductCast::int8_block && !is_quantised(b)) continue;
      const std::string wrong = test_product(info, m, b, cast);
      if (!wrong.empty())
        return std::string("b ") + dtype_info(b).name + (cast == ProductCast::none ? ": " : ", int8_block: ") + wrong;
    }
  }
  return {};
}

}  // namespace

template <>
Plan<GemmArgs> plan(Device device, const GemmArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.c.size() == 0) return entry::empty_plan<GemmArgs>(device);
  return detail::choose<GemmArgs>(op, kImplementations, device, args, policy);
}

namespace ops {

ProductCast suggested_cast(Device device, int64_t rows, DType activations, DType weight) {
  const bool plain = !is_quantised(weight);
  if (plain && (activations == weight || activations == DType::f32)) return ProductCast::none;
  const ProductCast cast = suggested_cast(device, rows);
  return plain && cast != ProductCast::bf16 ? ProductCast::none : cast;
}

ProductCast suggested_cast(Device device, int64_t rows) {
  const Target target = target_of(device_info(device));
  if (device.kind != DeviceKind::cpu) {
    const bool built = find_kernel("gemm.tiles", target, tiles::variant(DType::bf16, tiles::kRingMixed)) != nullptr ||
                       find_kernel("gemm.tiles", target, tiles::variant(DType::bf16, tiles::kStagedMixed)) != nullptr;
    return rows >= kLeastMatrixRows && built ? ProductCast::bf16 : ProductCast::none;
  }
  if (rows >= kLeastBf16Rows && cpu_has_fast_bf16(target)) return ProductCast::bf16;
  return rows >= kLeastFloatRows && target == Target::cpu_avx512 ? ProductCast::none : ProductCast::int8_block;
}

const OperatorInfo gemm_operator = {
    "gemm",
    "gemm",
    [](const DeviceInfo& info, const TierPolicy& policy) { return explain_product(info, policy, 2048); },
    [](const DeviceInfo& info) { return test_products(info, 70); },
};
const OperatorInfo gemv_operator = {
    "gemv",
    "gemm",
    [](const DeviceInfo& info, const TierPolicy& policy) { return explain_product(info, policy, 1); },
    [](const DeviceInfo& info) { return test_products(info, 1); },
};

}  // namespace ops

}  // namespace monotile
