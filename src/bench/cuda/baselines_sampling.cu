// Which hand-written kernels from logits to tokens fit a call, and their launches.

#include <algorithm>

#include "bench/baselines.hpp"
#include "bench/cuda/baseline_launch.hpp"
#include "bench/cuda/native_sampling.cuh"

namespace monotile::bench {
namespace {

bool on_cuda(const DeviceInfo& device) { return device.device.kind == DeviceKind::cuda; }

template <class T>
const T* data_or_null(const TensorView& view) {
  return view.defined() ? view.as<T>() : nullptr;
}

int parts_of(const TensorView& logits) {
  return static_cast<int>(blocks_of(static_cast<size_t>(logits.dim(1)), native::kPart));
}

/// Rows that the selecting kernels can take `top` of: every part must have as many, padding included.
bool can_select(const TensorView& logits, int64_t top) {
  return packed({logits}) && logits.dim(0) <= native::kSelectedRows && parts_of(logits) <= native::kMostParts &&
         top >= 1 && top <= native::kMostTop && top <= logits.dim(1);
}

template <class T>
void select(Stream& stream, const TensorView& logits, int top) {
  const dim3 grid(static_cast<unsigned>(parts_of(logits)), static_cast<unsigned>(logits.dim(0)));
  native::select_of_part<T><<<grid, native::kSelectThreads, 0, native_stream(stream)>>>(
      logits.as<T>(), static_cast<int>(logits.dim(1)), top);
}

void top_k(Stream& stream, const ops::TopKArgs& a) {
  with_type(a.logits.dtype, [&](auto type) {
    const int top = static_cast<int>(a.ids.dim(1));
    select<decltype(type)>(stream, a.logits, top);
    native::finish_top_k<<<static_cast<unsigned>(a.logits.dim(0)), native::kFinishThreads, 0, native_stream(stream)>>>(
        a.values.as<float>(), a.ids.as<int>(), parts_of(a.logits), top);
    launched();
  });
}

void logprobs(Stream& stream, const ops::LogprobsArgs& a) {
  with_type(a.logits.dtype, [&](auto type) {
    using T = decltype(type);
    const int top = static_cast<int>(a.top_ids.dim(1));
    select<T>(stream, a.logits, top);
    native::finish_logprobs<T>
        <<<static_cast<unsigned>(a.logits.dim(0)), native::kFinishThreads, 0, native_stream(stream)>>>(
            a.top_logprobs.as<float>(), a.top_ids.as<int>(), a.logprobs.as<float>(), a.tokens.as<int>(),
            a.logits.as<T>(), static_cast<int>(a.logits.dim(1)), parts_of(a.logits), top,
            static_cast<int>(a.tokens.dim(1)));
    launched();
  });
}

bool can_penalise(const ops::PenaltiesArgs& a) {
  return a.history.defined() && a.history.contiguous() && a.history.dim(1) <= native::kMostHistory &&
         !a.history_length.defined() && !a.bias_ids.defined();
}

void penalise(Stream& stream, const ops::PenaltiesArgs& a, const TensorView& logits) {
  with_type(logits.dtype, [&](auto type) {
    using T = decltype(type);
    native::penalties<T><<<static_cast<unsigned>(logits.dim(0)), 512, 0, native_stream(stream)>>>(
        logits.as<T>(), a.history.as<int>(), data_or_null<int>(a.prompt_length), data_or_null<float>(a.repetition),
        data_or_null<float>(a.presence), data_or_null<float>(a.frequency), static_cast<int>(logits.dim(1)),
        static_cast<int>(a.history.dim(1)));
    launched();
  });
}

void sample(Stream& stream, const ops::SampleArgs& a) {
  if (a.penalties.any()) penalise(stream, a.penalties, a.logits);
  with_type(a.logits.dtype, [&](auto type) {
    select<decltype(type)>(stream, a.logits, native::kMostTop);
    const native::Filters filters = {.temperature = data_or_null<float>(a.temperature),
                                     .top_p = data_or_null<float>(a.top_p),
                                     .min_p = data_or_null<float>(a.min_p),
                                     .top_k = a.top_k.as<int>(),
                                     .seeds = data_or_null<int64_t>(a.seeds),
                                     .positions = data_or_null<int64_t>(a.positions)};
    native::finish_sample<<<static_cast<unsigned>(a.logits.dim(0)), native::kFinishThreads, 0, native_stream(stream)>>>(
        a.ids.as<int>(), filters, parts_of(a.logits));
    launched();
  });
}

/// Blocks for each of `rows` rows: about eight of 256 threads for each multiprocessor in all.
unsigned split(const DeviceInfo& device, int64_t rows) {
  const int64_t wanted = 8 * device.units;
  return static_cast<unsigned>(std::clamp<int64_t>((wanted + rows - 1) / rows, 1, native::kMostParts));
}

}  // namespace

Baselines<ops::ArgmaxArgs> native_argmax(const DeviceInfo& device, const ops::ArgmaxArgs& a) {
  if (a.logits.dim(0) > native::kMostRows || a.status.defined()) return {};
  return {{"native", "one read, 16-byte loads, rows in parts",
           [parts = split(device, a.logits.dim(0))](Stream& stream, const ops::ArgmaxArgs& args) {
             with_type(args.logits.dtype, [&](auto type) {
               using T = decltype(type);
               native::argmax<T>
                   <<<dim3(parts, static_cast<unsigned>(args.logits.dim(0))), kBlock, 0, native_stream(stream)>>>(
                       args.ids.as<int>(), args.logits.as<T>(), static_cast<int>(args.logits.dim(1)));
               launched();
             });
           }}};
}

Baselines<ops::TopKArgs> baselines(const DeviceInfo& device, const ops::TopKArgs& a) {
  if (!on_cuda(device) || !can_select(a.logits, a.ids.dim(1)) || a.status.defined()) return {};
  return {{"native", "parts in registers, digits of 8 bits, sort of the rest", top_k}};
}

Baselines<ops::LogprobsArgs> baselines(const DeviceInfo& device, const ops::LogprobsArgs& a) {
  if (!on_cuda(device) || !a.top_ids.defined() || !a.tokens.defined() || !can_select(a.logits, a.top_ids.dim(1)) ||
      a.status.defined())
    return {};
  return {{"native", "as top_k, with sums of powers", logprobs}};
}

Baselines<ops::PenaltiesArgs> baselines(const DeviceInfo& device, const ops::PenaltiesArgs& a) {
  if (!on_cuda(device) || !packed({a.logits}) || !can_penalise(a)) return {};
  return {{"native", "hash table in shared memory",
           [](Stream& stream, const ops::PenaltiesArgs& args) { penalise(stream, args, args.logits); }}};
}

Baselines<ops::SampleArgs> baselines(const DeviceInfo& device, const ops::SampleArgs& a) {
  if (!on_cuda(device) || !can_select(a.logits, native::kMostTop) || !a.top_k.defined() || a.status.defined() ||
      (a.penalties.any() && !can_penalise(a.penalties)))
    return {};
  return {{"native", "as top_k of 64, then filters and draw among them", sample}};
}

Baselines<ops::VerifyArgs> baselines(const DeviceInfo& device, const ops::VerifyArgs& a) {
  if (!on_cuda(device) || !packed({a.target_probs, a.draft_probs}) || !a.draft_probs.defined() ||
      a.target_probs.dim(0) > native::kMostRows || a.status.defined())
    return {};
  return {{"native", "16-byte loads, rows in parts",
           [parts = split(device, a.target_probs.dim(0))](Stream& stream, const ops::VerifyArgs& args) {
             const native::Verification v = {.tokens = args.tokens.as<int>(),
                                             .accepted = args.accepted.as<int>(),
                                             .target = args.target_probs.as<float>(),
                                             .draft = args.draft_probs.as<float>(),
                                             .draft_tokens = args.draft_tokens.as<int>(),
                                             .seeds = data_or_null<int64_t>(args.seeds),
                                             .positions = data_or_null<int64_t>(args.positions),
                                             .drafts = static_cast<int>(args.draft_tokens.dim(1)),
                                             .cols = static_cast<int>(args.target_probs.dim(2))};
             const dim3 grid(parts, static_cast<unsigned>(args.target_probs.dim(0)));
             native::verify<<<grid, kBlock, 0, native_stream(stream)>>>(v);
             launched();
           }}};
}

}  // namespace monotile::bench
