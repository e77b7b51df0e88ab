// Which comparison kernels fit a call, and their launches.

#include "bench/cuda/baseline_launch.hpp"
#include "bench/cuda/cublaslt.hpp"
#include "bench/cuda/cudnn.hpp"
#include "bench/cuda/naive.cuh"
#include "bench/cuda/native.cuh"
#include "bench/hipblaslt.hpp"

namespace monotile::bench {
namespace {

template <int PerThread>
void native_norm(Stream& stream, const ops::RmsNormArgs& a) {
  with_type(a.x.dtype, [&](auto type) {
    using T = decltype(type);
    const int cols = static_cast<int>(a.x.dim(1)), threads = row_threads(cols, a.x.dtype, PerThread);
    const auto rows = static_cast<unsigned>(a.x.dim(0));
    auto* const s = native_stream(stream);
    if (a.residual.defined()) {
      native::rms_norm<T, PerThread, true>
          <<<rows, threads, 0, s>>>(a.y.as<T>(), a.residual.as<T>(), a.x.as<T>(), a.gamma.as<T>(), cols, a.eps);
    } else {
      native::rms_norm<T, PerThread, false>
          <<<rows, threads, 0, s>>>(a.y.as<T>(), nullptr, a.x.as<T>(), a.gamma.as<T>(), cols, a.eps);
    }
    launched();
  });
}

void naive_norm(Stream& stream, const ops::RmsNormArgs& a) {
  with_type(a.x.dtype, [&](auto type) {
    using T = decltype(type);
    auto* const s = native_stream(stream);
    const size_t n = static_cast<size_t>(a.x.size());
    if (a.residual.defined()) naive::add<T><<<blocks_of(n), kBlock, 0, s>>>(a.residual.as<T>(), a.x.as<T>(), n);
    naive::rms_norm<T><<<static_cast<unsigned>(a.x.dim(0)), kBlock, 0, s>>>(
        a.y.as<T>(), a.residual.defined() ? a.residual.as<T>() : a.x.as<T>(), a.gamma.as<T>(),
        static_cast<int>(a.x.dim(1)), a.eps);
    launched();
  });
}

template <int PerThread>
void native_softmax(Stream& stream, const ops::SoftmaxArgs& a) {
  with_type(a.x.dtype, [&](auto type) {
    using T = decltype(type);
    const int cols = static_cast<int>(a.x.dim(1));
    native::softmax<T, PerThread>
        <<<static_cast<unsigned>(a.x.dim(0)), row_threads(cols, a.x.dtype, PerThread), 0, native_stream(stream)>>>(
            a.y.as<T>(), a.x.as<T>(), cols, a.scale);
    launched();
  });
}

}  // namespace

Baselines<ops::RmsNormArgs> baselines(const DeviceInfo& device, const ops::RmsNormArgs& a) {
  if (device.device.kind != DeviceKind::cuda || !packed({a.x, a.y, a.residual, a.gamma}) || a.beta.defined() ||
      a.x.rank != 2)
    return {};
  Baselines<ops::RmsNormArgs> list = {
      {"naive", a.residual.defined() ? "add kernel, then two-pass norm" : "two-pass norm, single elements",
       naive_norm}};
  if (const int n = vectors_per_thread(a.x.dim(1), a.x.dtype); n != 0)
    list.push_back({"native", "row in registers, 16-byte loads",
                    by_vectors(n, native_norm<1>, native_norm<2>, native_norm<4>, native_norm<8>)});
  for (auto& vendor : cudnn_baseline(device, a)) list.push_back(std::move(vendor));
  return list;
}

Baselines<ops::SoftmaxArgs> baselines(const DeviceInfo& device, const ops::SoftmaxArgs& a) {
  if (device.device.kind != DeviceKind::cuda || !packed({a.x, a.y}) || a.log) return {};
  Baselines<ops::SoftmaxArgs> list = {
      {"naive", "three passes, single elements", [](Stream& stream, const ops::SoftmaxArgs& args) {
         with_type(args.x.dtype, [&](auto type) {
           using T = decltype(type);
           naive::softmax<T><<<static_cast<unsigned>(args.x.dim(0)), kBlock, 0, native_stream(stream)>>>(
               args.y.as<T>(), args.x.as<T>(), static_cast<int>(args.x.dim(1)), args.scale);
           launched();
         });
       }}};
  if (const int n = vectors_per_thread(a.x.dim(1), a.x.dtype); n != 0)
    list.push_back({"native", "row in registers, 16-byte loads",
                    by_vectors(n, native_softmax<1>, native_softmax<2>, native_softmax<4>, native_softmax<8>)});
  return list;
}

Baselines<ops::GatedActivationArgs> baselines(const DeviceInfo& device, const ops::GatedActivationArgs& a) {
  if (device.device.kind != DeviceKind::cuda || !packed({a.y, a.gate, a.up}) || a.activation != ops::Activation::silu)
    return {};
  return {{"naive", "single elements",
           [](Stream& stream, const ops::GatedActivationArgs& args) {
             with_type(args.y.dtype, [&](auto type) {
               using T = decltype(type);
               const size_t n = static_cast<size_t>(args.y.size());
               naive::silu_mul<T><<<blocks_of(n), kBlock, 0, native_stream(stream)>>>(args.y.as<T>(), args.gate.as<T>(),
                                                                                      args.up.as<T>(), n);
               launched();
             });
           }},
          {"native", "16-byte loads", [](Stream& stream, const ops::GatedActivationArgs& args) {
             with_type(args.y.dtype, [&](auto type) {
               using T = decltype(type);
               const size_t n = static_cast<size_t>(args.y.size()) / Vector<T>::kElements;
               native::silu_mul<T><<<blocks_of(n), kBlock, 0, native_stream(stream)>>>(
                   args.y.as<T>(), args.gate.as<T>(), args.up.as<T>(), n);
               launched();
             });
           }}};
}

Baselines<ops::RopeArgs> baselines(const DeviceInfo& device, const ops::RopeArgs& a) {
  if (device.device.kind != DeviceKind::cuda || !packed({a.q, a.q_out, a.k, a.k_out}) || a.q.data != a.q_out.data ||
      !a.k.defined() || a.interleaved || a.rotary_dim != 0 || a.positions.dtype != DType::i32 || a.q.dim(2) % 16 != 0)
    return {};
  return {{"naive", "angles on the fly, q and k apart",
           [](Stream& stream, const ops::RopeArgs& args) {
             with_type(args.q.dtype, [&](auto type) {
               using T = decltype(type);
               const int half = static_cast<int>(args.q.dim(2) / 2);
               for (const TensorView& x : {args.q, args.k}) {
                 const size_t pairs = static_cast<size_t>(x.size()) / 2;
                 naive::rope<T><<<blocks_of(pairs), kBlock, 0, native_stream(stream)>>>(
                     x.as<T>(), args.positions.as<int>(), static_cast<int>(x.dim(1)), half, 10000.0f, pairs);
               }
               launched();
             });
           }},
          {"native", "16-byte loads, fp32 table", [](Stream& stream, const ops::RopeArgs& args) {
             with_type(args.q.dtype, [&](auto type) {
               using T = decltype(type);
               const int half = static_cast<int>(args.q.dim(2) / 2), heads = static_cast<int>(args.q.dim(1)),
                         kv_heads = static_cast<int>(args.k.dim(1));
               const size_t work = static_cast<size_t>(args.q.dim(0)) *
                                   static_cast<size_t>((heads + kv_heads) * (half / Vector<T>::kElements));
               native::rope<T><<<blocks_of(work), kBlock, 0, native_stream(stream)>>>(
                   args.q.as<T>(), args.k.as<T>(), args.positions.as<int>(), args.cos.as<float>(), args.sin.as<float>(),
                   heads, kv_heads, half, work);
               launched();
             });
           }}};
}

Baselines<ops::EmbeddingArgs> baselines(const DeviceInfo& device, const ops::EmbeddingArgs& a) {
  if (device.device.kind != DeviceKind::cuda || !packed({a.y, a.table}) || a.ids.dtype != DType::i32 ||
      a.scale != 1.0f || a.status.defined())
    return {};
  return {{"naive", "single elements",
           [](Stream& stream, const ops::EmbeddingArgs& args) {
             with_type(args.y.dtype, [&](auto type) {
               using T = decltype(type);
               const size_t n = static_cast<size_t>(args.y.size());
               naive::embedding<T><<<blocks_of(n), kBlock, 0, native_stream(stream)>>>(
                   args.y.as<T>(), args.table.as<T>(), args.ids.as<int>(), static_cast<int>(args.y.dim(1)), n);
               launched();
             });
           }},
          {"native", "16-byte loads", [](Stream& stream, const ops::EmbeddingArgs& args) {
             with_type(args.y.dtype, [&](auto type) {
               using T = decltype(type);
               native::embedding<T><<<static_cast<unsigned>(args.y.dim(0)), kBlock, 0, native_stream(stream)>>>(
                   args.y.as<T>(), args.table.as<T>(), args.ids.as<int>(), static_cast<int>(args.y.dim(1)));
               launched();
             });
           }}};
}

Baselines<ops::ArgmaxArgs> baselines(const DeviceInfo& device, const ops::ArgmaxArgs& a) {
  if (device.device.kind != DeviceKind::cuda || !packed({a.logits}) || a.logits.size() > (int64_t{1} << 24)) return {};
  Baselines<ops::ArgmaxArgs> list = {
      {"naive", "one thread per row", [](Stream& stream, const ops::ArgmaxArgs& args) {
             with_type(args.logits.dtype, [&](auto type) {
               using T = decltype(type);
               const int rows = static_cast<int>(args.logits.dim(0));
               naive::argmax<T><<<blocks_of(static_cast<size_t>(rows), 32), 32, 0, native_stream(stream)>>>(
                   args.ids.as<int>(), args.logits.as<T>(), rows, static_cast<int>(args.logits.dim(1)));
               launched();
             });
           }}};
  for (auto& native : native_argmax(device, a)) list.push_back(std::move(native));
  return list;
}

Baselines<ops::AttentionArgs> baselines(const DeviceInfo& device, const ops::AttentionArgs& a) {
  if (!fits(device, {a.out, a.q, a.key_cache, a.value_cache}) || a.tree_mask.defined()) return {};  // no library has trees of drafts
  return cudnn_baseline(device, a);
}

/// Packed operands of 8 bits, in rows of whole 16 bytes, with the results that the library has for them.
bool packed_codes(const ops::GemmArgs& g) {
  if (!is_code(g.a.dtype) || g.b.dtype != g.a.dtype || !g.a.contiguous() || !g.b.contiguous() || !g.c.contiguous()) return false;
  if (g.a.dim(-1) % 16 != 0 || g.c.dim(-1) % 8 != 0) return false;
  return g.a.dtype == DType::i8 ? g.c.dtype == DType::i32 : g.c.dtype == DType::bf16 || g.c.dtype == DType::f16;
}

Baselines<ops::GemmArgs> baselines(const DeviceInfo& device, const ops::GemmArgs& a) {
  if (device.device.kind == DeviceKind::cpu) return host_product_baselines(a);
  if (device.device.kind == DeviceKind::hip) return hipblaslt_baseline(device, a);
  if (device.device.kind != DeviceKind::cuda || !(packed({a.c, a.a, a.b}) || packed_codes(a)) || a.bias.defined() || a.residual.defined())
    return {};
  return cublaslt_baseline(device, a);
}

std::vector<std::string> absent_baselines(const DeviceInfo& device) {
  if (device.device.kind != DeviceKind::cuda && device.device.kind != DeviceKind::hip) return absent_host_libraries();
  std::vector<std::string> lines;
  const auto libraries = device.device.kind == DeviceKind::hip ? std::vector{hipblaslt_absent()} : std::vector{cublaslt_absent(), cudnn_absent()};
  for (const std::string& why : libraries) {
    if (!why.empty()) lines.push_back(why);
  }
  return lines;
}

}  // namespace monotile::bench
