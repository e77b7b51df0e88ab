// Which hand-written kernels on caches and rows fit a call, and their launches.

#include "bench/baselines.hpp"
#include "bench/cuda/baseline_launch.hpp"
#include "bench/cuda/native_cache.cuh"

namespace monotile::bench {
namespace {

bool on_cuda(const DeviceInfo& device) { return device.device.kind == DeviceKind::cuda; }

/// Bytes of a row of the innermost extent over 16.
int vectors_of(const TensorView& x) { return static_cast<int>(x.dim(-1) * dtype_info(x.dtype).block_bytes / 16); }

native::Pages pages_of(const TensorView& cache, int parts) {
  return {static_cast<int>(cache.dim(0) * cache.dim(2)), static_cast<int>(cache.dim(1)), static_cast<int>(cache.dim(2)),
          parts};
}

/// One cache shape, slots as the kernels read them, nobody to tell about bad ones.
template <class Args>
bool plain_caches(const Args& a) {
  return a.key_cache.contiguous() && a.value_cache.contiguous() && a.key_cache.extent == a.value_cache.extent &&
         a.slots.dtype == DType::i32 && a.slots.contiguous() && !a.status.defined();
}

void append(Stream& stream, const ops::KvAppendArgs& a) {
  const int parts = vectors_of(a.k);
  const size_t work = static_cast<size_t>(a.slots.dim(0) * a.k.dim(1)) * static_cast<size_t>(parts);
  native::kv_append<<<blocks_of(work), kBlock, 0, native_stream(stream)>>>(
      a.key_cache.as<uint4>(), a.value_cache.as<uint4>(), a.k.as<uint4>(), a.v.as<uint4>(), a.slots.as<int>(),
      pages_of(a.key_cache, parts), work);
  launched();
}

void gather(Stream& stream, const ops::KvGatherArgs& a) {
  with_type(a.k_out.dtype, [&](auto type) {
    using T = decltype(type);
    const int parts = vectors_of(a.k_out);
    const size_t work = static_cast<size_t>(a.slots.dim(0) * a.k_out.dim(1)) * static_cast<size_t>(parts);
    native::kv_gather<T><<<blocks_of(work), kBlock, 0, native_stream(stream)>>>(
        a.k_out.as<T>(), a.v_out.as<T>(), a.key_cache.as<__nv_fp8_e4m3>(), a.value_cache.as<__nv_fp8_e4m3>(),
        a.key_scale.as<float>(), a.value_scale.as<float>(), a.slots.as<int>(), pages_of(a.key_cache, parts), work);
    launched();
  });
}

void copy(Stream& stream, const ops::CopyBlocksArgs& a) {
  const int vectors = static_cast<int>(a.key_cache.dim(1) * a.key_cache.dim(2)) * vectors_of(a.key_cache);
  const dim3 grid(blocks_of(static_cast<size_t>(vectors), kBlock * native::kCopied),
                  static_cast<unsigned>(a.pairs.dim(0)));
  native::copy_blocks<<<grid, kBlock, 0, native_stream(stream)>>>(a.key_cache.as<uint4>(), a.value_cache.as<uint4>(),
                                                                  a.pairs.as<int2>(),
                                                                  static_cast<int>(a.key_cache.dim(0)), vectors);
  launched();
}

void gather_rows(Stream& stream, const ops::GatherRowsArgs& a) {
  native::gather_rows<<<static_cast<unsigned>(a.y.dim(0)), kBlock, 0, native_stream(stream)>>>(
      a.y.as<uint4>(), a.x.as<uint4>(), a.ids.as<int>(), static_cast<int>(a.x.dim(0)), vectors_of(a.x));
  launched();
}

void norm_rope_append(Stream& stream, const ops::NormRopeAppendArgs& a) {
  with_type(a.q.dtype, [&](auto type) {
    using T = decltype(type);
    const int parts = vectors_of(a.q);
    const size_t work = static_cast<size_t>(a.q.dim(0) * (a.q.dim(1) + 2 * a.k.dim(1))) * static_cast<size_t>(parts);
    const native::HeadRows<T> rows = {.q = a.q.as<T>(),
                                      .keys = a.key_cache.as<T>(),
                                      .values = a.value_cache.as<T>(),
                                      .k = a.k.as<T>(),
                                      .v = a.v.as<T>(),
                                      .q_gamma = a.q_gamma.as<T>(),
                                      .k_gamma = a.k_gamma.as<T>(),
                                      .positions = a.positions.as<int>(),
                                      .slots = a.slots.as<int>(),
                                      .cos = a.cos.as<float>(),
                                      .sin = a.sin.as<float>(),
                                      .heads = static_cast<int>(a.q.dim(1)),
                                      .eps = a.eps};
    native::norm_rope_append<T>
        <<<blocks_of(work), kBlock, 0, native_stream(stream)>>>(rows, pages_of(a.key_cache, parts), work);
    launched();
  });
}

}  // namespace

Baselines<ops::KvAppendArgs> baselines(const DeviceInfo& device, const ops::KvAppendArgs& a) {
  if (!on_cuda(device) || !packed({a.k, a.v, a.key_cache, a.value_cache}) || !plain_caches(a)) return {};
  return {{"native", "a thread moves 16 bytes of k and of v", append}};
}

Baselines<ops::KvGatherArgs> baselines(const DeviceInfo& device, const ops::KvGatherArgs& a) {
  if (!on_cuda(device) || !packed({a.k_out, a.v_out}) || !plain_caches(a) || a.key_cache.dtype != DType::f8_e4m3 ||
      a.value_cache.dtype != DType::f8_e4m3 || a.key_scale.rank != 1 || a.key_scale.dim(0) != a.k_out.dim(1) ||
      a.value_scale.rank != 1 || a.value_scale.dim(0) != a.k_out.dim(1))
    return {};
  return {{"native", "a thread writes 16 bytes of k and of v", gather}};
}

Baselines<ops::CopyBlocksArgs> baselines(const DeviceInfo& device, const ops::CopyBlocksArgs& a) {
  if (!on_cuda(device) || !packed({a.key_cache, a.value_cache}) || a.key_cache.extent != a.value_cache.extent ||
      a.pairs.dtype != DType::i32 || a.pairs.dim(0) > 65535 || a.status.defined())
    return {};
  return {{"native", "eight 16-byte loads in flight", copy}};
}

Baselines<ops::GatherRowsArgs> baselines(const DeviceInfo& device, const ops::GatherRowsArgs& a) {
  if (!on_cuda(device) || !packed({a.x, a.y}) || a.ids.dtype != DType::i32 || a.status.defined()) return {};
  return {{"native", "block per row, 16-byte loads", gather_rows}};
}

Baselines<ops::NormRopeAppendArgs> baselines(const DeviceInfo& device, const ops::NormRopeAppendArgs& a) {
  if (!on_cuda(device) || !packed({a.q, a.q_out, a.k, a.v, a.q_gamma, a.k_gamma, a.key_cache, a.value_cache}) ||
      !plain_caches(a) || a.q.data != a.q_out.data || a.k_out.defined() || !a.q_gamma.defined() ||
      !a.k_gamma.defined() || a.positions.dtype != DType::i32 || a.interleaved || a.rotary_dim != 0 ||
      a.gamma_offset != 0 || a.slots.dim(0) != a.q.dim(0))
    return {};
  const int lanes = vectors_of(a.q);
  if (lanes < 2 || lanes > 32 || (lanes & (lanes - 1)) != 0 || vectors_of(a.v) != lanes) return {};
  return {{"native", "16 bytes a lane, heads in registers", norm_rope_append}};
}

}  // namespace monotile::bench
