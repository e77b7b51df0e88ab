// Argmax and sampling, portable tier: which layout a row gets, and the launches.

#include "monotile/kernels/sampling/params.hpp"
#include "ops/row_tiles.hpp"
#include "ops/sampling/row_scan.hpp"
#include "ops/sampling/sampling.hpp"

namespace monotile::ops {
namespace {

/// Sampling holds more in registers.
template <class Args>
RowTile tile_of(const Args& a, const DeviceInfo& device) {
  return pick_block_tile(a.logits.dim(1), device, std::is_same_v<Args, ArgmaxArgs> ? 1024 : 512);
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
  size_t scratch = 0;
  if constexpr (std::is_same_v<Args, SampleArgs>) {
    p.list_bytes = threads > 1 ? lang::gather_bytes(threads) : 0;
    scratch = p.list_bytes;
  }
  const Grid grid{p.rows, threads, scratch, cpu_grain(p.cols * 4)};
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

/// Bytes of scratch for the list of a row's candidates.
uint64_t list_bytes(int64_t cols, int threads) {
  return threads <= 1 ? 0 : cols > RowScan::kChunk ? RowScan::kListBytes : lang::gather_bytes(threads);
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

// ---- Top-k ----

RowScan scan_of(const TopKArgs& a, const DeviceInfo& device) {
  return pick_row_scan(a.logits.dim(0), a.logits.dim(1), a.ids.dim(1), device);
}

void plan_top_k(const TopKArgs& a, const DeviceInfo& device, Plan<TopKArgs>& plan) {
  const RowScan scan = scan_of(a, device);
  plan.kernel = reinterpret_cast<const void*>(kernel_of(a, device));
  plan.config = {
      tile_of(a, device).threads, scan.chunks, scan.capacity_log2, scan.slice,
      reinterpret_cast<int64_t>(find_kernel("row_scan", target_of(device), variant_of(a.logits.dtype, kBlock4)))};
  plan.workspace_bytes = scan.workspace_bytes();
}

template <class X>
void launch_top_k(const Plan<TopKArgs>& plan, Stream& stream, const TopKArgs& a, void* workspace) {
  const RowScan scan{plan.config[1], plan.config[2], plan.config[3]};
  const int threads = static_cast<int>(plan.config[0]);
  const int64_t rows = a.logits.dim(0);
  kernels::TopKParams<X> p{};
  p.cols = a.logits.dim(1);
  p.k = static_cast<int32_t>(a.ids.dim(1));
  p.list_bytes = list_bytes(p.cols, threads);
  p.facts = scan.facts(workspace);
  const size_t scratch = p.list_bytes + static_cast<size_t>(p.k) * 8;
  const int64_t slice = scan.chunks == 0 ? rows : scan.slice;
  for (int64_t first = 0; first < rows; first += slice) {
    p.rows = std::min(slice, rows - first);
    p.logits = row_view<const X>(a.logits);
    p.logits.data += first * p.logits.outer_stride;
    p.values = a.values.as<float>() + first * p.k;
    p.ids = a.ids.as<int32_t>() + first * p.k;
    p.status = a.status.defined() ? a.status.as<int32_t>() + first : nullptr;
    if (scan.chunks != 0) {
      const kernels::ScanParams<X> s{p.logits, p.facts, p.rows, p.cols, p.k};
      reinterpret_cast<KernelFn<kernels::ScanParams<X>>>(plan.config[4])(
          stream, Grid{p.rows * scan.chunks, RowScan::kThreads, 0, 1}, s);
    }
    reinterpret_cast<KernelFn<kernels::TopKParams<X>>>(const_cast<void*>(plan.kernel))(
        stream, Grid{p.rows, threads, scratch, cpu_grain(p.cols * 4)}, p);
  }
}

void run_top_k(const Plan<TopKArgs>& plan, Stream& stream, const TopKArgs& a, void* workspace) {
  if (a.ids.size() == 0) return;
  switch (a.logits.dtype) {
    case DType::f32: return launch_top_k<float>(plan, stream, a, workspace);
    case DType::f16: return launch_top_k<half_t>(plan, stream, a, workspace);
    default: return launch_top_k<bfloat16_t>(plan, stream, a, workspace);
  }
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
const Implementation<TopKArgs> top_k_portable = {"portable",     Tier::portable, supports<TopKArgs>,
                                                 cost<TopKArgs>, plan_top_k,     run_top_k};

}  // namespace monotile::ops
