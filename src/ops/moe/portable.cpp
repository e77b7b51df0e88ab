// Mixture of experts, portable tier: which layout a row gets, and the launches.

#include "monotile/kernels/moe/params.hpp"
#include "ops/moe/moe.hpp"
#include "ops/moe/variants.hpp"

namespace monotile::ops {
namespace {

// ---- Router ----

auto router_kernel(const RouterArgs& a, const DeviceInfo& device) {
  return find_kernel(RouterArgs::op_name, target_of(device),
                     variant_of(a.logits.dtype, pick_router_tile(a.logits.dim(1), device).layout));
}

template <class X>
void launch_router(const Plan<RouterArgs>& plan, Stream& stream, const RouterArgs& a) {
  kernels::RouterParams<X> p{};
  p.logits = row_view<const X>(a.logits);
  if (a.bias.defined()) p.bias = column_vector(a.bias);
  p.weights = row_view<float>(a.weights);
  p.experts = a.experts.as<int32_t>();
  p.status = a.status.as<int32_t>();
  p.rows = a.logits.dim(0);
  p.num_experts = a.logits.dim(1);
  p.top_k = static_cast<int32_t>(a.experts.dim(1));
  p.groups = a.groups;
  p.kept_groups = a.kept_groups;
  p.group_sum = p.num_experts == a.groups ? 1 : a.group_sum;  // a group of one has no second
  p.scale = a.scale;
  p.sigmoid = a.score == RouterScore::sigmoid;
  p.renormalise = a.renormalise;
  p.by_score = a.bias.defined() || (a.groups > 1 && a.group_sum > 1);
  const int64_t per_program = plan.config[1];
  const Grid grid{(p.rows + per_program - 1) / per_program, static_cast<int>(plan.config[0]), 0,
                  cpu_grain(p.num_experts * 4)};
  reinterpret_cast<KernelFn<kernels::RouterParams<X>>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

const char* router_supports(const RouterArgs& a, const DeviceInfo& device) {
  return router_kernel(a, device) == nullptr ? "not built for this target" : nullptr;
}

void plan_router(const RouterArgs& a, const DeviceInfo& device, Plan<RouterArgs>& plan) {
  const RowTile tile = pick_router_tile(a.logits.dim(1), device);
  plan.kernel = reinterpret_cast<const void*>(router_kernel(a, device));
  plan.config = {tile.threads, tile.rows_per_program};
}

void run_router(const Plan<RouterArgs>& plan, Stream& stream, const RouterArgs& a, void*) {
  if (a.experts.size() == 0) return;
  switch (a.logits.dtype) {
    case DType::f32: return launch_router<float>(plan, stream, a);
    case DType::f16: return launch_router<half_t>(plan, stream, a);
    default: return launch_router<bfloat16_t>(plan, stream, a);
  }
}

template <class Args>
double cost(const Args&, const DeviceInfo&) {
  return 1.0;
}

}  // namespace

const Implementation<RouterArgs> router_portable = {"portable",       Tier::portable, router_supports,
                                                    cost<RouterArgs>, plan_router,    run_router};

}  // namespace monotile::ops
