// Comparison kernels of normalisation, activation and quantisation, and their launches.

#include "bench/cuda/baseline_launch.hpp"
#include "bench/cuda/cudnn.hpp"
#include "bench/cuda/native_rows.cuh"

namespace monotile::bench {
namespace {

constexpr const char* kInRegisters = "row in registers, 16-byte loads";

unsigned rows_of(const TensorView& x) { return static_cast<unsigned>(x.dim(0)); }
int cols_of(const TensorView& x) { return static_cast<int>(x.dim(1)); }

template <int PerThread>
void layer_norm(Stream& stream, const ops::LayerNormArgs& a) {
  with_type(a.x.dtype, [&](auto type) {
    using T = decltype(type);
    native::layer_norm<T, PerThread>
        <<<rows_of(a.x), row_threads(a.x.dim(1), a.x.dtype, PerThread), 0, native_stream(stream)>>>(
            a.y.as<T>(), a.x.as<T>(), a.gamma.as<T>(), a.beta.as<T>(), cols_of(a.x), a.eps);
    launched();
  });
}
template <int PerThread>
void norm_quantise(Stream& stream, const ops::RmsNormQuantiseArgs& a) {
  with_type(a.x.dtype, [&](auto type) {
    using T = decltype(type);
    native::add_rms_norm_quantise<T, PerThread>
        <<<rows_of(a.x), row_threads(a.x.dim(1), a.x.dtype, PerThread), 0, native_stream(stream)>>>(
            a.codes.as<native::e4m3>(), a.scales.as<float>(), a.residual.as<T>(), a.x.as<T>(), a.gamma.as<T>(),
            cols_of(a.x), a.eps);
    launched();
  });
}
template <int PerThread>
void quantise_rows(Stream& stream, const ops::QuantiseArgs& a) {
  with_type(a.x.dtype, [&](auto type) {
    using T = decltype(type);
    const int threads = row_threads(a.x.dim(1), a.x.dtype, PerThread);
    auto* const s = native_stream(stream);
    if (a.codes.dtype == DType::i8) {
      native::quantise<T, int8_t, PerThread>
          <<<rows_of(a.x), threads, 0, s>>>(a.codes.as<int8_t>(), a.scales.as<float>(), a.x.as<T>(), cols_of(a.x));
    } else {
      native::quantise<T, native::e4m3, PerThread>
          <<<rows_of(a.x), threads, 0, s>>>(a.codes.as<native::e4m3>(), a.scales.as<float>(), a.x.as<T>(), cols_of(a.x));
    }
    launched();
  });
}
void quantise_groups(Stream& stream, const ops::QuantiseArgs& a) {
  with_type(a.x.dtype, [&](auto type) {
    using T = decltype(type);
    const size_t vectors = static_cast<size_t>(a.x.size()) / Vector<T>::kElements;
    constexpr int kThreads = 128;  // divides what there is: rows are whole groups, see below
    native::quantise_groups<T><<<blocks_of(vectors, kThreads), kThreads, 0, native_stream(stream)>>>(
        a.codes.as<native::e4m3>(), a.scales.as<float>(), a.x.as<T>());
    launched();
  });
}
void dequantise_groups(Stream& stream, const ops::DequantiseArgs& a) {
  with_type(a.y.dtype, [&](auto type) {
    using T = decltype(type);
    const size_t vectors = static_cast<size_t>(a.y.size()) / 16;
    native::dequantise_groups<T><<<blocks_of(vectors), kBlock, 0, native_stream(stream)>>>(
        a.y.as<T>(), a.codes.as<native::e4m3>(), a.scales.as<float>(), vectors);
    launched();
  });
}
void dequantise_q4_k(Stream& stream, const ops::DequantiseArgs& a) {
  with_type(a.y.dtype, [&](auto type) {
    using T = decltype(type);
    const size_t pieces = static_cast<size_t>(a.y.size()) / 32;
    native::dequantise_q4_k<T><<<blocks_of(pieces), kBlock, 0, native_stream(stream)>>>(
        a.y.as<T>(), static_cast<const unsigned char*>(a.codes.data), pieces);
    launched();
  });
}
template <int PerThread>
void gated_quantise(Stream& stream, const ops::GatedQuantiseArgs& a) {
  with_type(a.gate.dtype, [&](auto type) {
    using T = decltype(type);
    native::silu_mul_quantise<T, PerThread>
        <<<rows_of(a.gate), row_threads(a.gate.dim(1), a.gate.dtype, PerThread), 0, native_stream(stream)>>>(
            a.codes.as<native::e4m3>(), a.scales.as<float>(), a.gate.as<T>(), a.up.as<T>(), cols_of(a.gate));
    launched();
  });
}
void bias_gelu(Stream& stream, const ops::BiasActivationArgs& a) {
  with_type(a.x.dtype, [&](auto type) {
    using T = decltype(type);
    const size_t vectors = static_cast<size_t>(a.x.size()) / Vector<T>::kElements;
    native::bias_gelu<T><<<blocks_of(vectors), kBlock, 0, native_stream(stream)>>>(
        a.y.as<T>(), a.x.as<T>(), a.bias.as<T>(), a.residual.as<T>(), cols_of(a.x) / Vector<T>::kElements, vectors);
    launched();
  });
}

}  // namespace

Baselines<ops::LayerNormArgs> baselines(const DeviceInfo& device, const ops::LayerNormArgs& a) {
  if (!fits(device, {a.x, a.y, a.gamma, a.beta})) return {};
  Baselines<ops::LayerNormArgs> list;
  const int n = vectors_per_thread(a.x.dim(1), a.x.dtype);
  if (n != 0 && a.x.rank == 2 && a.beta.defined() && !a.residual.defined() && a.gamma_offset == 0.0f)
    list.push_back({"native", kInRegisters, by_vectors(n, layer_norm<1>, layer_norm<2>, layer_norm<4>, layer_norm<8>)});
  for (auto& vendor : cudnn_baseline(device, a)) list.push_back(std::move(vendor));
  return list;
}

Baselines<ops::RmsNormQuantiseArgs> baselines(const DeviceInfo& device, const ops::RmsNormQuantiseArgs& a) {
  const int n = vectors_per_thread(a.x.dim(1), a.x.dtype);
  if (!fits(device, {a.x, a.residual, a.gamma}) || n == 0 || !a.residual.defined() || a.beta.defined() || a.y.defined() ||
      a.given_scales || a.gamma_offset != 0.0f || a.codes.dtype != DType::f8_e4m3 || !all_contiguous({a.codes, a.scales}))
    return {};
  return {{"native", kInRegisters,
           by_vectors(n, norm_quantise<1>, norm_quantise<2>, norm_quantise<4>, norm_quantise<8>)}};
}

Baselines<ops::QuantiseArgs> baselines(const DeviceInfo& device, const ops::QuantiseArgs& a) {
  if (!fits(device, {a.x}) || !all_contiguous({a.codes, a.scales}) || a.given_scales || a.block_rows != 1) return {};
  const bool e4m3 = a.codes.dtype == DType::f8_e4m3;
  if (a.block_cols == 128 && e4m3 && a.x.dim(1) % 128 == 0 && a.x.size() % 1024 == 0)
    return {{"native", "16-byte loads, a group to 16 threads", quantise_groups}};
  const int n = vectors_per_thread(a.x.dim(1), a.x.dtype);
  if (a.block_cols != 0 || n == 0 || !(e4m3 || a.codes.dtype == DType::i8)) return {};
  return {{"native", kInRegisters,
           by_vectors(n, quantise_rows<1>, quantise_rows<2>, quantise_rows<4>, quantise_rows<8>)}};
}

Baselines<ops::DequantiseArgs> baselines(const DeviceInfo& device, const ops::DequantiseArgs& a) {
  if (!fits(device, {a.y}) || !all_contiguous({a.codes, a.scales})) return {};
  if (a.codes.dtype == DType::q4_k) return {{"native", "16 bytes of nibbles a thread", dequantise_q4_k}};
  if (a.codes.dtype != DType::f8_e4m3 || a.block_rows != 1 || a.block_cols != 128 || a.y.dim(1) % 128 != 0) return {};
  return {{"native", "16 codes a thread", dequantise_groups}};
}

Baselines<ops::GatedQuantiseArgs> baselines(const DeviceInfo& device, const ops::GatedQuantiseArgs& a) {
  const int n = vectors_per_thread(a.gate.dim(1), a.gate.dtype);
  if (!fits(device, {a.gate, a.up}) || n == 0 || a.activation != ops::Activation::silu || a.block_cols != 0 ||
      a.given_scales || a.codes.dtype != DType::f8_e4m3 || !all_contiguous({a.codes, a.scales}))
    return {};
  return {{"native", kInRegisters,
           by_vectors(n, gated_quantise<1>, gated_quantise<2>, gated_quantise<4>, gated_quantise<8>)}};
}

Baselines<ops::BiasActivationArgs> baselines(const DeviceInfo& device, const ops::BiasActivationArgs& a) {
  if (!fits(device, {a.x, a.y, a.bias, a.residual}) || !a.bias.defined() || !a.residual.defined() ||
      a.activation != ops::Activation::gelu_tanh)
    return {};
  return {{"native", "16-byte loads", bias_gelu}};
}

}  // namespace monotile::bench
