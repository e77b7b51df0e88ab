// The feed-forward part of a layer: three products, the activation in the second one's epilogue where a tile has it.

#include "monotile/ops/mlp.hpp"

#include "ops/check.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tile_configs.hpp"

namespace monotile::ops {

namespace {

constexpr const char* op = MlpArgs::op_name;

GemmArgs product(const MlpArgs& args, const TensorView& c, const TensorView& a, const TensorView& b,
                 const TensorView& bias) {
  GemmArgs result;
  result.c = c, result.a = a, result.b = b, result.bias = bias;
  result.cast = args.cast ? *args.cast : suggested_cast(b.device, a.dim(0), a.dtype, b.dtype);
  if (result.cast == ProductCast::int8_block && !is_quantised(b.dtype)) result.cast = ProductCast::none;
  return result;
}

/// Few rows are products of rows or of tiles that lie across, which have no activation: there two kernels are faster than one for many rows.
bool applies_activation(const GemmArgs& args, const Context& context) {
  if (args.activation != Activation::silu && args.activation != Activation::gelu_tanh) return false;
  if (args.cast == ProductCast::int8_block || args.m() <= tiles::kMostFewRows || !context.tier.allows(Tier::portable))
    return false;
  return gemm_tiles.supports(args, device_info(context.device())) == nullptr;
}

void check_args(const MlpArgs& args, Device device) {
  check::present(op, "x", args.x, device);
  check::rank(op, "x", args.x, 2, 2);
  check::dtype(op, "x", args.x, {DType::f32, DType::f16, DType::bf16});
  check::present(op, "gate", args.gate, device);
  check::rank(op, "gate", args.gate, 2, 2);
  check::present(op, "up", args.up, device);
  check::same_extents(op, "up", args.up, "gate", args.gate);
  check::present(op, "hidden", args.hidden, device);
  check::rank(op, "hidden", args.hidden, 2, 2);
  check::same_dtype(op, "hidden", args.hidden, "x", args.x);
  check::extent(op, "hidden", args.hidden, 0, args.x.dim(0));
  check::extent(op, "hidden", args.hidden, 1, args.gate.dim(0));
  check::present(op, "spare", args.spare, device);
  check::same_dtype(op, "spare", args.spare, "x", args.x);
  check::same_extents(op, "spare", args.spare, "hidden", args.hidden);
  check::disjoint(op, "spare", args.spare, "hidden", args.hidden);
  for (const check::Named& scratch : {check::Named{"hidden", args.hidden}, check::Named{"spare", args.spare}}) {
    for (const check::Named& other :
         {check::Named{"x", args.x}, check::Named{"y", args.y}, check::Named{"residual", args.residual},
          check::Named{"gate", args.gate}, check::Named{"up", args.up}, check::Named{"down", args.down}})
      if (other.view.defined()) check::disjoint(op, scratch.name, scratch.view, other.name, other.view);
  }
  if (args.activation == Activation::identity)
    check::fail(op, "activation", "identity", "silu, gelu_tanh, gelu_erf, relu2");
}

}  // namespace

void mlp(Context& context, const MlpArgs& args) {
  check_args(args, context.device());
  run(context, product(args, args.hidden, args.x, args.gate, args.gate_bias));
  GemmArgs up = product(args, args.hidden, args.x, args.up, args.up_bias);
  up.gate = args.hidden;
  up.activation = args.activation;
  if (applies_activation(up, context)) {
    run(context, up);
  } else {
    run(context, product(args, args.spare, args.x, args.up, args.up_bias));
    run(context, GatedActivationArgs{args.hidden, args.hidden, args.spare, args.activation});
  }
  GemmArgs down = product(args, args.y, args.hidden, args.down, args.down_bias);
  down.residual = args.residual;
  run(context, down);
}

}  // namespace monotile::ops
