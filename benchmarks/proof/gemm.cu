// Matrix products on a GPU: the chosen implementation and every tile configuration against cuBLASLt (the best of the
// algorithms that its heuristic returns, found with dlopen). Cold L2 by rotating buffers, normal random data,
// candidates in shuffled order, medians; sustained (back to back) and with gaps (8 ms of rest before each launch),
// since the chip is limited by power. Checks come first: every element of odd shapes and 4,096 random ones of each
// timed shape, in fp64.
//
//   monotile_gemm [--seconds S] [--set main|llama|skinny|all|random|every|odd|fp8|weights] [--regimes 1|2] [--list FILE] [--json FILE]
//
// `random` is a sweep over 300 shapes that nobody chose (a fixed seed): the chosen implementation alone against cuBLASLt, and the ten worst with what
// their tiles give away. It stops after --seconds (default 90). --json writes all of them. `every` times each tile on the same shapes: what the costs of
// tile_cost.hpp are fitted to (--list has the times).
//
// `weights` has 1, 4, 16 and 64 rows of bf16 against GGUF weights (q4_k, q8_0), and of int8 against int8 with factors: microseconds, bytes and GB/s of
// the chosen implementation; no library has these products.
//
// `odd` has rows that start off 16 bytes: what is chosen (a tile after packing, or not) and the ring as rows lie, against cuBLASLt.
//
// `fp8` has e4m3 operands with a factor for each row and column, bf16 results: every tile against cuBLASLt with the same factors, sums in fp32 (where it has
// an algorithm).
//
// Products of few rows are timed as nodes of a graph, 24 calls over rotating buffers, beside the rate at which their bytes go by.
//
// Prints a line per shape; FILE gets the time of every candidate. Exit code 1 if a check fails.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "monotile/kernels/gemm/tiles_params.hpp"
#include "monotile/ops/gemm.hpp"
#include "ops/gemm/gemm.hpp"
#include "ops/gemm/tile_cost.hpp"
#include "ops/random_data.hpp"
#include "ops/reference.hpp"
#include "runtime/kernels.hpp"

#include "common.cuh"

namespace {

using namespace monotile;  // NOLINT
using proof::check;
using proof::mix;
using proof::spin;

/// Everything runs here.
cudaStream_t queue = nullptr;

// --- on the device ---------------------------------------------------------------------------------------------------
__device__ float element(const void* p, DType d, int64_t i) {
  if (d == DType::f32) return static_cast<const float*>(p)[i];
  if (d == DType::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
  if (d == DType::f8_e4m3) return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(p)[i]);
  return __half2float(static_cast<const __half*>(p)[i]);
}
__global__ void fill_normal(void* p, DType d, size_t n, uint64_t seed) {
  proof::each_normal(n, seed, [&](size_t i, float x) {
    if (d == DType::f32) static_cast<float*>(p)[i] = x;
    if (d == DType::bf16) static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16(x);
    if (d == DType::f16) static_cast<__half*>(p)[i] = __float2half(x);
    if (d == DType::f8_e4m3) static_cast<__nv_fp8_e4m3*>(p)[i] = __nv_fp8_e4m3(x);
  });
}
struct Matrix {
  void* data;
  DType dtype;
  int64_t rows, cols, stride;
};
struct Factors {
  const float *rows = nullptr, *cols = nullptr;
};
/// All elements, or `samples` random ones. worst[0] = largest |error| / bound, worst[1] = elements that are NaN.
__global__ void verify(Matrix a, Matrix b, Matrix c, int64_t samples, float* worst, Factors factors = {}) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x, all = c.rows * c.cols;
  if (i >= (samples != 0 ? samples : all)) return;
  const int64_t at =
      samples != 0 ? static_cast<int64_t>((static_cast<uint64_t>(mix(2 * i + 7)) << 32 | mix(2 * i + 8)) % all) : i;
  const int64_t m = at / c.cols, n = at % c.cols;
  double sum = 0, size = 0;
  for (int64_t k = 0; k < a.cols; ++k) {
    const double p =
        static_cast<double>(element(a.data, a.dtype, m * a.stride + k)) * element(b.data, b.dtype, n * b.stride + k);
    sum += p, size += fabs(p);
  }
  // Instructions for 8-bit floats cut what they add to sums of 128 products.
  double bound = (a.dtype == DType::f8_e4m3 ? 0x1p-9 : a.cols * 0x1p-24) * size;
  if (factors.rows != nullptr) {
    const double factor = static_cast<double>(factors.rows[m]) * factors.cols[n];
    sum *= factor, bound *= factor;
  }
  int exponent;
  frexp(fabs(sum) + bound, &exponent);
  bound += ldexp(1.0, exponent - (c.dtype == DType::f32 ? 24 : c.dtype == DType::bf16 ? 8 : 11));
  const float got = element(c.data, c.dtype, m * c.stride + n);
  if (got != got) {
    atomicAdd(&worst[1], 1.0f);
  } else {
    atomicMax(reinterpret_cast<int*>(worst), __float_as_int(static_cast<float>(fabs(got - sum) / bound)));
  }
}

// --- cuBLASLt ----------------------------------------------------------------------------------------------------------
class CublasLt {
 public:
  CublasLt() {
    const std::vector<const char*> names{"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
                                         std::getenv("CUBLASLT")};
    for (const char* name : names) {
      if (library_ == nullptr && name != nullptr) library_ = dlopen(name, RTLD_NOW);
    }
    if (library_ == nullptr) return;
    call<decltype(&cublasLtCreate)>("cublasLtCreate")(&handle_);
    multiply_ = call<decltype(&cublasLtMatmul)>("cublasLtMatmul");
    check(cudaMalloc(&workspace_, kWorkspace), "workspace");
  }
  int algorithms() const { return count_; }
  /// c = a b^T, fp32 sums.
  /// With `factors` a factor for each row and column of operands in e4m3, and a bf16 result.
  void set_up(int64_t m, int64_t n, int64_t k, DType dtype, Factors factors = {}) {
    count_ = 0;
    if (library_ == nullptr) return;
    const cudaDataType type = dtype == DType::bf16 ? CUDA_R_16BF : dtype == DType::f16 ? CUDA_R_16F : CUDA_R_8F_E4M3;
    const cudaDataType stored = dtype == DType::f16 ? CUDA_R_16F : CUDA_R_16BF;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const auto layout = call<decltype(&cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
    call<decltype(&cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate")(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    call<decltype(&cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute")(
        product_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
    if (factors.rows != nullptr) {
      const auto set = call<decltype(&cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
      const cublasLtMatmulMatrixScale_t each = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
      const int8_t fast = 0;
      set(product_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
      set(product_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &factors.cols, sizeof factors.cols);
      set(product_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &factors.rows, sizeof factors.rows);
      set(product_, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &each, sizeof each);
      set(product_, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &each, sizeof each);
    }
    layout(&weights_, type, k, n, k);
    layout(&activations_, type, k, m, k);
    layout(&result_, stored, n, m, n);
    cublasLtMatmulPreference_t preference;
    call<decltype(&cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate")(&preference);
    const size_t bytes = kWorkspace;
    call<decltype(&cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute")(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    call<decltype(&cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic")(
        handle_, product_, weights_, activations_, result_, result_, preference, kMost, found_, &count_);
  }
  void run(int algorithm, const void* a, const void* b, void* c) {
    const float one = 1, zero = 0;
    multiply_(handle_, product_, &one, b, weights_, a, activations_, &zero, c, result_, c, result_,
              &found_[algorithm].algo, workspace_, kWorkspace, queue);
  }

 private:
  template <class F>
  F call(const char* name) {
    return reinterpret_cast<F>(dlsym(library_, name));
  }
  static constexpr size_t kWorkspace = size_t{64} << 20;
  static constexpr int kMost = 8;
  void* library_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  decltype(&cublasLtMatmul) multiply_ = nullptr;
  void* workspace_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t weights_ = nullptr, activations_ = nullptr, result_ = nullptr;
  cublasLtMatmulHeuristicResult_t found_[kMost];
  int count_ = 0;
};

// --- candidates --------------------------------------------------------------------------------------------------------
template <uint32_t... C>
std::vector<std::array<int, 4>> shapes_of(std::integer_sequence<uint32_t, C...>) {
  return {{ops::tiles::config_at<C>::bm, ops::tiles::config_at<C>::bn, ops::tiles::config_at<C>::bk,
           ops::tiles::config_at<C>::kind == lang::schedule::split}...};
}
const std::vector<std::array<int, 4>> kTiles = shapes_of(std::make_integer_sequence<uint32_t, ops::tiles::kConfigs>());
using ops::tiles::kConfigNames;

struct Candidate {
  std::string name;
  std::function<void(void* a, void* b, void* c)> run;
  std::vector<float> ms;
};

struct Bench {
  const DeviceInfo& info;
  Stream stream;
  CublasLt vendor;
  float* worst = nullptr;
  void* workspace = nullptr;
  Factors factors;  ///< of e4m3 operands
  FILE* list = nullptr;
  bool failed = false;

  explicit Bench(const DeviceInfo& device) : info(device), stream(device.device, queue) {
    check(cudaMallocManaged(&worst, 8), "memory");
    check(cudaMalloc(&workspace, kWorkspace), "workspace");
  }

  static constexpr size_t kWorkspace = size_t{1} << 30;  ///< for copies of operands with rows off 16 bytes
  static lang::matrix_view view(void* data, DType dtype, int64_t rows, int64_t cols) {
    lang::matrix_view v;
    v.data = data, v.dtype = dtype, v.stride = cols;
    v.rows = static_cast<int32_t>(rows), v.cols = static_cast<int32_t>(cols);
    v.vectors = cols * dtype_info(dtype).block_bytes % 16 == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
    return v;
  }
  TensorView tensor(void* data, DType dtype, int64_t rows, int64_t cols) const {
    TensorView t(data, dtype, {rows, cols});
    t.device = info.device;
    return t;
  }
  void add_config(std::vector<Candidate>& to, DType dtype, uint32_t config, int split, int64_t m, int64_t n,
                  int64_t k) {
    const bool across = ops::tiles::lies_across(config);
    if (across && m > ops::tiles::kMostFewRows) return;
    if (k * dtype_info(dtype).block_bytes % 16 != 0 && ops::tiles::kShapes[config].kind != lang::schedule::ring) return;  // not for the copy engine
    if (factors.rows != nullptr) return add_as<kernels::ScaledEpilogue>(to, dtype, config, split, m, n, k);
    across ? add_as<kernels::AcrossEpilogue>(to, dtype, config, split, m, n, k)
           : add_as<kernels::AffineEpilogue>(to, dtype, config, split, m, n, k);
  }
  template <class Epilogue>
  void add_as(std::vector<Candidate>& to, DType dtype, uint32_t config, int split, int64_t m, int64_t n, int64_t k) {
    using Params = kernels::GemmTilesParams<Epilogue>;
    const auto function =
        find_kernel_as<Params>(ops::tiles::kernel_name(config), target_of(info), ops::tiles::variant(dtype, config));
    if (function == nullptr) return;
    const auto [bm, bn, bk, splits] = kTiles[config];
    if ((split > 1) != (splits != 0) || split > k / bk) return;
    const auto tiles = [](int64_t extent, int tile) { return static_cast<int>((extent + tile - 1) / tile); };
    const bool across = ops::tiles::lies_across(config);
    const int64_t rows = across ? n : m, cols = across ? m : n;
    const lang::tile_space space{tiles(rows, bm),        tiles(cols, bn),        tiles(k, bk), 1,
                                 static_cast<int>(rows), static_cast<int>(cols), split};
    to.push_back({kConfigNames[config] + (split > 1 ? std::to_string(split) : ""),
                  [=, this](void* a, void* b, void* c) {
                    Params p{};
                    p.a = view(across ? b : a, dtype, rows, k), p.b = view(across ? a : b, dtype, cols, k);
                    p.c = view(c, dtype == DType::f16 ? dtype : DType::bf16, m, n);
                    p.tiles = space;
                    if constexpr (std::is_same_v<Epilogue, kernels::ScaledEpilogue>) p.epilogue.scales = {factors.rows, factors.cols, 1, 1};
                    function(stream, Grid{info.units, 0}, p);
                  },
                  {}});
  }
  std::vector<Candidate> candidates(DType dtype, int64_t m, int64_t n, int64_t k, bool all_tiles = true) {
    std::vector<Candidate> all;
    for (int i = 0; i < vendor.algorithms(); ++i)
      all.push_back(
          {"cublasLt" + std::to_string(i), [=, this](void* a, void* b, void* c) { vendor.run(i, a, b, c); }, {}});
    GemmArgs_at chosen{this, dtype, m, n, k};
    all.push_back({"chosen", chosen, {}});
    for (uint32_t config = 0; all_tiles && config < ops::tiles::kConfigs; ++config) {
      for (const int split : ops::tiles::kSplits) add_config(all, dtype, config, split, m, n, k);
    }
    return all;
  }
  struct GemmArgs_at {
    Bench* bench;
    DType dtype;
    int64_t m, n, k;
    void operator()(void* a, void* b, void* c) const {
      const ops::GemmArgs args = bench->product(a, b, c, dtype, m, n, k);
      const Plan<ops::GemmArgs> chosen = plan(bench->info.device, args);
      if (chosen.workspace_bytes > kWorkspace) std::printf("workspace of %zu bytes\n", chosen.workspace_bytes), std::exit(1);
      chosen.run(bench->stream, args, bench->workspace);
    }
  };
  ops::GemmArgs product(void* a, void* b, void* c, DType dtype, int64_t m, int64_t n, int64_t k) const {
    ops::GemmArgs args{tensor(c, dtype == DType::f16 ? dtype : DType::bf16, m, n), tensor(a, dtype, m, k), tensor(b, dtype, n, k)};
    if (factors.rows != nullptr) {
      args.a_scale = TensorView(const_cast<float*>(factors.rows), DType::f32, {m}), args.b_scale = TensorView(const_cast<float*>(factors.cols), DType::f32, {n});
      args.a_scale.device = args.b_scale.device = info.device;
    }
    return args;
  }
  /// What the dispatcher takes: a tile with its split, or kConfigs for products of rows.
  struct Chosen {
    uint32_t config = ops::tiles::kConfigs;
    int split = 1;
    bool packs = false;
  };
  Chosen choice_of(const ops::GemmArgs& args) const {
    if (ops::gemm_tiles.supports(args, info) != nullptr) return {};
    if (ops::gemm_portable.supports(args, info) == nullptr && ops::gemm_tiles.cost(args, info) > ops::gemm_portable.cost(args, info)) return {};
    Plan<ops::GemmArgs> p;
    p.device = &info;
    ops::gemm_tiles.plan(args, info, p);
    return {static_cast<uint32_t>(p.config[0]), static_cast<int>(p.config[1]), p.workspace_bytes != 0};
  }
  static std::string name_of(const Chosen& choice) {
    if (choice.config == ops::tiles::kConfigs) return "rows";
    return kConfigNames[choice.config] + (choice.split > 1 ? std::to_string(choice.split) : "") + (choice.packs ? "+pack" : "");
  }
  std::string choice(DType dtype, int64_t m, int64_t n, int64_t k) const {
    return name_of(choice_of(product(worst, worst, worst, dtype, m, n, k)));
  }
  /// Why a shape may lose, by what its tiles give away and how they are loaded; nothing is said that was not computed.
  std::string reason(DType dtype, int64_t m, int64_t n, int64_t k) const {
    const auto [config, split, packs] = choice_of(product(worst, worst, worst, dtype, m, n, k));
    if (config == ops::tiles::kConfigs) return "products of rows, without matrix instructions";
    std::string why;
    char text[160];
    const auto say = [&](auto... arguments) {
      std::snprintf(text, sizeof text, arguments...);
      why += (why.empty() ? "" : "; ") + std::string(text);
    };
    const int64_t bytes = dtype_info(dtype).block_bytes;
    if (packs) {
      say("rows of %ld elements start off 16 bytes: copied first", static_cast<long>(k));
    } else if (k * bytes % 16 != 0) {
      say("rows of %ld elements start off 16 bytes: no copy engine, loads of single elements, mma.sync", static_cast<long>(k));
    } else if (n * bytes % 16 != 0) {
      say("rows of the result start off 16 bytes: stored from registers, element by element");
    }
    const ops::tiles::Losses lost = ops::tiles::losses_of(config, split, m, n, k, info.units);
    if (lost.programs < lost.places && lost.empty > 0.1) {
      say("few tiles: %ld programs for %ld places", static_cast<long>(lost.programs), static_cast<long>(lost.places));
    } else if (lost.empty > 0.1) {
      say("tile quantisation: %ld programs in rounds of %ld leave %.0f %% of the places empty", static_cast<long>(lost.programs),
          static_cast<long>(lost.places), lost.empty * 100);
    }
    if (lost.edges > 0.1) say("edges: %.0f %% of the tiles' cells lie outside the result", lost.edges * 100);
    if (lost.filling > 0.25) say("k short: %ld steps a tile, %.0f %% of its time is filling and storing", static_cast<long>(lost.steps), lost.filling * 100);
    return why.empty() ? "none of: alignment, rounds, edges, steps" : why;
  }
  void verify_result(const char* name, DType dtype, void* a, void* b, void* c, int64_t m, int64_t n, int64_t k,
                     int64_t samples) {
    worst[0] = worst[1] = 0;
    const int64_t count = samples != 0 ? samples : m * n;
    verify<<<static_cast<unsigned>((count + 127) / 128), 128>>>({a, dtype, m, k, k}, {b, dtype, n, k, k},
                                                                {c, dtype == DType::f16 ? dtype : DType::bf16, m, n, n}, samples, worst, factors);
    check(cudaDeviceSynchronize(), name);
    if (worst[0] <= 1 && worst[1] == 0) return;
    failed = true;
    std::printf("WRONG: %s %s %ld x %ld x %ld: error / bound %g, NaN %g\n", name, dtype_info(dtype).name,
                static_cast<long>(m), static_cast<long>(n), static_cast<long>(k), worst[0], worst[1]);
  }
  /// Every candidate on odd sizes, outputs poisoned first.
  void check_small() {
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{256, 512, 256},
                                                                     {1, 8, 8},
                                                                     {77, 296, 72},
                                                                     {1000, 777, 328},
                                                                     {513, 1032, 1000},
                                                                     {130, 2050, 24},
                                                                     {300, 200, 4096},
                                                                     {45, 61, 77}}) {
      for (const DType dtype : {DType::bf16, DType::f16}) {
        uint16_t *a, *b, *c;
        const size_t bytes = static_cast<size_t>(m * n) * 2;
        check(cudaMalloc(&a, m * k * 2), "a"), check(cudaMalloc(&b, n * k * 2), "b"), check(cudaMalloc(&c, bytes), "c");
        fill_normal<<<256, 256>>>(a, dtype, m * k, 1), fill_normal<<<256, 256>>>(b, dtype, n * k, 2);
        vendor.set_up(0, 0, 0, dtype);
        for (Candidate& candidate : candidates(dtype, m, n, k)) {
          if (candidate.name.rfind("cublas", 0) == 0) continue;
          check(cudaMemset(c, 0xff, bytes), "poison");
          candidate.run(a, b, c);
          verify_result(candidate.name.c_str(), dtype, a, b, c, m, n, k, 0);
        }
        cudaFree(a), cudaFree(b), cudaFree(c);
      }
    }
  }
};
double median(std::vector<float> v) {
  if (v.empty()) return 1e9;
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Shape {
  int64_t m, n, k;
};
/// Evenly in the logarithm: rows 1 to 8192, columns and depth 64 to 16384, four of five columns and depths multiples of 8; at most 2^36 products.
std::vector<Shape> random_shapes(size_t count) {
  std::mt19937 random(2026);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto extent = [&](double low, double high) {
    return static_cast<int64_t>(std::exp(std::log(low) + uniform(random) * (std::log(high) - std::log(low))));
  };
  std::vector<Shape> set;
  while (set.size() < count) {
    Shape s{extent(1, 8193), extent(64, 16385), extent(64, 16385)};
    if (uniform(random) < 0.8) s.n = s.n / 8 * 8;
    if (uniform(random) < 0.8) s.k = s.k / 8 * 8;
    if (s.m * s.n <= (int64_t{1} << 36) / s.k) set.push_back(s);
  }
  return set;
}
std::vector<Shape> shape_set(const std::string& name) {
  std::vector<Shape> set;
  if (name == "main" || name == "all")
    set = {{8192, 8192, 8192}, {4096, 4096, 4096}, {2048, 6144, 4096}, {16384, 11008, 4096}};
  const auto llama = [&](int64_t m) {
    for (const auto& [n, k] :
         std::vector<std::pair<int64_t, int64_t>>{{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}})
      set.push_back({m, n, k});
  };
  if (name == "llama" || name == "all") {
    for (const int64_t m : {128, 256, 512, 1024, 2048, 4096, 8192, 16384}) llama(m);
  }
  if (name == "skinny" || name == "all") {
    for (const int64_t m : {1, 4, 16, 64}) {
      for (const auto& [n, k] :
           std::vector<std::pair<int64_t, int64_t>>{{4096, 4096}, {14336, 4096}, {4096, 14336}, {128256, 4096}})
        set.push_back({m, n, k});
    }
  }
  if (name == "odd")
    set = {{4096, 4096, 4097}, {2048, 6144, 4095}, {1000, 3001, 2001}, {512, 4096, 4098}, {8192, 8192, 8190}, {300, 200, 1001},
           {64, 14336, 4097},  {16, 4096, 4097},   {1, 14336, 4097},   {1, 4096, 4098}};
  if (name == "fp8") set = {{8192, 8192, 8192}, {4096, 4096, 4096}, {2048, 6144, 4096}, {16384, 11008, 4096}, {4096, 14336, 4096}, {1024, 4096, 4096}};
  if (name == "random" || name == "every") set = random_shapes(300);
  return set;
}

/// One product of few rows with weights of a type that no library takes.
struct WeightCase {
  DType weights;
  int64_t m, n, k;
};
/// Times and checks them; a line for each, and one in `json`.
void time_weights(Bench& bench, FILE* json, const std::function<bool()>& over) {
  constexpr int kNodes = 24, kRepeats = 9, kSamples = 64;
  constexpr size_t kCold = size_t{256} << 20;  // all copies together: more than twice what the L2 holds
  std::vector<WeightCase> cases;
  for (const DType weights : {DType::q4_k, DType::q8_0, DType::i8}) {
    for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{{4096, 4096}, {14336, 4096}, {4096, 14336}, {128256, 4096}}) {
      for (const int64_t m : {1, 4, 16, 64}) cases.push_back({weights, m, n, k});
    }
  }
  cudaEvent_t before, after;
  check(cudaEventCreate(&before), "event"), check(cudaEventCreate(&after), "event");
  std::mt19937 random(3);
  bool first = true;
  for (const WeightCase& s : cases) {
    if (over()) {
      std::printf("stopped: the time is over\n");
      break;
    }
    const bool codes = s.weights == DType::i8;
    const DType rows = codes ? DType::i8 : DType::bf16;
    const size_t b_bytes = static_cast<size_t>(storage_bytes(s.weights, s.n * s.k)), a_bytes = static_cast<size_t>(s.m * s.k * (codes ? 1 : 2)),
                 c_bytes = static_cast<size_t>(s.m * s.n * 2), copies = std::max<size_t>(1, std::min<size_t>(kNodes, kCold / b_bytes + 1));
    // Random blocks whose pattern repeats: 2,048 rows' worth at most are made on the host.
    const int64_t made = std::min<int64_t>(s.n, 2048);
    std::vector<uint8_t> weights(static_cast<size_t>(storage_bytes(s.weights, made * s.k))), activations(a_bytes);
    ops::RandomData(5).fill(weights.data(), s.weights, made * s.k, codes ? -127 : -1, codes ? 127 : 1);
    ops::RandomData(6).fill(activations.data(), rows, s.m * s.k, codes ? -127 : -1, codes ? 127 : 1);
    std::vector<float> factors(static_cast<size_t>(s.n), 0.0f);
    for (size_t i = 0; i < factors.size(); ++i) factors[i] = (1.0f + static_cast<float>(i % 7)) / 1024.0f;
    char *a, *b, *c;
    float *of_rows, *of_columns;
    check(cudaMalloc(&a, a_bytes), "a"), check(cudaMalloc(&b, b_bytes * copies), "b"), check(cudaMalloc(&c, c_bytes), "c");
    check(cudaMalloc(&of_rows, 64 * 4), "factors"), check(cudaMalloc(&of_columns, factors.size() * 4), "factors");
    check(cudaMemcpy(a, activations.data(), a_bytes, cudaMemcpyHostToDevice), "a");
    check(cudaMemcpy(of_rows, factors.data(), 64 * 4, cudaMemcpyHostToDevice), "factors");
    check(cudaMemcpy(of_columns, factors.data(), factors.size() * 4, cudaMemcpyHostToDevice), "factors");
    for (size_t at = 0; at < b_bytes * copies;) {  // copies follow one another: each starts with row 0
      const size_t part = std::min(weights.size(), b_bytes - at % b_bytes);
      check(cudaMemcpy(b + at, weights.data(), part, cudaMemcpyHostToDevice), "b");
      at += part;
    }
    const auto args_of = [&](size_t copy) {
      ops::GemmArgs args{bench.tensor(c, DType::bf16, s.m, s.n), bench.tensor(a, rows, s.m, s.k), bench.tensor(b + copy * b_bytes, s.weights, s.n, s.k)};
      if (codes) {
        args.a_scale = TensorView(of_rows, DType::f32, {s.m}), args.b_scale = TensorView(of_columns, DType::f32, {s.n});
        args.a_scale.device = args.b_scale.device = bench.info.device;
      } else {
        args.cast = ops::suggested_cast(bench.info.device, s.m);
      }
      return args;
    };
    const Plan<ops::GemmArgs> chosen = plan(bench.info.device, args_of(0));
    void* workspace = nullptr;
    if (chosen.workspace_bytes != 0) check(cudaMalloc(&workspace, chosen.workspace_bytes), "workspace");
    check(cudaMemset(c, 0xff, c_bytes), "poison");
    cudaGraph_t graph;
    cudaGraphExec_t nodes;
    chosen.run(bench.stream, args_of(0), workspace);
    check(cudaStreamSynchronize(queue), "first run");
    check(cudaStreamBeginCapture(queue, cudaStreamCaptureModeThreadLocal), "capture");
    for (size_t node = 0; node < kNodes; ++node) chosen.run(bench.stream, args_of(node % copies), workspace);
    check(cudaStreamEndCapture(queue, &graph), "capture");
    check(cudaGraphInstantiate(&nodes, graph, 0), "graph");
    std::vector<float> ms;
    for (int r = -2; r < kRepeats; ++r) {
      spin<<<1, 32, 0, queue>>>(60000);
      check(cudaEventRecord(before, queue), "record");
      check(cudaGraphLaunch(nodes, queue), "graph");
      check(cudaEventRecord(after, queue), "record");
      check(cudaEventSynchronize(after), "graph");
      float elapsed = 0;
      check(cudaEventElapsedTime(&elapsed, before, after), "elapsed");
      if (r >= 0) ms.push_back(elapsed / kNodes);
    }
    // Samples against fp64: what is multiplied are the blocks' values, or the codes.
    std::vector<uint16_t> got(static_cast<size_t>(s.m * s.n));
    check(cudaMemcpy(got.data(), c, c_bytes, cudaMemcpyDeviceToHost), "c");
    const TensorView host_a(activations.data(), rows, {s.m, s.k}), host_b(weights.data(), s.weights, {made, s.k});
    double worst = 0;
    for (int i = 0; i < kSamples; ++i) {
      const auto row = static_cast<int64_t>(random() % static_cast<uint64_t>(s.m)), column = static_cast<int64_t>(random() % static_cast<uint64_t>(s.n));
      double sum = 0, size = 0;
      for (int64_t k = 0; k < s.k; ++k) {
        const double term = ops::reference::get(host_a, row * s.k + k) * ops::reference::get(host_b, column % made * s.k + k);
        sum += term, size += std::abs(term);
      }
      const double factor = codes ? static_cast<double>(factors[static_cast<size_t>(row)]) * factors[static_cast<size_t>(column)] : 1.0;
      sum *= factor, size *= factor;
      const bool rounded = args_of(0).cast == ops::ProductCast::bf16;
      const double bound = (static_cast<double>(s.k) * 0x1p-24 + (rounded ? 0x1p-7 : 0)) * size + 0x1p-7 * std::abs(sum);
      const double error = std::abs(static_cast<double>(to_float(bfloat16_t{got[static_cast<size_t>(row * s.n + column)]})) - sum);
      worst = std::max(worst, error <= bound ? error / bound : 1e9);  // NaN too
    }
    if (worst > 1) bench.failed = true;
    const double us = median(ms) * 1e3, bytes = static_cast<double>(a_bytes + b_bytes + c_bytes);
    const std::string name = Bench::name_of(bench.choice_of(args_of(0)));
    std::printf("%2ld x %6ld x %5ld %-5s %-11s %8.1f us %8.2f MB %5.0f GB/s%s\n", static_cast<long>(s.m), static_cast<long>(s.n), static_cast<long>(s.k),
                dtype_info(s.weights).name, name.c_str(), us, bytes * 1e-6, bytes / us * 1e-3, worst > 1 ? "  WRONG" : "");
    std::fflush(stdout);
    if (json != nullptr) {
      std::fprintf(json, "%s{\"m\": %ld, \"n\": %ld, \"k\": %ld, \"weights\": \"%s\", \"chosen\": \"%s\", \"us\": %.3f, \"bytes\": %.0f, \"gbs\": %.1f, \"right\": %s}",
                   first ? "" : ",\n  ", static_cast<long>(s.m), static_cast<long>(s.n), static_cast<long>(s.k), dtype_info(s.weights).name, name.c_str(), us, bytes,
                   bytes / us * 1e-3, worst > 1 ? "false" : "true");
    }
    first = false;
    check(cudaGraphExecDestroy(nodes), "graph"), check(cudaGraphDestroy(graph), "graph");
    cudaFree(workspace), cudaFree(a), cudaFree(b), cudaFree(c), cudaFree(of_rows), cudaFree(of_columns);
  }
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 0;
  std::string set = "all", list, json_path;
  int regimes = 2;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seconds") seconds = std::atof(argv[i + 1]);
    if (option == "--set") set = argv[i + 1];
    if (option == "--regimes") regimes = std::atoi(argv[i + 1]);
    if (option == "--list") list = argv[i + 1];
    if (option == "--json") json_path = argv[i + 1];
  }
  const bool sweep = set == "random" || set == "every";
  if (seconds == 0) seconds = sweep ? 90 : 80;
  if (sweep) regimes = 1;
  struct Ratio {
    double ratio, us;
    Shape shape;
    std::string choice;
  };
  std::vector<Ratio> ratios;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  check(cudaStreamCreate(&queue), "stream");
  Bench bench(device_info(parse_device("cuda")));
  bench.list = list.empty() ? nullptr : std::fopen(list.c_str(), "w");
  FILE* const json = json_path.empty() ? nullptr : std::fopen(json_path.c_str(), "w");
  if (json != nullptr)
    std::fprintf(json, "{\"device\": \"%s\", \"path\": \"%s\", \"set\": \"%s\", \"rows\": [\n  ", bench.info.name.c_str(), bench.info.path.c_str(), set.c_str());
  const auto close_json = [&](const std::string& rest) {
    if (json == nullptr) return;
    std::fprintf(json, "\n]%s}\n", rest.c_str());
    std::fclose(json);
  };
  std::printf("%s, path %s, %s\n", bench.info.name.c_str(), bench.info.path.c_str(), bench.info.driver.c_str());
  bench.check_small();
  std::printf("small and odd shapes: %s\n", bench.failed ? "WRONG" : "right");
  std::fflush(stdout);

  if (set == "weights") {
    time_weights(bench, json, [&] { return elapsed() > seconds; });
    close_json("");
    return bench.failed ? 1 : 0;
  }
  const DType dtype = set == "fp8" ? DType::f8_e4m3 : DType::bf16;
  const int64_t element_bytes = dtype_info(dtype).block_bytes;
  if (set == "fp8") {
    std::vector<float> values(16384);
    for (size_t i = 0; i < values.size(); ++i) values[i] = (1.0f + static_cast<float>(i % 7)) / 64.0f;
    float* data = nullptr;
    check(cudaMalloc(&data, values.size() * 4), "factors");
    check(cudaMemcpy(data, values.data(), values.size() * 4, cudaMemcpyHostToDevice), "factors");
    bench.factors = {data, data};
  }
  const std::vector<Shape> shapes = shape_set(set);
  size_t most = 0;
  for (const Shape& s : shapes)
    most = std::max(most, static_cast<size_t>(s.m * s.k + s.n * s.k + s.m * s.n) * 2 + 1024);
  most = std::max(most, size_t{256} << 20);
  std::vector<char*> pools(3);
  for (char*& pool : pools) check(cudaMalloc(&pool, most), "pool");
  cudaEvent_t before, after;
  check(cudaEventCreate(&before), "event"), check(cudaEventCreate(&after), "event");
  std::mt19937 random(1);
  double logs[2] = {0, 0};
  int counted = 0, written = 0;
  for (const Shape& s : shapes) {
    if (elapsed() > seconds) {
      std::printf("stopped: %.0f s are over\n", seconds);
      break;
    }
    for (size_t i = 0; i < pools.size(); ++i)  // anew: operands may lie where a shape before had its results
      fill_normal<<<2048, 256>>>(pools[i], dtype, most / static_cast<size_t>(element_bytes), 10 + i);
    const auto round = [](int64_t bytes) { return (static_cast<size_t>(bytes) + 255) / 256 * 256; };
    const size_t a_bytes = round(s.m * s.k * element_bytes), b_bytes = round(s.n * s.k * element_bytes),
                 bytes = a_bytes + b_bytes + round(s.m * s.n * 2);
    std::vector<char*> buffers;  // together more than twice what the L2 holds
    for (size_t place = 0; place + bytes <= most && buffers.size() < 48; place += bytes) {
      for (char* pool : pools) buffers.push_back(pool + place);
    }
    bench.vendor.set_up(s.m, s.n, s.k, dtype, bench.factors);
    std::vector<Candidate> all = bench.candidates(dtype, s.m, s.n, s.k, set != "random");
    const double flops = 2.0 * s.m * s.n * s.k;
    size_t turn = 0;
    constexpr int kNodes = 24;
    const bool few = s.m <= ops::tiles::kMostFewRows;
    std::vector<cudaGraphExec_t> graphs;
    check(cudaDeviceSynchronize(), "fill");
    for (size_t i = 0; few && i < all.size(); ++i) {
      cudaGraph_t graph;
      check(cudaStreamBeginCapture(queue, cudaStreamCaptureModeThreadLocal), "capture");
      for (int node = 0; node < kNodes; ++node) {
        char* buffer = buffers[static_cast<size_t>(node) % buffers.size()];
        all[i].run(buffer, buffer + a_bytes, buffer + a_bytes + b_bytes);
      }
      check(cudaStreamEndCapture(queue, &graph), all[i].name.c_str());
      check(cudaGraphInstantiate(&graphs.emplace_back(), graph, 0), all[i].name.c_str());
      check(cudaGraphDestroy(graph), "graph");
    }
    for (int regime = 0; regime < (s.m * s.n >= 1 << 23 && flops > 1e11 ? regimes : 1); ++regime) {
      for (Candidate& c : all) c.ms.clear();
      const int repeats = sweep ? 7 : regime == 1 ? 9 : 15;
      for (int r = sweep ? -1 : -2; r < repeats; ++r) {
        std::vector<size_t> order(all.size());
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        for (const size_t i : order) {
          char* buffer = buffers[turn++ % buffers.size()];
          if (regime == 1) {
            check(cudaDeviceSynchronize(), "synchronize");
            std::this_thread::sleep_for(std::chrono::milliseconds(8));
          }
          spin<<<1, 32, 0, queue>>>(60000);
          check(cudaEventRecord(before, queue), "record");
          if (few) {
            check(cudaGraphLaunch(graphs[i], queue), all[i].name.c_str());
          } else {
            all[i].run(buffer, buffer + a_bytes, buffer + a_bytes + b_bytes);
          }
          check(cudaEventRecord(after, queue), "record");
          check(cudaEventSynchronize(after), all[i].name.c_str());
          float ms = 0;
          check(cudaEventElapsedTime(&ms, before, after), "elapsed");
          if (r >= 0) all[i].ms.push_back(few ? ms / kNodes : ms);
        }
      }
      double vendor = 1e9, ours = 1e9, best = 1e9;
      std::string best_name;
      for (Candidate& c : all) {
        const double ms = median(c.ms);
        if (c.name.rfind("cublas", 0) == 0) {
          vendor = std::min(vendor, ms);
        } else if (c.name == "chosen") {
          ours = ms;
        } else if (ms < best) {
          best = ms, best_name = c.name;
        }
        if (bench.list != nullptr)
          std::fprintf(bench.list, "%ld %ld %ld %d %s %.5f\n", static_cast<long>(s.m), static_cast<long>(s.n),
                       static_cast<long>(s.k), regime, c.name.c_str(), ms);
      }
      if (json != nullptr && regime == 0) {
        std::fprintf(json, "%s{\"m\": %ld, \"n\": %ld, \"k\": %ld, \"chosen\": \"%s\", \"us\": %.3f, \"cublaslt_us\": ", written++ == 0 ? "" : ",\n  ",
                     static_cast<long>(s.m), static_cast<long>(s.n), static_cast<long>(s.k), bench.choice(dtype, s.m, s.n, s.k).c_str(), ours * 1e3);
        if (vendor < 1e8) {
          std::fprintf(json, "%.3f, \"ratio\": %.4f", vendor * 1e3, vendor / ours);
        } else {
          std::fprintf(json, "null, \"ratio\": null");
        }
        std::fprintf(json, ", \"reason\": \"%s\"}", bench.reason(dtype, s.m, s.n, s.k).c_str());
      }
      if (sweep) {
        if (vendor < 1e8) {  // there are shapes that it has no algorithm for
          ratios.push_back({vendor / ours, ours * 1e3, s, bench.choice(dtype, s.m, s.n, s.k)});
          logs[0] += std::log(vendor / ours), ++counted;
        }
        continue;
      }
      std::printf("%5ld x %6ld x %5ld %s", static_cast<long>(s.m), static_cast<long>(s.n), static_cast<long>(s.k), few ? "node" : regime == 1 ? "gap " : "sust");
      if (vendor < 1e8) {
        std::printf(" cublasLt %8.1f us %4.0f TF", vendor * 1e3, flops / vendor * 1e-9);
      } else {
        std::printf(" cublasLt has no algorithm");
      }
      std::printf(" | chosen %-7s %8.1f us %4.0f TF %.3f | best %-7s %.3f", bench.choice(dtype, s.m, s.n, s.k).c_str(), ours * 1e3, flops / ours * 1e-9,
                  vendor < 1e8 ? vendor / ours : 0.0, best_name.c_str(), vendor < 1e8 ? vendor / best : 0.0);
      if (few) std::printf(" | chosen %.0f GB/s, best %.0f GB/s", bytes / ours * 1e-6, bytes / best * 1e-6);
      std::printf("\n");
      if (set == "fp8" || set == "odd") {
        for (Candidate& c : all) {
          if (c.name.rfind("cublas", 0) != 0) std::printf("      %-13s %8.1f us %5.0f TF\n", c.name.c_str(), median(c.ms) * 1e3, flops / median(c.ms) * 1e-9);
        }
      }
      if (regime == 0 && vendor < 1e8) logs[0] += std::log(vendor / ours), logs[1] += std::log(vendor / best), ++counted;
    }
    for (const cudaGraphExec_t graph : graphs) check(cudaGraphExecDestroy(graph), "graph");
    char* buffer = buffers[0];
    check(cudaMemset(buffer + a_bytes + b_bytes, 0xff, s.m * s.n * 2), "poison");
    Bench::GemmArgs_at{&bench, dtype, s.m, s.n, s.k}(buffer, buffer + a_bytes, buffer + a_bytes + b_bytes);
    bench.verify_result("chosen", dtype, buffer, buffer + a_bytes, buffer + a_bytes + b_bytes, s.m, s.n, s.k, 4096);
    std::fflush(stdout);
  }
  if (sweep && counted > 0) {
    std::sort(ratios.begin(), ratios.end(), [](const Ratio& x, const Ratio& y) { return x.ratio < y.ratio; });
    std::printf("%d of %zu random shapes in %.0f s (cuBLASLt has no algorithm for the others): geometric mean %.3f of cuBLASLt, median %.3f, tenth %.3f; the worst ten:\n",
                counted, shapes.size(), elapsed(), std::exp(logs[0] / counted), ratios[ratios.size() / 2].ratio, ratios[ratios.size() / 10].ratio);
    for (size_t i = 0; i < std::min<size_t>(10, ratios.size()); ++i) {
      const Ratio& r = ratios[i];
      std::printf("%5ld x %6ld x %5ld %-11s %8.1f us %.3f: %s\n", static_cast<long>(r.shape.m), static_cast<long>(r.shape.n),
                  static_cast<long>(r.shape.k), r.choice.c_str(), r.us, r.ratio, bench.reason(dtype, r.shape.m, r.shape.n, r.shape.k).c_str());
    }
  } else if (counted > 0)
    std::printf("geometric means over %d shapes, sustained: chosen %.3f, best configuration %.3f of cuBLASLt\n",
                counted, std::exp(logs[0] / counted), std::exp(logs[1] / counted));
  char means[96];
  std::snprintf(means, sizeof means, ", \"counted\": %d, \"geometric_mean\": %.4f", counted, counted > 0 ? std::exp(logs[0] / counted) : 0.0);
  close_json(means);
  return bench.failed ? 1 : 0;
}
