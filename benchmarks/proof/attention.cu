// Attention on a GPU: every path of the prefill kernel and the kernel of rows, checked in fp64 and timed on the anchor
// shapes. Cold L2 by rotating buffers, normal random data, candidates in shuffled order, medians; sustained (back to
// back) and with gaps (8 ms of rest before each launch), since the chip is limited by power. Peers (cuDNN, FA2,
// FlexAttention) are beside it in benchmarks/peers/run.py, in one process through the C ABI.
//
//   monotile_attention [--seconds S] [--regimes 1|2] [--rows N] [--heads-first 0|1]
//
// --rows: only row N of the timed shapes. --heads-first: rows of a head lie together, instead of heads of a row.
//
// Exit code 1 if a check fails.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "monotile/ops/attention.hpp"
#include "ops/attention/attention.hpp"

#include "common.cuh"

namespace {

using namespace monotile;  // NOLINT
using ops::AttentionArgs;
using proof::check;
using proof::mix;
using proof::spin;

__global__ void fill_normal(__nv_bfloat16* p, size_t n, uint64_t seed) {
  proof::each_normal(n, seed, [&](size_t i, float x) { p[i] = __float2bfloat16(x); });
}

struct Shape {
  int batch, queries, keys, heads, kv_heads, dim;
  bool causal;
};
struct Buffers {
  __nv_bfloat16 *q, *k, *v, *out;
};
/// One (query, head) per block, in fp64: adds up |difference|^2 and |result|^2.
__global__ void verify(Shape s, Buffers b, int rows, double* sums) {
  extern __shared__ double weight[];
  const uint64_t pick = mix(blockIdx.x * 2 + 1) % (static_cast<uint64_t>(s.batch) * s.queries * s.heads);
  const int64_t row = rows == 0 ? blockIdx.x : static_cast<int64_t>(pick);
  const int head = static_cast<int>(row % s.heads), kv_head = head / (s.heads / s.kv_heads);
  const int64_t token = row / s.heads, sequence = token / s.queries;
  const int last = s.causal ? static_cast<int>(token % s.queries) + s.keys - s.queries + 1 : s.keys;
  const __nv_bfloat16* q = b.q + row * s.dim;
  for (int j = threadIdx.x; j < last; j += blockDim.x) {
    const __nv_bfloat16* k = b.k + ((sequence * s.keys + j) * s.kv_heads + kv_head) * s.dim;
    double x = 0;
    for (int d = 0; d < s.dim; ++d) x += static_cast<double>(__bfloat162float(q[d])) * __bfloat162float(k[d]);
    weight[j] = exp(x / sqrt(static_cast<double>(s.dim)));  // normal data: no overflow in fp64
  }
  __syncthreads();
  for (int d = threadIdx.x; d < s.dim; d += blockDim.x) {
    double sum = 0, y = 0;
    for (int j = 0; j < last; ++j) {
      sum += weight[j];
      y += weight[j] * __bfloat162float(b.v[((sequence * s.keys + j) * s.kv_heads + kv_head) * s.dim + d]);
    }
    y = last > 0 ? y / sum : 0;
    const double difference = __bfloat162float(b.out[row * s.dim + d]) - y;
    atomicAdd(&sums[0], difference * difference);
    atomicAdd(&sums[1], y * y);
  }
}

struct Candidate {
  std::string name;
  Plan<AttentionArgs> plan;
  std::vector<float> ms;
};

struct Bench {
  const DeviceInfo& info;
  Stream stream;
  double* sums = nullptr;
  int32_t* tables = nullptr;
  void* workspace = nullptr;
  bool failed = false, heads_first = false;

  explicit Bench(const DeviceInfo& device) : info(device), stream(device.device, nullptr) {
    check(cudaMallocManaged(&sums, 16), "memory");
    check(cudaMallocManaged(&tables, 4096 * sizeof(int32_t)), "memory");
    check(cudaMalloc(&workspace, size_t{1} << 30), "workspace");
  }
  TensorView view(void* data, DType dtype, std::initializer_list<int64_t> extents) const {
    TensorView t(data, dtype, extents);
    t.device = info.device;
    return t;
  }
  AttentionArgs args(const Shape& s, const Buffers& b) const {
    const int64_t tokens = static_cast<int64_t>(s.batch) * s.queries, rows = static_cast<int64_t>(s.batch) * s.keys;
    AttentionArgs a;
    a.q = view(b.q, DType::bf16, {tokens, s.heads, s.dim});
    a.out = view(b.out, DType::bf16, {tokens, s.heads, s.dim});
    a.key_cache = view(b.k, DType::bf16, {rows, s.kv_heads, s.dim});
    a.value_cache = view(b.v, DType::bf16, {rows, s.kv_heads, s.dim});
    if (heads_first) {
      for (TensorView* t : {&a.q, &a.out, &a.key_cache, &a.value_cache})
        t->stride[0] = s.dim, t->stride[1] = t->extent[0] * s.dim;
    }
    a.q_start = view(tables, DType::i32, {s.batch + 1});
    a.kv_start = view(tables + 1024, DType::i32, {s.batch});
    a.kv_length = view(tables + 2048, DType::i32, {s.batch});
    a.causal = s.causal;
    a.max_query = s.queries;
    a.max_kv_length = s.keys;
    return a;
  }
  void set_tables(const Shape& s) const {
    check(cudaDeviceSynchronize(), "synchronize");
    for (int i = 0; i <= s.batch; ++i) tables[i] = i * s.queries;
    for (int i = 0; i < s.batch; ++i) tables[1024 + i] = i * s.keys, tables[2048 + i] = s.keys;
  }
  std::vector<Candidate> candidates(const Shape& s, const Buffers& b) {
    std::vector<Candidate> all;
    const AttentionArgs a = args(s, b);
    for (const auto* implementation : {&ops::attention_decode_tiles, &ops::attention_tiles, &ops::attention_portable}) {
      if (implementation->supports(a, info) != nullptr) continue;
      Candidate c{implementation->name, {}, {}};
      c.plan.implementation = implementation;
      c.plan.device = &info;
      implementation->plan(a, info, c.plan);
      if (c.plan.workspace_bytes <= size_t{1} << 30) all.push_back(c);
    }
    return all;
  }
  void verify_result(const char* name, const Shape& s, const Buffers& b, int rows) {
    sums[0] = sums[1] = 0;
    const int64_t all = static_cast<int64_t>(s.batch) * s.queries * s.heads;
    const size_t bytes = static_cast<size_t>(s.keys) * sizeof(double);
    check(cudaFuncSetAttribute(verify, cudaFuncAttributeMaxDynamicSharedMemorySize, 160 * 1024), "attribute");
    if (heads_first || bytes > 160 * 1024) return;  // the longest shapes are checked at their shorter sisters
    verify<<<static_cast<unsigned>(rows == 0 ? all : rows), 128, bytes>>>(s, b, rows, sums);
    check(cudaDeviceSynchronize(), name);
    const double error = std::sqrt(sums[0] / sums[1]);
    if (error <= 5e-3) return;
    failed = true;
    std::printf("WRONG: %s b%d q%d k%d h%d/%d d%d causal %d: error %g\n", name, s.batch, s.queries, s.keys, s.heads,
                s.kv_heads, s.dim, s.causal, error);
  }
};
float median(std::vector<float> v) {
  if (v.empty()) return 1e9f;
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 80;
  int regimes = 2, only = -1;
  bool heads_first = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seconds") seconds = std::atof(argv[i + 1]);
    if (option == "--regimes") regimes = std::atoi(argv[i + 1]);
    if (option == "--rows") only = std::atoi(argv[i + 1]);
    if (option == "--heads-first") heads_first = std::atoi(argv[i + 1]) != 0;
  }
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  Bench bench(device_info(parse_device("cuda")));
  std::printf("%s, path %s, %s\n", bench.info.name.c_str(), bench.info.path.c_str(), bench.info.driver.c_str());

  constexpr size_t kPool = size_t{3} << 30;
  char* pool = nullptr;
  check(cudaMalloc(&pool, kPool), "pool");
  const auto buffers_at = [&](const Shape& s, size_t& place) {
    const auto take = [&](int64_t elements) {
      auto* p = reinterpret_cast<__nv_bfloat16*>(pool + place);
      place += (static_cast<size_t>(elements) * 2 + 255) / 256 * 256;
      return p;
    };
    const int64_t q = static_cast<int64_t>(s.batch) * s.queries * s.heads * s.dim,
                  k = static_cast<int64_t>(s.batch) * s.keys * s.kv_heads * s.dim;
    return Buffers{take(q), take(k), take(k), take(q)};
  };
  fill_normal<<<2048, 256>>>(reinterpret_cast<__nv_bfloat16*>(pool), kPool / 2, 1);

  for (const int dim : {40, 64, 80, 96, 128, 192, 256}) {
    if (only >= 0) break;
    for (const bool causal : {true, false}) {
      for (const auto& [queries, keys] :
           std::vector<std::pair<int, int>>{{1, 1}, {128, 128}, {77, 301}, {300, 300}, {129, 1000}}) {
        const Shape s{2, queries, keys, 4, 2, dim, causal};
        size_t place = 0;
        const Buffers b = buffers_at(s, place);
        bench.set_tables(s);
        for (Candidate& c : bench.candidates(s, b)) {
          check(cudaMemset(b.out, 0xff, static_cast<size_t>(2 * queries * 4 * dim) * 2), "poison");
          c.plan.run(bench.stream, bench.args(s, b), bench.workspace);
          bench.verify_result(c.name.c_str(), s, b, 0);
        }
      }
    }
  }
  std::printf("small and odd shapes: %s\n", bench.failed ? "WRONG" : "right");
  std::fflush(stdout);

  std::vector<Shape> shapes;
  for (const bool causal : {false, true}) {
    shapes.push_back({8, 2048, 2048, 32, 32, 128, causal});
    shapes.push_back({4, 4096, 4096, 32, 8, 128, causal});
    shapes.push_back({1, 16384, 16384, 32, 8, 128, causal});
    shapes.push_back({8, 2048, 2048, 32, 32, 64, causal});
  }
  for (const int batch : {1, 16, 64, 128}) shapes.push_back({batch, 1, 4096, 32, 8, 128, true});
  shapes.push_back({1, 1, 65536, 32, 8, 128, true});
  if (only >= 0) shapes = {shapes.at(static_cast<size_t>(only))};
  bench.heads_first = heads_first;
  cudaEvent_t before, after;
  check(cudaEventCreate(&before), "event"), check(cudaEventCreate(&after), "event");
  std::mt19937 random(1);
  for (const Shape& s : shapes) {
    if (elapsed() > seconds) {
      std::printf("stopped: %.0f s are over\n", seconds);
      break;
    }
    std::vector<Buffers> buffers;  // together more than twice what the L2 holds
    size_t place = 0, end = 0;
    do {
      place = end;
      buffers.push_back(buffers_at(s, end));
    } while (end + (end - place) <= kPool && buffers.size() < 48);
    fill_normal<<<2048, 256>>>(reinterpret_cast<__nv_bfloat16*>(pool), kPool / 2, 1);
    bench.set_tables(s);
    std::vector<Candidate> all = bench.candidates(s, buffers[0]);
    const double pairs =
        static_cast<double>(s.queries) * s.keys - (s.causal ? 0.5 * s.queries * (s.queries - 1.0) : 0.0);
    const double flops = 4.0 * s.batch * s.heads * s.dim * pairs;
    const double bytes =
        4.0 * s.batch * s.dim * (static_cast<double>(s.keys) * s.kv_heads + static_cast<double>(s.queries) * s.heads);
    size_t turn = 0;
    for (int regime = 0; regime < (s.queries > 1 ? regimes : 1); ++regime) {
      for (int r = -2; r < (regime == 1 ? 9 : 21); ++r) {
        std::shuffle(all.begin(), all.end(), random);
        for (Candidate& c : all) {
          if (s.queries > 1 && c.name != "tiles" && r > 0) continue;  // it takes its time
          const Buffers& b = buffers[turn++ % buffers.size()];
          if (regime == 1) {
            check(cudaDeviceSynchronize(), "synchronize");
            std::this_thread::sleep_for(std::chrono::milliseconds(8));
          }
          spin<<<1, 32>>>(60000);
          check(cudaEventRecord(before), "record");
          c.plan.run(bench.stream, bench.args(s, b), bench.workspace);
          check(cudaEventRecord(after), "record");
          check(cudaEventSynchronize(after), c.name.c_str());
          float ms = 0;
          check(cudaEventElapsedTime(&ms, before, after), "elapsed");
          if (r >= 0) c.ms.push_back(ms);
        }
      }
      for (Candidate& c : all) {
        const float ms = median(c.ms);
        std::printf("b%d q%d k%d h%d/%d d%d %s %s %s: %.1f us, %.0f TFLOP/s, %.0f GB/s\n", s.batch, s.queries, s.keys,
                    s.heads, s.kv_heads, s.dim, s.causal ? "causal" : "full", regime == 1 ? "gap" : "sustained",
                    c.name.c_str(), ms * 1e3, flops / ms * 1e-9, bytes / ms * 1e-6);
        c.ms.clear();
      }
      std::fflush(stdout);
    }
    for (Candidate& c : all) {
      c.plan.run(bench.stream, bench.args(s, buffers[0]), bench.workspace);
      bench.verify_result(c.name.c_str(), s, buffers[0], 512);
    }
  }
  return bench.failed ? 1 : 0;
}
