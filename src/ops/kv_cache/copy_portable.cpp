// Block copies and gathers, portable tier.

#include "ops/kv_cache/copy_rows.hpp"
#include "ops/kv_cache/kv_cache.hpp"
#include "ops/rope/head_parts.hpp"

namespace monotile::ops {
namespace {

// --- copy_blocks -------------------------------------------------------------------------------------------------------------------
copy_rows::Pair pair_of(const TensorView& cache) {
  if (!cache.defined()) return {};
  const copy_rows::Side side{cache, {cache.step(0), cache.step(1), cache.step(2)}};
  return {side, side, cache.dim(3)};
}

/// The rows of an item, as long as they can be, and the kernel for them.
struct Copies {
  copy_rows::Pair pairs[2];
  uint32_t a, b;
  copy_rows::Choice choice;

  Copies(const CopyBlocksArgs& args, const DeviceInfo& device)
      : pairs{pair_of(args.key_cache), pair_of(args.value_cache)},
        a(static_cast<uint32_t>(args.key_cache.dim(1))),
        b(static_cast<uint32_t>(args.key_cache.dim(2))) {
    copy_rows::fold(pairs, a, b);
    choice = copy_rows::choose(pairs, device);
  }
};

const char* supports_copy(const CopyBlocksArgs& a, const DeviceInfo& device) {
  if (a.pairs.dim(0) * a.key_cache.dim(1) * a.key_cache.dim(2) > INT32_MAX) return "more than 2^31 - 1 rows";
  return copy_rows::kernel_of(Copies(a, device).choice, device) == nullptr ? "not built for this target" : nullptr;
}

template <class Args>
double cost(const Args&, const DeviceInfo&) {
  return 1.0;
}

void plan_copy(const CopyBlocksArgs& a, const DeviceInfo& device, Plan<CopyBlocksArgs>& plan) {
  const Copies copies(a, device);
  plan.config = copies.choice.packed();
  plan.kernel = copy_rows::kernel_of(copies.choice, device);
}

template <class T>
void launch_copy(const Plan<CopyBlocksArgs>& plan, Stream& stream, const CopyBlocksArgs& a) {
  kernels::CopyRowsParams<T> p{};
  const bool wide = a.pairs.dtype == DType::i64;
  p.from_index = {a.pairs.data, wide};
  p.to_index = {a.pairs.as<unsigned char>() + (wide ? 8 : 4), wide};
  p.index_step = 2;
  p.items = a.pairs.dim(0);
  const Copies copies(a, *plan.device);
  p.a = copies.a;
  p.b = copies.b;
  p.from_count = p.to_count = a.key_cache.dim(0);
  p.status = a.status.as<int32_t>();
  copy_rows::launch<T>(plan.kernel, stream, p, copies.pairs, copy_rows::Choice::unpacked(plan.config));
}

void run_copy(const Plan<CopyBlocksArgs>& plan, Stream& stream, const CopyBlocksArgs& a, void*) {
  if (a.pairs.dim(0) == 0) return;
  plan.config[0] != 0 ? launch_copy<float>(plan, stream, a) : launch_copy<uint8_t>(plan, stream, a);
}

// --- kv_gather ---------------------------------------------------------------------------------------------------------------------
/// Heads of whole aligned vectors take a quarter of the lanes, of four vectors each.
RowTile gather_tile(const KvGatherArgs& a, const DeviceInfo& device) {
  RowTile tile = heads::tile_of(std::max(a.k_out.dim(2), a.v_out.dim(2)), device);
  const bool exact = whole_vectors(a.k_out) && whole_vectors(a.v_out) && heads::cache_vectors(a.key_cache) &&
                     heads::cache_vectors(a.value_cache);
  if (device.device.kind == DeviceKind::cpu || compiles_on_use(device) || !exact) return tile;
  return {kExactHeads + tile.layout, tile.threads, 4 * tile.rows_per_program};
}

const char* supports_gather(const KvGatherArgs& a, const DeviceInfo& device) {
  if (a.slots.dim(0) * a.k_out.dim(1) > INT32_MAX) return "more than 2^31 - 1 heads of all tokens";
  if (heads::slots_of(a.key_cache) > UINT32_MAX) return heads::kTooManySlots;
  return find_kernel("kv_gather", target_of(device), gather_tile(a, device).layout) == nullptr
             ? "not built for this target"
             : nullptr;
}

void plan_gather(const KvGatherArgs& a, const DeviceInfo& device, Plan<KvGatherArgs>& plan) {
  const RowTile tile = gather_tile(a, device);
  plan.kernel = reinterpret_cast<const void*>(find_kernel("kv_gather", target_of(device), tile.layout));
  plan.config = {static_cast<int64_t>(tile.layout), tile.threads, tile.rows_per_program};
}

kernels::KvGatherPart part_of(const TensorView& y, const TensorView& cache, const TensorView& scale) {
  kernels::HeadPart<float> to{};  // the same description of a cache
  heads::add_cache(to, cache, scale);
  kernels::KvGatherPart part{};
  part.y = any_rows_view(y);
  part.cache = to.cache;
  part.page_stride = to.page_stride;
  part.head_stride = to.head_stride;
  part.token_stride = to.token_stride;
  part.scales = {to.scales.data, 1, 0, 1, 1, false};
  part.scale_page_stride = to.scale_page_stride;
  part.scale_head_stride = to.scale_head_stride;
  part.scale_token_stride = to.scale_token_stride;
  part.cols = y.dim(2);
  return part;
}

void run_gather(const Plan<KvGatherArgs>& plan, Stream& stream, const KvGatherArgs& a, void*) {
  if (a.slots.dim(0) * a.k_out.dim(1) == 0) return;
  kernels::KvGatherParams p{};
  p.part[0] = part_of(a.k_out, a.key_cache, a.key_scale);
  p.part[1] = part_of(a.v_out, a.value_cache, a.value_scale);
  p.rows = a.slots.dim(0) * a.k_out.dim(1);
  p.heads = lang::divisor_of(static_cast<uint32_t>(a.k_out.dim(1)));
  p.slots = heads::slot_table(a.slots, a.status, a.key_cache);
  p.codes = is_code(a.key_cache.dtype);
  const RowTile tile{static_cast<uint32_t>(plan.config[0]), static_cast<int>(plan.config[1]),
                     static_cast<int>(plan.config[2])};
  reinterpret_cast<KernelFn<kernels::KvGatherParams>>(const_cast<void*>(plan.kernel))(
      stream, Grid{programs_for(tile, p.rows), tile.threads, 0, cpu_grain((a.k_out.dim(2) + a.v_out.dim(2)) * 4)}, p);
}

}  // namespace

const Implementation<CopyBlocksArgs> copy_blocks_portable{"portable",           Tier::portable, supports_copy,
                                                          cost<CopyBlocksArgs>, plan_copy,      run_copy};
const Implementation<KvGatherArgs> kv_gather_portable{"portable",         Tier::portable, supports_gather,
                                                      cost<KvGatherArgs>, plan_gather,    run_gather};

}  // namespace monotile::ops
