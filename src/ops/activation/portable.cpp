// Gated activations, portable tier: how rows are cut into programs, and the launch.

#include "monotile/kernels/activation/params.hpp"
#include "ops/activation/activation.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {
namespace {

constexpr const char* kKernel = "gated_activation";

/// Packed matrices are taken as one row, so that programs are full whatever the number of columns is.
bool as_one_row(const GatedActivationArgs& a, const DeviceInfo& device) {
  return device.device.kind != DeviceKind::cpu && packed_rows(a.y) && packed_rows(a.gate) && packed_rows(a.up);
}

ChunkTile tile_of(const GatedActivationArgs& a, const DeviceInfo& device) {
  if (as_one_row(a, device)) {
    const bool exact =
        a.y.size() % 8 == 0 && vector_aligned(a.y.data) && vector_aligned(a.gate.data) && vector_aligned(a.up.data);
    ChunkTile tile = pick_chunk_tile(1, a.y.size(), exact, device);
    // Few enough for all to run at once: smaller programs spread more evenly (H200, 2026-11-30, 64 x 14336 fp16, us with 64, 128, 192 and 256 lanes:
    // 3.52, 3.23, 3.12, 3.27).
    constexpr int kFewLanes = 192;
    const int64_t vectors = ceil_div(a.y.size(), 8);
    if (tile.threads > kFewLanes && vectors <= int64_t{device.units} * 1024 && !compiles_on_use(device)) {
      tile.threads = kFewLanes;
      tile.chunks = ceil_div(vectors, kFewLanes);
    }
    return tile;
  }
  return pick_chunk_tile(a.y.dim(0), a.y.dim(1), whole_vectors(a.y) && whole_vectors(a.gate) && whole_vectors(a.up),
                         device);
}

const char* supports(const GatedActivationArgs& a, const DeviceInfo& device) {
  if (find_kernel(kKernel, target_of(device), variant_of(a.y.dtype, tile_of(a, device).layout)) == nullptr)
    return "not built for this target";
  return nullptr;
}

double cost(const GatedActivationArgs&, const DeviceInfo&) { return 1.0; }

void make_plan(const GatedActivationArgs& a, const DeviceInfo& device, Plan<GatedActivationArgs>& plan) {
  const ChunkTile tile = tile_of(a, device);
  plan.kernel =
      reinterpret_cast<const void*>(find_kernel(kKernel, target_of(device), variant_of(a.y.dtype, tile.layout)));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program, tile.chunks,
                 as_one_row(a, device)};
}

constexpr kernels::GateFunction function_of(Activation activation) {
  switch (activation) {
    case Activation::gelu_tanh: return kernels::GateFunction::gelu_tanh;
    case Activation::gelu_erf: return kernels::GateFunction::gelu_erf;
    case Activation::relu2: return kernels::GateFunction::relu2;
    case Activation::identity: return kernels::GateFunction::identity;
    default: return kernels::GateFunction::silu;
  }
}

template <class X>
void launch(const Plan<GatedActivationArgs>& plan, Stream& stream, const GatedActivationArgs& a) {
  using Params = kernels::GatedActivationParams<X>;
  Params p{};
  p.y = row_view<X>(a.y);
  p.gate = row_view<X>(a.gate);
  p.up = row_view<X>(a.up);
  p.rows = a.y.dim(0);
  p.cols = a.y.dim(1);
  if (plan.config[4] != 0) {
    p.rows = 1;
    p.cols = a.y.size();
    for (lang::view<X>* view : {&p.y, &p.gate, &p.up}) {
      view->cols = p.cols;
      view->vectors = vector_aligned(view->data);
    }
  }
  p.chunks = plan.config[3];
  p.function = function_of(a.activation);
  const ChunkTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                       static_cast<int>(plan.config[2]), plan.config[3]};
  const Grid grid{tile.programs(p.rows), tile.threads, 0, cpu_grain(p.cols * static_cast<int64_t>(sizeof(X)))};
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

void run(const Plan<GatedActivationArgs>& plan, Stream& stream, const GatedActivationArgs& a, void*) {
  if (a.y.size() == 0) return;
  switch (a.y.dtype) {
    case DType::f32: return launch<float>(plan, stream, a);
    case DType::f16: return launch<half_t>(plan, stream, a);
    default: return launch<bfloat16_t>(plan, stream, a);
  }
}

}  // namespace

const Implementation<GatedActivationArgs> gated_activation_portable{"portable", Tier::portable, supports,
                                                                    cost,       make_plan,      run};

}  // namespace monotile::ops
