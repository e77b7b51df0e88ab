// Softmax, portable tier: which layout a row gets, and the launch.

#include "monotile/kernels/softmax/params.hpp"
#include "ops/row_tiles.hpp"
#include "ops/softmax/softmax.hpp"

namespace monotile::ops {
namespace {

constexpr size_t kOwnScratch = 1024;  ///< kept for what the language itself puts there

/// Rows too long for a program are cut into chunks: two launches, the second of which finds the elements in the cache still if the rows of one slice
/// are no more than this.
constexpr int kChunkThreads = 256;
constexpr int64_t kChunk = kChunkThreads * row_layout<kBlock2>::elements, kSliceBytes = int64_t{24} << 20;

struct Tile : RowTile {
  size_t scratch_bytes = 0;  ///< where the row is staged
  int64_t chunks = 0;        ///< where it is cut
  bool team = false;         ///< the chunks are a team's
};

auto team_kernel(const SoftmaxArgs& a, const DeviceInfo& device) {
  return find_kernel("softmax_team", target_of(device), variant_of(a.x.dtype, a.y.dtype, 0));
}

/// Rows too long for registers are staged in scratch, as long as two programs have room there; longer ones are cut.
Tile tile_of(const SoftmaxArgs& a, const DeviceInfo& device) {
  const int64_t cols = a.x.dim(1);
  const bool exact = whole_vectors(a.x) && whole_vectors(a.y);
  Tile tile{pick_row_tile(cols, exact, device, RowPolicy::quads)};
  if (tile.layout % kExact != kStream || device.device.kind == DeviceKind::cpu) return tile;
  // Where programs can form teams, rows of 16-bit types stay on chip: one launch, which reads every element once.
  const TeamTile team = pick_team_tile(cols, tile, device);
  if (team.chunks != 0 && team_kernel(a, device) != nullptr) {
    tile.layout = 0;
    tile.team = true;
    tile.chunks = team.chunks;
    tile.threads = team.threads;
    return tile;
  }
  const int64_t chunk = tile.threads * row_layout<kStream>::elements;
  const size_t staged = static_cast<size_t>((cols + chunk - 1) / chunk * chunk * dtype_info(a.x.dtype).block_bytes);
  if (compiles_on_use(device)) {
    if (staged + kOwnScratch <= device.shared_bytes) {
      tile.scratch_bytes = staged;
    } else {
      tile.layout = kWide;
      tile.threads = few_threads(device);
    }
  } else if (2 * (staged + kOwnScratch) <= device.shared_bytes) {
    tile.scratch_bytes = staged;
  } else {
    tile.layout = (exact ? kExact : 0) + kBlock2;
    tile.threads = kChunkThreads;
    tile.chunks = ceil_div(cols, kChunk);
  }
  return tile;
}

int64_t slice_rows(const SoftmaxArgs& a) {
  const int64_t row_bytes = a.x.dim(1) * dtype_info(a.x.dtype).block_bytes;
  return std::min(a.x.dim(0), std::max<int64_t>(1, kSliceBytes / row_bytes));
}

auto kernel_of(const SoftmaxArgs& a, const DeviceInfo& device) {
  const Tile tile = tile_of(a, device);
  if (tile.team) return team_kernel(a, device);
  return find_kernel(tile.chunks != 0          ? "softmax_rest"
                     : tile.scratch_bytes != 0 ? "softmax_staged"
                                               : "softmax",
                     target_of(device), variant_of(a.x.dtype, a.y.dtype, tile.layout));
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
                 static_cast<int64_t>(tile.scratch_bytes), tile.chunks};
  if (tile.chunks == 0 || tile.team) return;
  plan.config[5] = reinterpret_cast<int64_t>(
      find_kernel("softmax_chunk", target_of(device), variant_of(a.x.dtype, a.y.dtype, tile.layout)));
  plan.workspace_bytes = static_cast<size_t>(slice_rows(a) * tile.chunks) * 2 * sizeof(float);
}

template <class Params>
void launch_long(const Plan<SoftmaxArgs>& plan, Stream& stream, const SoftmaxArgs& a, Params p, void* workspace) {
  const int64_t slice = slice_rows(a), rows = p.rows;
  p.chunks = plan.config[4];
  if (plan.config[5] == 0) {  // a team for each row
    const Grid grid{rows * p.chunks, static_cast<int>(plan.config[1]), kTeamScratch, 1};
    return reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
  }
  p.largest = static_cast<float*>(workspace);
  p.sums = p.largest + slice * p.chunks;
  for (int64_t first = 0; first < rows; first += slice) {
    p.rows = std::min(slice, rows - first);
    const Grid grid{p.rows * p.chunks, kChunkThreads, 0, 1};
    reinterpret_cast<KernelFn<Params>>(plan.config[5])(stream, grid, p);
    reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
    p.x.data += slice * p.x.outer_stride;
    p.y.data += slice * p.y.outer_stride;
  }
}

template <class Y, class X>
void launch(const Plan<SoftmaxArgs>& plan, Stream& stream, const SoftmaxArgs& a, void* workspace) {
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
  if (plan.config[4] != 0) return launch_long(plan, stream, a, p, workspace);
  const RowTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                     static_cast<int>(plan.config[2])};
  const Grid grid{programs_for(tile, p.rows), tile.threads, static_cast<size_t>(plan.config[3]),
                  cpu_grain(p.cols * static_cast<int64_t>(sizeof(Y)))};
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

void run(const Plan<SoftmaxArgs>& plan, Stream& stream, const SoftmaxArgs& a, void* workspace) {
  if (a.x.size() == 0) return;
  const bool wide = a.y.dtype == DType::f32;
  switch (a.x.dtype) {
    case DType::f32: return launch<float, float>(plan, stream, a, workspace);
    case DType::f16:
      return wide ? launch<float, half_t>(plan, stream, a, workspace)
                  : launch<half_t, half_t>(plan, stream, a, workspace);
    default:
      return wide ? launch<float, bfloat16_t>(plan, stream, a, workspace)
                  : launch<bfloat16_t, bfloat16_t>(plan, stream, a, workspace);
  }
}

/// With a mask, the row is kept as fp32: what fits in half as many registers, or is computed again.
RowTile masked_tile(const SoftmaxArgs& a, const DeviceInfo& device) {
  if (device.device.kind == DeviceKind::cpu) return {0, 1, 1};
  const int64_t cols = a.x.dim(1), vectors = (cols + 7) / 8, wave = device.wave;
  if (vectors <= 32) return {kRows32, lanes_on(device, 128), lanes_on(device, 128) / 32};
  if (compiles_on_use(device)) return {kStream, device.wave, 1};
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
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program, 0, 0};
}

}  // namespace

const Implementation<SoftmaxArgs> softmax_masked{
    "portable_masked", Tier::portable, supports_masked, cost, plan_masked, run};
const Implementation<SoftmaxArgs> softmax_portable{"portable", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
