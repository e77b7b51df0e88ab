// Which hand-written kernels for mixtures of experts fit a call, and their launches.

#include "bench/baselines.hpp"
#include "bench/cuda/baseline_launch.hpp"
#include "bench/cuda/native_moe.cuh"

namespace monotile::bench {
namespace {

bool on_cuda(const DeviceInfo& device) { return device.device.kind == DeviceKind::cuda; }
int vectors_of(const TensorView& x) { return static_cast<int>(x.dim(-1) * dtype_info(x.dtype).block_bytes / 16); }

bool can_route(const ops::RouterArgs& a) {
  const int64_t experts = a.logits.dim(1);
  return packed({a.logits}) && a.weights.contiguous() && !a.bias.defined() && !a.status.defined() && a.groups == 1 &&
         a.experts.dim(1) <= 32 && (experts == 32 || experts == 64 || experts == 128 || experts == 256);
}

/// `experts` apart, because moe_route sorts the router's.
bool can_align(const ops::AlignArgs& a, const TensorView& experts) {
  return !a.block_experts.defined() && experts.size() > 0 && experts.size() <= native::kChunk * native::kMostChunks &&
         a.counts.dim(0) <= native::kMostExperts && a.sorted.contiguous() && a.offsets.contiguous() &&
         a.counts.contiguous();
}

template <class T, int PerLane>
void launch_router(Stream& stream, const ops::RouterArgs& a) {
  const int rows = static_cast<int>(a.logits.dim(0));
  native::router<T, PerLane><<<blocks_of(static_cast<size_t>(rows) * 32), kBlock, 0, native_stream(stream)>>>(
      a.weights.as<float>(), a.experts.as<int>(), a.logits.as<T>(), rows, static_cast<int>(a.experts.dim(1)),
      a.score == ops::RouterScore::sigmoid, a.renormalise, a.scale);
  launched();
}

void route(Stream& stream, const ops::RouterArgs& a) {
  with_type(a.logits.dtype, [&](auto type) {
    using T = decltype(type);
    switch (a.logits.dim(1)) {
      case 32: return launch_router<T, 1>(stream, a);
      case 64: return launch_router<T, 2>(stream, a);
      case 128: return launch_router<T, 4>(stream, a);
      default: return launch_router<T, 8>(stream, a);
    }
  });
}

void align(Stream& stream, const ops::AlignArgs& a, const TensorView& experts) {
  const native::AlignTables tables = {.sorted = a.sorted.as<int>(),
                                      .positions = a.positions.as<int>(),
                                      .offsets = a.offsets.as<int>(),
                                      .counts = a.counts.as<int>(),
                                      .ids = experts.as<int>(),
                                      .pairs = static_cast<int>(experts.size()),
                                      .experts = static_cast<int>(a.counts.dim(0)),
                                      .capacity = static_cast<int>(a.sorted.dim(0)),
                                      .block = static_cast<int>(a.block),
                                      .first = a.first_expert};
  const unsigned chunks = blocks_of(static_cast<size_t>(tables.pairs), native::kChunk);
  native::align_count<<<chunks, native::kChunk, 0, native_stream(stream)>>>(tables);
  native::align_place<<<chunks, native::kChunk, 0, native_stream(stream)>>>(tables);
  launched();
}

}  // namespace

Baselines<ops::RouterArgs> baselines(const DeviceInfo& device, const ops::RouterArgs& a) {
  if (!on_cuda(device) || !can_route(a)) return {};
  return {{"native", "warp per token, logits in registers", route}};
}

Baselines<ops::AlignArgs> baselines(const DeviceInfo& device, const ops::AlignArgs& a) {
  if (!on_cuda(device) || !can_align(a, a.experts)) return {};
  return {{"native", "counting sort by chunks, two launches",
           [](Stream& stream, const ops::AlignArgs& args) { align(stream, args, args.experts); }}};
}

Baselines<ops::RouteArgs> baselines(const DeviceInfo& device, const ops::RouteArgs& a) {
  if (!on_cuda(device) || !can_route(a.router) || !can_align(a.align, a.router.experts) || a.x.defined()) return {};
  return {{"native", "warp per token, then counting sort by chunks", [](Stream& stream, const ops::RouteArgs& args) {
             route(stream, args.router);
             align(stream, args.align, args.router.experts);
           }}};
}

Baselines<ops::DispatchArgs> baselines(const DeviceInfo& device, const ops::DispatchArgs& a) {
  if (!on_cuda(device) || !packed({a.x, a.y})) return {};
  return {{"native", "block per token, 16-byte loads", [](Stream& stream, const ops::DispatchArgs& args) {
             native::dispatch<<<static_cast<unsigned>(args.x.dim(0)), kBlock, 0, native_stream(stream)>>>(
                 args.y.as<uint4>(), args.x.as<uint4>(), args.positions.as<int>(),
                 static_cast<int>(args.positions.dim(1)), vectors_of(args.x));
             launched();
           }}};
}

Baselines<ops::PermuteArgs> baselines(const DeviceInfo& device, const ops::PermuteArgs& a) {
  if (!on_cuda(device) || !packed({a.x, a.y}) || a.end.defined() || !a.sorted.contiguous()) return {};
  return {{"native", "block per place, 16-byte loads", [](Stream& stream, const ops::PermuteArgs& args) {
             native::permute<<<static_cast<unsigned>(args.y.dim(0)), kBlock, 0, native_stream(stream)>>>(
                 args.y.as<uint4>(), args.x.as<uint4>(), args.sorted.as<int>(), static_cast<int>(args.x.dim(0)),
                 static_cast<int>(args.top_k), vectors_of(args.x));
             launched();
           }}};
}

Baselines<ops::CombineArgs> baselines(const DeviceInfo& device, const ops::CombineArgs& a) {
  if (!on_cuda(device) || !packed({a.x, a.y}) || a.addend.defined()) return {};
  return {{"native", "block per token, 16-byte loads", [](Stream& stream, const ops::CombineArgs& args) {
             with_type(args.y.dtype, [&](auto type) {
               using T = decltype(type);
               native::combine<T><<<static_cast<unsigned>(args.y.dim(0)), kBlock, 0, native_stream(stream)>>>(
                   args.y.as<T>(), args.x.as<T>(), args.weights.as<float>(), args.positions.as<int>(),
                   static_cast<int>(args.positions.dim(1)), static_cast<int>(args.y.dim(1)));
               launched();
             });
           }}};
}

}  // namespace monotile::bench
