// Argmax and sampling, portable tier: which layout a row gets, and the launches.

#include "monotile/kernels/sampling/params.hpp"
#include "ops/row_tiles.hpp"
#include "ops/sampling/sampling.hpp"

namespace monotile::ops {
namespace {

/// Sampling holds more in registers.
template <class Args>
RowTile tile_of(const Args& a, const DeviceInfo& device) {
  return pick_block_tile(a.logits.dim(1), device, std::is_same_v<Args, SampleArgs> ? 512 : 1024);
}

template <class Args>
auto kernel_of(const Args& a, const DeviceInfo& device) {
  return find_kernel(Args::op_name, target_of(device), variant_of(a.logits.dtype, tile_of(a, device).layout));
}

template <class Args>
const char* supports(const Args& a, const DeviceInfo& device) {
  if (a.logits.dim(1) > int64_t{1} << 24) return "more than 2^24 columns";  // tokens are counted in fp32
  return kernel_of(a, device) == nullptr ? "not built for this target" : nullptr;
}

template <class Args>
double cost(const Args&, const DeviceInfo&) {
  return 1.0;
}

template <class Args>
void make_plan(const Args& a, const DeviceInfo& device, Plan<Args>& plan) {
  plan.kernel = reinterpret_cast<const void*>(kernel_of(a, device));
  plan.config = {tile_of(a, device).threads};
}

template <class Params, class Args>
void launch_rows(const Plan<Args>& plan, Stream& stream, const Args& a, Params& p) {
  p.logits = row_view<typename decltype(p.logits)::element>(a.logits);
  p.ids = a.ids.template as<int32_t>();
  p.status = a.status.template as<int32_t>();
  p.rows = a.logits.dim(0);
  p.cols = a.logits.dim(1);
  const int threads = static_cast<int>(plan.config[0]);
  const Grid grid{p.rows, threads, std::is_same_v<Args, SampleArgs> && threads > 1 ? lang::gather_bytes(threads) : 0,
                  cpu_grain(p.cols * 4)};
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

template <class X>
void launch(const Plan<ArgmaxArgs>& plan, Stream& stream, const ArgmaxArgs& a) {
  kernels::ArgmaxParams<X> p{};
  launch_rows(plan, stream, a, p);
}

template <class X>
void launch(const Plan<SampleArgs>& plan, Stream& stream, const SampleArgs& a) {
  kernels::SampleParams<X> p{};
  p.temperature = a.temperature.as<const float>();
  p.top_p = a.top_p.as<const float>();
  p.min_p = a.min_p.as<const float>();
  p.top_k = a.top_k.as<const int32_t>();
  p.seeds = a.seeds.as<const int64_t>();
  p.positions = a.positions.as<const int64_t>();
  launch_rows(plan, stream, a, p);
}

template <class Args>
void run(const Plan<Args>& plan, Stream& stream, const Args& a, void*) {
  if (a.ids.size() == 0) return;
  switch (a.logits.dtype) {
    case DType::f32: return launch<float>(plan, stream, a);
    case DType::f16: return launch<half_t>(plan, stream, a);
    default: return launch<bfloat16_t>(plan, stream, a);
  }
}

template <class Args>
constexpr Implementation<Args> portable{"portable", Tier::portable,  supports<Args>,
                                        cost<Args>, make_plan<Args>, run<Args>};

}  // namespace

const Implementation<ArgmaxArgs> argmax_portable = portable<ArgmaxArgs>;
const Implementation<SampleArgs> sample_portable = portable<SampleArgs>;

}  // namespace monotile::ops
