// Embedding lookup, portable tier: how rows are cut into programs, and the launch.

#include "monotile/kernels/embedding/params.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/row_tiles.hpp"

namespace monotile::ops {
namespace {

constexpr const char* kKernel = "embedding";

/// Layouts kBlock1, kExact + kBlock1 and kExact + kBlock2: rows of all types, and rows of whole aligned vectors of one type.
ChunkTile tile_of(const EmbeddingArgs& a, const DeviceInfo& device) {
  const int64_t tokens = a.y.dim(0), cols = a.y.dim(1), vectors = (cols + 7) / 8;
  const bool exact = a.table.dtype == a.y.dtype && whole_vectors(a.y) && whole_vectors(a.table);
  if (device.device.kind == DeviceKind::cpu || vectors <= 16) return {kBlock1, device.wave, 1, 1};
  return pick_chunk_tile(tokens, cols, exact, device, 2);
}

auto kernel_of(const EmbeddingArgs& a, const DeviceInfo& device) {
  return find_kernel(kKernel, target_of(device), variant_of(a.table.dtype, a.y.dtype, tile_of(a, device).layout));
}

/// Elements that are not changed are rows by index, which a CPU copies without looking at them.
bool copies(const EmbeddingArgs& a, const DeviceInfo& device) {
  return device.device.kind == DeviceKind::cpu && a.scale == 1.0f && a.table.dtype == a.y.dtype;
}
GatherRowsArgs as_copy(const EmbeddingArgs& a) { return {a.y, a.table, a.ids, a.status}; }
constexpr size_t kCopies = 7;  ///< in the plan's config, beside what copies keep there

const char* supports(const EmbeddingArgs& a, const DeviceInfo& device) {
  if (copies(a, device)) return gather_rows_portable.supports(as_copy(a), device);
  return kernel_of(a, device) == nullptr ? "not built for this target" : nullptr;
}

double cost(const EmbeddingArgs&, const DeviceInfo&) { return 1.0; }

void make_plan(const EmbeddingArgs& a, const DeviceInfo& device, Plan<EmbeddingArgs>& plan) {
  if (copies(a, device)) {
    Plan<GatherRowsArgs> copy;
    gather_rows_portable.plan(as_copy(a), device, copy);
    plan.kernel = copy.kernel;
    plan.config = copy.config;
    plan.config[kCopies] = 1;
    return;
  }
  plan.kernel = reinterpret_cast<const void*>(kernel_of(a, device));
  const ChunkTile tile = tile_of(a, device);
  plan.config = {tile.threads, tile.chunks};
}

template <class T>
void set_table(lang::view<const T>& view, const TensorView& table) {
  view = row_view<const T>(table);
}
template <DType Q>
void set_table(lang::quant_view<Q>& view, const TensorView& table) {
  view = {table.as<const uint8_t>(), table.step(0) / dtype_info(Q).block_elements * dtype_info(Q).block_bytes,
          table.dim(1)};
}

template <class Y, class Table>
void launch(const Plan<EmbeddingArgs>& plan, Stream& stream, const EmbeddingArgs& a) {
  using Params = kernels::EmbeddingParams<Y, Table>;
  Params p{};
  p.y = row_view<Y>(a.y);
  set_table(p.table, a.table);
  p.ids = index_vector(a.ids);
  p.status = a.status.as<int32_t>();
  p.tokens = a.ids.dim(0);
  p.vocabulary = a.table.dim(0);
  p.cols = a.y.dim(1);
  p.chunks = plan.config[1];
  p.scale = a.scale;
  const Grid grid{p.tokens * p.chunks, static_cast<int>(plan.config[0]), 0,
                  cpu_grain(p.cols * static_cast<int64_t>(sizeof(Y)))};
  reinterpret_cast<KernelFn<Params>>(const_cast<void*>(plan.kernel))(stream, grid, p);
}

template <class Table>
void launch_table(const Plan<EmbeddingArgs>& plan, Stream& stream, const EmbeddingArgs& a) {
  switch (a.y.dtype) {
    case DType::f32: return launch<float, Table>(plan, stream, a);
    case DType::f16: return launch<half_t, Table>(plan, stream, a);
    default: return launch<bfloat16_t, Table>(plan, stream, a);
  }
}

void run(const Plan<EmbeddingArgs>& plan, Stream& stream, const EmbeddingArgs& a, void*) {
  if (a.y.size() == 0) return;
  if (plan.config[kCopies] != 0) {
    Plan<GatherRowsArgs> copy;
    copy.device = plan.device;
    copy.kernel = plan.kernel;
    copy.config = plan.config;
    return gather_rows_portable.run(copy, stream, as_copy(a), nullptr);
  }
  switch (a.table.dtype) {
    case DType::f32: return launch_table<lang::view<const float>>(plan, stream, a);
    case DType::f16: return launch_table<lang::view<const half_t>>(plan, stream, a);
    case DType::bf16: return launch_table<lang::view<const bfloat16_t>>(plan, stream, a);
    case DType::q4_0: return launch_table<lang::quant_view<DType::q4_0>>(plan, stream, a);
    case DType::q5_0: return launch_table<lang::quant_view<DType::q5_0>>(plan, stream, a);
    case DType::q8_0: return launch_table<lang::quant_view<DType::q8_0>>(plan, stream, a);
    case DType::q4_k: return launch_table<lang::quant_view<DType::q4_k>>(plan, stream, a);
    default: return launch_table<lang::quant_view<DType::q6_k>>(plan, stream, a);
  }
}

}  // namespace

const Implementation<EmbeddingArgs> embedding_portable{"portable", Tier::portable, supports, cost, make_plan, run};

}  // namespace monotile::ops
