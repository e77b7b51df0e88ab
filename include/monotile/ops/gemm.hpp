#pragma once
#include "monotile/dispatch.hpp"
#include "monotile/ops/activation.hpp"

namespace monotile::ops {

/// How operands enter a product.
enum class ProductCast : uint8_t {
  none = 0,        ///< as given, block-quantised weights unpacked to fp32: fp32 accumulation
  int8_block = 1,  ///< activations rounded to int8 in blocks of 32 (scale = max|a| / 127), integer products inside a block
  bf16 = 2,        ///< both may be rounded to bf16, where the machine multiplies that faster; sums stay fp32
  tf32 = 3         ///< both may be rounded to tf32 (fp32 with 10 bits of mantissa) on NVIDIA; elsewhere as `none`; sums stay fp32
};

/// How operands are stored; the second letter says whether b is.
enum class ProductForm : uint8_t {
  nt = 0,  ///< a [m, k], b [n, k]: rows of both along k, as weights are kept
  nn = 1,  ///< a [m, k], b [k, n]
  tn = 2   ///< a [k, m], b [k, n]
};

/// c = a b^T + bias (+ residual): c [m, n], a [m, k], b [n, k]; other forms store a and b as `ProductForm` says.
///
/// Batches: c, a, b and residual may be of rank 3, [batch, ...], all with the same batch; a and b may repeat one matrix (stride 0). bias and
/// scales are the same for all matrices.
///
/// a: f32, f16, bf16; c, residual: f32 or the dtype of a; b: f32, f16, bf16 (f32 or the dtype of a... any mix is accepted), or a GGUF block
/// type (form nt; k a multiple of its block length); bias [n] f32 or the dtype of a. Row strides free, innermost stride 1. K = 0 gives bias +
/// residual or 0. fp32 accumulation: |error| <= k 2^-24 sum |a||b| + one output rounding (int8_block adds max|a| / 254 per block, bf16 adds
/// 2^-7 sum |a||b|, tf32 2^-10 sum |a||b|). m <= 64 is the vector/skinny case (weights streamed once), chosen by the cost function, never by the caller.
///
/// Epilogues: c = activation(a b^T + bias) + residual, or with a gate c = activation(gate) * (a b^T + bias) + residual; gate like c in extents, f32 or the
/// dtype of a, and may be c. activation: identity (no gate), silu or gelu_tanh; not with codes nor int8_block. Others are structs of your own, compiled in your
/// own translation unit (docs/language.md).
///
/// int8: a and b i8, k <= 2^16, so that the int32 sums are exact on every device (k 2^14 <= 2^30, -128 included). c i32 is the sums as they are, without scales, bias or residual; c f32, f16 or bf16 is
/// sum a_scale b_scale + bias (+ residual), the scales f32, [1] for the whole operand or [m] and [n]; bias and residual f32 or the dtype of c.
///
/// fp8: a and b both f8_e4m3 or both f8_e5m2, c f32, f16 or bf16, scales, bias and residual as for int8. Codes enter exactly; on sm_90a, whose
/// instructions cut fp8 sums to about 14 bits, 128 products at a time are added up in fp32: |error| may be 2^-9 sum |a||b| more where all
/// products have one sign, 2^-12 sum |a||b| where signs are mixed.
struct GemmArgs {
  static constexpr const char* op_name = "gemm";
  TensorView c, a, b;
  TensorView bias;      ///< optional
  TensorView residual;  ///< optional, may be c
  ProductCast cast = ProductCast::none;
  ProductForm form = ProductForm::nt;
  TensorView a_scale, b_scale;  ///< optional, with int8 or fp8 operands
  TensorView gate;              ///< optional, may be c
  Activation activation = Activation::identity;

  int64_t m() const { return c.dim(-2); }
  int64_t n() const { return c.dim(-1); }
  int64_t k() const { return a.dim(form == ProductForm::tn ? -2 : -1); }
  int64_t batch() const { return c.rank == 3 ? c.dim(0) : 1; }
  bool gated() const { return gate.defined() || activation != Activation::identity; }
};

/// The cast with which the engine multiplies `rows` rows of this dtype with a weight: `suggested_cast`, and bf16 where 16-bit activations meet weights of
/// another plain type and the machine multiplies that faster.
ProductCast suggested_cast(Device device, int64_t rows, DType activations, DType weight);

/// The fastest cast for a block-quantised weight and `rows` rows of a, among those no less accurate than int8_block: on CPU int8_block for few
/// rows and, for many, bf16 where there are fast instructions for it or none where there is AVX-512; on GPUs bf16 for many rows, else none.
ProductCast suggested_cast(Device device, int64_t rows);

inline void gemm(Context& context, const TensorView& c, const TensorView& a, const TensorView& b, ProductCast cast = ProductCast::none) {
  run(context, GemmArgs{.c = c, .a = a, .b = b, .bias = {}, .residual = {}, .cast = cast, .a_scale = {}, .b_scale = {}});
}

}  // namespace monotile::ops
