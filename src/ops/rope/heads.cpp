// Norm, rotary embedding and cache append in one: checks, oracle, catalogue entry.

#include <vector>

#include "ops/check.hpp"
#include "ops/entry.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/norm/norm.hpp"
#include "ops/rope/head_parts.hpp"
#include "ops/rope/rope.hpp"
#include "ops/self_test.hpp"
#include "runtime/choose.hpp"

namespace monotile {

namespace {

using namespace ops;

constexpr const char* op = NormRopeAppendArgs::op_name;

constexpr const Implementation<NormRopeAppendArgs>* kImplementations[] = {&norm_rope_append_portable,
                                                                          &norm_rope_append_reference};

KvAppendArgs append_of(const NormRopeAppendArgs& a, const TensorView& k) {
  return {a.key_cache, a.value_cache, k, a.v, a.slots, a.status, a.key_scale, a.value_scale};
}

void check_gamma(const char* argument, const TensorView& gamma, const NormRopeAppendArgs& a, Device device) {
  check::present(op, argument, gamma, device);
  check::rank(op, argument, gamma, 1, 1);
  check::dtype(op, argument, gamma, {a.q.dtype, DType::f32});
  check::extent(op, argument, gamma, 0, a.q.dim(2));
  check::inner_stride(op, argument, gamma);
  check::element_aligned(op, argument, gamma);
}

void check_table(const char* argument, const TensorView& view, int64_t half, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 2, 2);
  check::dtype(op, argument, view, {DType::f32});
  check::extent(op, argument, view, 1, half);
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
  if (view.dim(0) < 1) check::fail(op, argument, "no positions", "max_position of 1 or more");
}

void check_heads(const char* argument, const TensorView& view, DType dtype, Device device) {
  check::present(op, argument, view, device);
  check::rank(op, argument, view, 3, 3);
  check::dtype(op, argument, view, {dtype});
  check::inner_stride(op, argument, view);
  check::element_aligned(op, argument, view);
  if (view.dim(2) < 1 || view.dim(2) > heads::kMostDim)
    check::fail(op, argument, "heads of " + std::to_string(view.dim(2)) + " elements", "1 to 256");
}

void check_out(const char* argument, const TensorView& out, const char* name, const TensorView& in,
               const NormRopeAppendArgs& a, Device device) {
  check_heads(argument, out, in.dtype, device);
  check::same_extents(op, argument, out, name, in);
  check::no_self_overlap(op, argument, out);
  check::same_or_disjoint(op, argument, out, name, in);
  for (const auto& [other_name, other] : {std::pair<const char*, const TensorView*>{"v", &a.v},
                                          {"positions", &a.positions},
                                          {"cos", &a.cos},
                                          {"sin", &a.sin},
                                          {"key_cache", &a.key_cache},
                                          {"value_cache", &a.value_cache},
                                          {"slots", &a.slots}}) {
    check::disjoint(op, argument, out, other_name, *other);
  }
}

void check_args(const NormRopeAppendArgs& a, Device device) {
  check::present(op, "q", a.q, device);
  check::dtype(op, "q", a.q, {DType::f32, DType::f16, DType::bf16});
  check_heads("q", a.q, a.q.dtype, device);
  check_heads("k", a.k, a.q.dtype, device);
  check_heads("v", a.v, a.q.dtype, device);
  check::extent(op, "k", a.k, 0, a.q.dim(0));
  check::extent(op, "k", a.k, 2, a.q.dim(2));
  check_kv_append(op, append_of(a, a.k), device);
  const int64_t dim = a.q.dim(2), rotary_dim = a.rotary_dim == 0 ? dim : a.rotary_dim;
  if (rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > dim) {
    check::fail(op, "rotary_dim", std::to_string(rotary_dim), "even, from 2 to the head_dim " + std::to_string(dim));
  }
  check_table("cos", a.cos, rotary_dim / 2, device);
  check_table("sin", a.sin, rotary_dim / 2, device);
  check::extent(op, "sin", a.sin, 0, a.cos.dim(0));
  check::indices(op, "positions", a.positions, device);
  check::extent(op, "positions", a.positions, 0, a.q.dim(0));
  if (a.q_gamma.defined() || a.k_gamma.defined()) {
    check_gamma("q_gamma", a.q_gamma, a, device);
    check_gamma("k_gamma", a.k_gamma, a, device);
  }
  check_out("q_out", a.q_out, "q", a.q, a, device);
  check::disjoint(op, "q_out", a.q_out, "k", a.k);
  if (a.k_out.defined()) {
    check_out("k_out", a.k_out, "k", a.k, a, device);
    check::disjoint(op, "k_out", a.k_out, "q", a.q);
    check::disjoint(op, "k_out", a.k_out, "q_out", a.q_out);
  }
  check::optional_status(op, a.status, a.q.dim(0), device,
                         {{"q_out", a.q_out}, {"k_out", a.k_out}, {"q", a.q}, {"k", a.k}, {"v", a.v}, {"positions", a.positions}, {"key_cache", a.key_cache},
                          {"value_cache", a.value_cache}, {"slots", a.slots}});
  if (!(a.eps >= 0.0f)) check::fail(op, "eps", std::to_string(a.eps), "0 or more");
}

/// A packed tensor of the oracle's own.
struct Temporary {
  std::vector<uint8_t> memory;
  TensorView view;
  explicit Temporary(const TensorView& like) : memory(static_cast<size_t>(storage_bytes(like.dtype, like.size()))) {
    view = TensorView(memory.data(), like.dtype, {like.dim(0), like.dim(1), like.dim(2)});
  }
};

}  // namespace

namespace ops {

/// Operator after operator, as the contract says.
void norm_rope_append_reference_run(const NormRopeAppendArgs& a) {
  Temporary q(a.q), k(a.k), k_rotated(a.k);
  TensorView q_in = a.q, k_in = a.k;
  if (a.q_gamma.defined()) {
    rms_norm_reference_run({q.view, {}, a.q, a.q_gamma, {}, a.eps, a.gamma_offset});
    rms_norm_reference_run({k.view, {}, a.k, a.k_gamma, {}, a.eps, a.gamma_offset});
    q_in = q.view;
    k_in = k.view;
  }
  const TensorView k_out = a.k_out.defined() ? a.k_out : k_rotated.view;
  rope_reference_run({a.q_out, k_out, q_in, k_in, a.positions, a.cos, a.sin, a.status, a.rotary_dim, a.interleaved});
  kv_append_reference_run(append_of(a, k_out));
}

constinit const Implementation<NormRopeAppendArgs> norm_rope_append_reference =
    reference::implementation<NormRopeAppendArgs, norm_rope_append_reference_run>("norm_rope_append_reference");

}  // namespace ops

template <>
Plan<NormRopeAppendArgs> plan(Device device, const NormRopeAppendArgs& args, const TierPolicy& policy) {
  check_args(args, device);
  if (args.q.dim(0) == 0) return entry::empty_plan<NormRopeAppendArgs>(device);
  return detail::choose<NormRopeAppendArgs>(op, kImplementations, device, args, policy);
}

namespace ops {

const OperatorInfo norm_rope_append_operator = {
    "norm_rope_append",
    "rope",
    [](const DeviceInfo& info, const TierPolicy& policy) {
      NormRopeAppendArgs a;
      a.q = a.q_out = dummy_view(info, DType::bf16, {64, 32, 128});
      a.k = a.v = dummy_view(info, DType::bf16, {64, 8, 128});
      a.q_gamma = a.k_gamma = dummy_view(info, DType::bf16, {128});
      a.positions = a.slots = dummy_view(info, DType::i32, {64});
      a.cos = a.sin = dummy_view(info, DType::f32, {8192, 64});
      a.key_cache = a.value_cache = dummy_view(info, DType::bf16, {4096, 8, 16, 128});
      return detail::explain<NormRopeAppendArgs>(kImplementations, info, a, policy);
    },
    [](const DeviceInfo& info) {
      return self_test<NormRopeAppendArgs>(info, norm_rope_append_reference_run, [](SelfTestCase& c) {
        NormRopeAppendArgs a;
        a.q = c.random(DType::bf16, {5, 4, 66});
        a.k = c.random(DType::bf16, {5, 2, 66});
        a.v = c.random(DType::bf16, {5, 2, 40});
        a.q_gamma = c.random(DType::bf16, {66});
        a.k_gamma = c.random(DType::bf16, {66});
        a.q_out = c.output("q_out", DType::bf16, {5, 4, 66}, 0x1p-6);
        a.key_cache = c.compared("key_cache", c.random(DType::f16, {4, 2, 3, 66}), 0x1p-6);
        a.value_cache = c.compared("value_cache", c.random(DType::f16, {4, 2, 3, 40}), 0.0);
        a.slots = c.values(DType::i64, {11, 0, -1, 12, 7});
        a.positions = c.values(DType::i32, {0, 6, 3, 100, 2});
        a.cos = c.random(DType::f32, {7, 20});
        a.sin = c.random(DType::f32, {7, 20});
        a.status = c.compared("status", c.values(DType::i32, {0, 0, 0, 0, 0}), 0.0);
        a.rotary_dim = 40;
        a.gamma_offset = 1.0f;
        return a;
      });
    },
};

}  // namespace ops

}  // namespace monotile
