// Softmax, portable tier: which layout a row gets, and the launch.

#include "monotile/kernels/softmax/params.hpp"
#include "ops/row_tiles.hpp"
#include "ops/softmax/softmax.hpp"

namespace monotile::ops {
namespace {

constexpr size_t kOwnScratch = 1024;  ///< kept for what the language itself puts there

struct Tile : RowTile {
  size_t scratch_bytes = 0;  ///< where the row is staged
};

/// Rows too long for registers are staged in scratch; those too long for that are read again by large programs, with all they can in flight.
Tile tile_of(const SoftmaxArgs& a, const DeviceInfo& device) {
  const int64_t cols = a.x.dim(1);
  const bool exact = whole_vectors(a.x) && whole_vectors(a.y);
  Tile tile{pick_row_tile(cols, exact, device)};
  if (tile.layout % kExact != kStream || device.device.kind == DeviceKind::cpu) return tile;
  const int64_t chunk = tile.threads * row_layout<kStream>::elements;
  const size_t staged = static_cast<size_t>((cols + chunk - 1) / chunk * chunk * dtype_info(a.x.dtype).block_bytes);
  if (staged + kOwnScratch <= device.shared_bytes) {
    tile.scratch_bytes = staged;
  } else {
    tile.layout = (exact && !compiles_on_use(device) ? kExact : 0) + kWide;
    tile.threads = compiles_on_use(device) ? few_threads(device) : 1024;
  }
  return tile;
}

auto kernel_of(const SoftmaxArgs& a, const DeviceInfo& device) {
  const Tile tile = tile_of(a, device);
  return find_kernel(tile.scratch_bytes != 0 ? "softmax_staged" : "softmax", target_of(device),
                     variant_of(a.x.dtype, a.y.dtype, tile.layout));
}

const char* supports(const SoftmaxArgs& a, const DeviceInfo& device) {
  if (a.mask.defined()) return "no mask";
  return kernel_of(a, device) == nullptr ? "not built for this target" : nullptr;
}

double cost(const SoftmaxArgs&, const DeviceInfo&) { return 1.0; }

void make_plan(const SoftmaxArgs& a, const DeviceInfo& device, Plan<SoftmaxArgs>& plan) {
  const Tile tile = tile_of(a, device);
  plan.kernel = reinterpret_cast<const void*>(kernel_of(a, device));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program,
                 static_cast<int64_t>(tile.scratch_bytes)};
}

template <class Y, class X>
void launch(const Plan<SoftmaxArgs>& plan, Stream& stream, const SoftmaxArgs& a) {
  using Params = kernels::SoftmaxParams<Y, X>;
  Params p{};
  p.y = row_view<Y>(a.y);
  p.x = row_view<const X>(a.x);
  p.rows = a.x.dim(0);
  p.cols = a.x.dim(1);
  p.scale = a.scale;
  p.log = a.log;
  p.mask = any_rows_view(a.mask);
  if (a.mask.defined() && a.mask.dim(0) == 1) p.mask.outer_stride = 0;
  const RowTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                     static_cast<int>(plan.config[2])};
  const Grid grid{programs_for(tile, p.rows), tile.threads, static_cast<size_t>(plan.config[3]),
                  cpu_grain(p.cols * static_cast<int64_t>(sizeof(Y)))};
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

void run(const Plan<SoftmaxArgs>& plan, Stream& stream, const SoftmaxArgs& a, void*) {
  if (a.x.size() == 0) return;
  const bool wide = a.y.dtype == DType::f32;
  switch (a.x.dtype) {
    case DType::f32: return launch<float, float>(plan, stream, a);
    case DType::f16: return wide ? launch<float, half_t>(plan, stream, a) : launch<half_t, half_t>(plan, stream, a);
    default: return wide ? launch<float, bfloat16_t>(plan, stream, a) : launch<bfloat16_t, bfloat16_t>(plan, stream, a);
  }
}

/// With a mask, the row is kept as fp32: what fits in half as many registers, or is computed again.
RowTile masked_tile(const SoftmaxArgs& a, const DeviceInfo& device) {
  if (device.device.kind == DeviceKind::cpu) return {0, 1, 1};
  const int64_t cols = a.x.dim(1), vectors = (cols + 7) / 8, wave = device.wave;
  if (vectors <= 32) return {kRows32, 128, 4};
  if (compiles_on_use(device)) return {kStream, few_threads(device), 1};
  if (vectors <= 1024) return {kBlock2, static_cast<int>(((vectors + 1) / 2 + wave - 1) / wave * wave), 1};
  return {kStream, 512, 1};
}

const char* supports_masked(const SoftmaxArgs& a, const DeviceInfo& device) {
  if (!a.mask.defined()) return "needs a mask";
  return find_kernel("masked_softmax", target_of(device),
                     variant_of(a.x.dtype, a.y.dtype, masked_tile(a, device).layout)) == nullptr
             ? "not built for this target"
             : nullptr;
}

void plan_masked(const SoftmaxArgs& a, const DeviceInfo& device, Plan<SoftmaxArgs>& plan) {
  const RowTile tile = masked_tile(a, device);
  plan.kernel = reinterpret_cast<const void*>(
      find_kernel("masked_softmax", target_of(device), variant_of(a.x.dtype, a.y.dtype, tile.layout)));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program};
}

}  // namespace

const Implementation<SoftmaxArgs> softmax_masked{
    "portable_masked", Tier::portable, supports_masked, cost, plan_masked, run};
const Implementation<SoftmaxArgs> softmax_portable{"portable", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
