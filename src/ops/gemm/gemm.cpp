#include "ops/gemm/gemm.hpp"

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const char* op = GemmArgs::op_name;

constexpr const Implementation<GemmArgs>* kImplementations[] = {
    &gemm_portable,
    &gemm_tiles,
    &gemm_reference,
};

void check_args(const GemmArgs& args, Device device) {
  check::present(op, "a", args.a, device);
  check::rank(op, "a", args.a, 2, 2);
  check::dtype(op, "a", args.a, {DType::f32, DType::f16, DType::bf16});
  check::inner_stride(op, "a", args.a);
  check::element_aligned(op, "a", args.a);
  const int64_t m = args.a.dim(0), k = args.a.dim(1);

  check::present(op, "b", args.b, device);
  check::rank(op, "b", args.b, 2, 2);
  check::dtype(op, "b", args.b,
               {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q5_0, DType::q8_0, DType::q4_k, DType::q6_k});
  check::extent(op, "b", args.b, 1, k);
  check::inner_stride(op, "b", args.b);
  check::element_aligned(op, "b", args.b);
  const int64_t n = args.b.dim(0);

  check::present(op, "c", args.c, device);
  check::rank(op, "c", args.c, 2, 2);
  check::dtype(op, "c", args.c, {args.a.dtype, DType::f32});
  check::extent(op, "c", args.c, 0, m);
  check::extent(op, "c", args.c, 1, n);
  check::inner_stride(op, "c", args.c);
  check::element_aligned(op, "c", args.c);
  check::no_self_overlap(op, "c", args.c);
  check::disjoint(op, "c", args.c, "a", args.a);
  check::disjoint(op, "c", args.c, "b", args.b);

  if (args.bias.defined()) {
    check::present(op, "bias", args.bias, device);
    check::rank(op, "bias", args.bias, 1, 1);
    check::dtype(op, "bias", args.bias, {args.a.dtype, DType::f32});
    check::extent(op, "bias", args.bias, 0, n);
    check::inner_stride(op, "bias", args.bias);
    check::element_aligned(op, "bias", args.bias);
    check::disjoint(op, "c", args.c, "bias", args.bias);
  }
  if (args.residual.defined()) {
    check::present(op, "residual", args.residual, device);
    check::same_extents(op, "residual", args.residual, "c", args.c);
    check::dtype(op, "residual", args.residual, {args.a.dtype, DType::f32});
    check::inner_stride(op, "residual", args.residual);
    check::element_aligned(op, "residual", args.residual);
    check::same_or_disjoint(op, "c", args.c, "residual", args.residual);
  }
  const int cast = static_cast<int>(args.cast);
  if (cast > static_cast<int>(ProductCast::int8_block))
    check::fail(op, "cast", std::to_string(cast), "none, int8_block");
  if (args.cast == ProductCast::int8_block && !is_quantised(args.b.dtype)) {
    check::fail(op, "cast", std::string("int8_block with b of dtype ") + dtype_info(args.b.dtype).name,
                "int8_block with a block-quantised b only");
  }
}

std::vector<Choice> explain_product(const DeviceInfo& info, const TierPolicy& policy, int64_t m) {
  GemmArgs args;
  args.a = dummy_view(info, DType::bf16, {m, 4096});
  args.b = dummy_view(info, DType::bf16, {4096, 4096});
  args.c = dummy_view(info, DType::bf16, {m, 4096});
  return detail::explain<GemmArgs>(kImplementations, info, args, policy);
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
