// Attention on a GPU: every path of the prefill and decode kernels and the kernel of rows, checked in fp64 and timed on
// the anchor shapes. Cold L2 by rotating buffers, normal random data, candidates in shuffled order, medians; sustained (back to
// back) and with gaps (8 ms of rest before each launch), since the chip is limited by power. Peers (cuDNN, FA2,
// FlexAttention) are beside it in benchmarks/peers/run.py, in one process through the C ABI.
//
// One query per sequence is timed with events, and short rows also per node of a graph of 48 over rotating buffers.
//
//   monotile_attention [--seconds S] [--regimes 1|2] [--decode 1] [--rows N]
//
// --decode 1: only one query per sequence. --rows: only row N of the timed shapes.
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
  int page = 0;                ///< 0: dense
  bool tokens_first = false;   ///< pages [token, head, dim] instead of [head, token, dim]
  std::vector<int> lengths{};  ///< at most `keys`; empty: all of them
  int length(int sequence) const { return lengths.empty() ? keys : lengths[static_cast<size_t>(sequence)]; }
  int columns() const { return page == 0 ? 0 : (keys + page - 1) / page; }
  int64_t rows() const { return static_cast<int64_t>(batch) * (page == 0 ? keys : columns() * page); }
  int64_t all_keys() const {
    int64_t all = 0;
    for (int i = 0; i < batch; ++i) all += length(i);
    return all;
  }
};
/// What the kernel that checks knows of it.
struct Layout {
  int batch, queries, heads, kv_heads, dim;
  bool causal;
  int page, columns;
  int64_t page_stride, head_stride, token_stride;
  const int32_t *kv_start, *kv_length, *table;
  __device__ int64_t row(int64_t sequence, int key, int head) const {
    if (page == 0) return (kv_start[sequence] + static_cast<int64_t>(key)) * token_stride + head * head_stride;
    return table[sequence * columns + key / page] * page_stride + key % page * token_stride + head * head_stride;
  }
};
Layout layout_of(const Shape& s, const int32_t* tables, const int32_t* table) {
  const bool heads_first = s.page > 0 && !s.tokens_first;
  return {s.batch,
          s.queries,
          s.heads,
          s.kv_heads,
          s.dim,
          s.causal,
          s.page,
          s.columns(),
          int64_t{1} * s.page * s.kv_heads * s.dim,
          heads_first ? int64_t{1} * s.page * s.dim : s.dim,
          heads_first ? s.dim : int64_t{1} * s.kv_heads * s.dim,
          tables + 1024,
          tables + 2048,
          table};
}
struct Buffers {
  __nv_bfloat16 *q, *k, *v, *out;
};
/// One (query, head) per block, in fp64: adds up |difference|^2 and |result|^2.
__global__ void verify(Layout s, Buffers b, int rows, double* sums) {
  constexpr int kChunk = 2048;
  __shared__ double weight[kChunk];
  const uint64_t pick = mix(blockIdx.x * 2 + 1) % (static_cast<uint64_t>(s.batch) * s.queries * s.heads);
  const int64_t row = rows == 0 ? blockIdx.x : static_cast<int64_t>(pick);
  const int head = static_cast<int>(row % s.heads), kv_head = head / (s.heads / s.kv_heads);
  const int64_t token = row / s.heads, sequence = token / s.queries;
  const int keys = s.kv_length[sequence];
  const int last = s.causal ? static_cast<int>(token % s.queries) + keys - s.queries + 1 : keys;
  const __nv_bfloat16* q = b.q + row * s.dim;
  double sum = 0, y[2] = {0, 0};  // of two columns at most
  for (int first = 0; first < last; first += kChunk) {
    const int count = last - first < kChunk ? last - first : kChunk;
    for (int j = threadIdx.x; j < count; j += blockDim.x) {
      const __nv_bfloat16* k = b.k + s.row(sequence, first + j, kv_head);
      double x = 0;
      for (int d = 0; d < s.dim; ++d) x += static_cast<double>(__bfloat162float(q[d])) * __bfloat162float(k[d]);
      weight[j] = exp(x / sqrt(static_cast<double>(s.dim)));  // normal data: no overflow in fp64
    }
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      const __nv_bfloat16* v = b.v + s.row(sequence, first + j, kv_head);
      sum += weight[j];
      for (int i = 0; i < 2; ++i) {
        const int d = static_cast<int>(threadIdx.x) + i * 128;
        if (d < s.dim) y[i] += weight[j] * __bfloat162float(v[d]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i) {
    const int d = static_cast<int>(threadIdx.x) + i * 128;
    if (d >= s.dim) continue;
    const double wanted = last > 0 ? y[i] / sum : 0, difference = __bfloat162float(b.out[row * s.dim + d]) - wanted;
    atomicAdd(&sums[0], difference * difference);
    atomicAdd(&sums[1], wanted * wanted);
  }
}

struct Candidate {
  std::string name;
  Plan<AttentionArgs> plan;
  std::vector<float> ms;
};

struct Bench {
  const DeviceInfo& info;
  cudaStream_t native;
  Stream stream;
  double* sums = nullptr;
  int32_t* tables = nullptr;
  int32_t* block_table = nullptr;
  void* workspace = nullptr;
  bool failed = false;
  static constexpr size_t kMostEntries = size_t{1} << 20;

  static cudaStream_t make_stream() {
    cudaStream_t s = nullptr;
    check(cudaStreamCreate(&s), "stream");
    return s;
  }
  explicit Bench(const DeviceInfo& device) : info(device), native(make_stream()), stream(device.device, native) {
    check(cudaMallocManaged(&sums, 16), "memory");
    check(cudaMalloc(&tables, 4096 * sizeof(int32_t)), "memory");
    check(cudaMalloc(&block_table, kMostEntries * sizeof(int32_t)), "memory");
    check(cudaMalloc(&workspace, size_t{1} << 30), "workspace");
  }
  TensorView view(void* data, DType dtype, std::initializer_list<int64_t> extents) const {
    TensorView t(data, dtype, extents);
    t.device = info.device;
    return t;
  }
  AttentionArgs args(const Shape& s, const Buffers& b) const {
    const int64_t tokens = static_cast<int64_t>(s.batch) * s.queries;
    AttentionArgs a;
    a.q = view(b.q, DType::bf16, {tokens, s.heads, s.dim});
    a.out = view(b.out, DType::bf16, {tokens, s.heads, s.dim});
    const auto cache = [&](__nv_bfloat16* data) {
      if (s.page == 0) return view(data, DType::bf16, {s.rows(), s.kv_heads, s.dim});
      TensorView t = view(data, DType::bf16, {s.rows() / s.page, s.kv_heads, s.page, s.dim});
      if (s.tokens_first) {
        t.stride[1] = s.dim;
        t.stride[2] = int64_t{1} * s.kv_heads * s.dim;
      }
      return t;
    };
    a.key_cache = cache(b.k);
    a.value_cache = cache(b.v);
    a.q_start = view(tables, DType::i32, {s.batch + 1});
    if (s.page == 0)
      a.kv_start = view(tables + 1024, DType::i32, {s.batch});
    else
      a.block_table = view(block_table, DType::i32, {s.batch, s.columns()});
    a.kv_length = view(tables + 2048, DType::i32, {s.batch});
    a.causal = s.causal;
    a.max_query = s.queries;
    a.max_kv_length = s.keys;
    return a;
  }
  void set_tables(const Shape& s) const {
    check(cudaDeviceSynchronize(), "synchronize");
    std::vector<int32_t> t(4096);
    for (int i = 0; i <= s.batch; ++i) t[static_cast<size_t>(i)] = i * s.queries;
    for (int i = 0; i < s.batch; ++i) {
      t[static_cast<size_t>(1024 + i)] = i * s.keys;
      t[static_cast<size_t>(2048 + i)] = s.length(i);
    }
    check(cudaMemcpy(tables, t.data(), t.size() * sizeof(int32_t), cudaMemcpyHostToDevice), "tables");
    if (s.page == 0) return;
    std::vector<int32_t> pages(static_cast<size_t>(s.batch) * s.columns());
    if (pages.size() > kMostEntries) std::abort();
    for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(i);
    std::shuffle(pages.begin(), pages.end(), std::mt19937(5));
    check(cudaMemcpy(block_table, pages.data(), pages.size() * sizeof(int32_t), cudaMemcpyHostToDevice), "tables");
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
    check(cudaDeviceSynchronize(), name);
    verify<<<static_cast<unsigned>(rows == 0 ? all : rows), 128>>>(layout_of(s, tables, block_table), b, rows, sums);
    check(cudaDeviceSynchronize(), name);
    const double error = std::sqrt(sums[0] / sums[1]);
    if (error <= 5e-3) return;
    failed = true;
    std::printf("WRONG: %s %s: error %g\n", name, name_of(s).c_str(), error);
  }
  static std::string name_of(const Shape& s) {
    char text[160];
    std::snprintf(text, sizeof text, "b%d q%d k%d%s h%d/%d d%d %s", s.batch, s.queries, s.keys,
                  s.lengths.empty() ? "" : " ragged", s.heads, s.kv_heads, s.dim, s.causal ? "causal" : "full");
    return s.page == 0 ? text : text + std::string(" page ") + std::to_string(s.page) + (s.tokens_first ? " nhd" : "");
  }
  /// Device time of a call, in a graph of many over rotating buffers.
  float graph_us(const Candidate& c, const Shape& s, const std::vector<Buffers>& buffers) {
    constexpr int kNodes = 48;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    check(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < kNodes; ++i)
      c.plan.run(stream, args(s, buffers[static_cast<size_t>(i) % buffers.size()]), workspace);
    check(cudaStreamEndCapture(native, &graph), "capture");
    check(cudaGraphInstantiate(&exec, graph, 0), "graph");
    cudaEvent_t before, after;
    check(cudaEventCreate(&before), "event"), check(cudaEventCreate(&after), "event");
    std::vector<float> us;
    for (int r = -2; r < 15; ++r) {
      spin<<<1, 32, 0, native>>>(60000);
      check(cudaEventRecord(before, native), "record");
      check(cudaGraphLaunch(exec, native), "launch");
      check(cudaEventRecord(after, native), "record");
      check(cudaEventSynchronize(after), c.name.c_str());
      float ms = 0;
      check(cudaEventElapsedTime(&ms, before, after), "elapsed");
      if (r >= 0) us.push_back(ms * 1e3f / kNodes);
    }
    check(cudaGraphExecDestroy(exec), "graph"), check(cudaGraphDestroy(graph), "graph");
    check(cudaEventDestroy(before), "event"), check(cudaEventDestroy(after), "event");
    std::sort(us.begin(), us.end());
    return us[us.size() / 2];
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
  bool decode = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seconds") seconds = std::atof(argv[i + 1]);
    if (option == "--regimes") regimes = std::atoi(argv[i + 1]);
    if (option == "--decode") decode = std::atoi(argv[i + 1]) != 0;
    if (option == "--rows") only = std::atoi(argv[i + 1]);
  }
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  Bench bench(device_info(parse_device("cuda")));
  std::printf("%s, path %s, %s\n", bench.info.name.c_str(), bench.info.path.c_str(), bench.info.driver.c_str());

  constexpr size_t kPool = size_t{6} << 30;
  char* pool = nullptr;
  check(cudaMalloc(&pool, kPool), "pool");
  const auto buffers_at = [&](const Shape& s, size_t& place) {
    const auto take = [&](int64_t elements) {
      auto* p = reinterpret_cast<__nv_bfloat16*>(pool + place);
      place += (static_cast<size_t>(elements) * 2 + 255) / 256 * 256;
      return p;
    };
    const int64_t q = static_cast<int64_t>(s.batch) * s.queries * s.heads * s.dim, k = s.rows() * s.kv_heads * s.dim;
    return Buffers{take(q), take(k), take(k), take(q)};
  };
  fill_normal<<<2048, 256>>>(reinterpret_cast<__nv_bfloat16*>(pool), kPool / 2, 1);

  std::vector<Shape> odd;
  for (const int dim : {40, 64, 80, 96, 128, 192, 256}) {
    if (only >= 0) break;
    for (const bool causal : {true, false}) {
      for (const auto& [queries, keys] :
           std::vector<std::pair<int, int>>{{1, 1}, {128, 128}, {77, 301}, {300, 300}, {129, 1000}}) {
        if (!decode || queries == 1) odd.push_back({2, queries, keys, 4, 2, dim, causal});
      }
    }
    for (const int page : {0, 1, 3, 8, 16, 24, 64, 128}) {
      Shape s{9, 1, 1200, 8, 2, dim, true, page, page == 8 || page == 3};
      s.lengths = {1, 0, 1200, 255, 256, 257, 31, 700, 513};
      odd.push_back(s);
    }
    Shape s{1, 1, 20000, 8, 1, dim, true, 16};  // splits of 512 keys
    odd.push_back(s);
  }
  for (const int heads : {1, 3, 7, 16, 24, 48}) {
    if (only < 0) odd.push_back({3, 1, 900, heads * 2, 2, 128, true, 16});
  }
  for (const Shape& s : odd) {
    size_t place = 0;
    const Buffers b = buffers_at(s, place);
    bench.set_tables(s);
    for (Candidate& c : bench.candidates(s, b)) {
      check(cudaMemset(b.out, 0xff, static_cast<size_t>(s.batch) * s.queries * s.heads * s.dim * 2), "poison");
      c.plan.run(bench.stream, bench.args(s, b), bench.workspace);
      bench.verify_result(c.name.c_str(), s, b, 0);
    }
  }
  if (only < 0) std::printf("small and odd shapes: %s\n", bench.failed ? "WRONG" : "right");
  std::fflush(stdout);

  std::vector<Shape> shapes;
  for (const bool causal : {false, true}) {
    if (decode) break;
    shapes.push_back({8, 2048, 2048, 32, 32, 128, causal});
    shapes.push_back({4, 4096, 4096, 32, 8, 128, causal});
    shapes.push_back({1, 16384, 16384, 32, 8, 128, causal});
    shapes.push_back({8, 2048, 2048, 32, 32, 64, causal});
  }
  for (const int batch : {1, 16, 64, 128}) {
    for (const int page : {0, 16}) shapes.push_back({batch, 1, 4096, 32, 8, 128, true, page});
  }
  for (const int page : {0, 16}) shapes.push_back({1, 1, 65536, 32, 8, 128, true, page});
  for (const int page : {1, 4, 8, 64, 128}) shapes.push_back({64, 1, 4096, 32, 8, 128, true, page});
  shapes.push_back({64, 1, 4096, 32, 8, 128, true, 16, true});
  shapes.push_back({64, 1, 4096, 32, 8, 64, true, 16});
  shapes.push_back({64, 1, 4096, 32, 4, 256, true, 16});
  Shape ragged{16, 1, 65536, 32, 8, 128, true, 16};
  std::mt19937 lengths(3);
  for (int i = 0; i < 16; ++i)
    ragged.lengths.push_back(i == 0 ? 1 : i == 1 ? 65536 : static_cast<int>(lengths() % 65536) + 1);
  shapes.push_back(ragged);
  if (only >= 0) shapes = {shapes.at(static_cast<size_t>(only))};
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
    if (end > kPool) std::abort();
    fill_normal<<<2048, 256>>>(reinterpret_cast<__nv_bfloat16*>(pool), kPool / 2, 1);
    bench.set_tables(s);
    std::vector<Candidate> all = bench.candidates(s, buffers[0]);
    const double pairs = s.queries == 1 ? static_cast<double>(s.all_keys())
                                        : s.batch * (static_cast<double>(s.queries) * s.keys -
                                                     (s.causal ? 0.5 * s.queries * (s.queries - 1.0) : 0.0));
    const double flops = 4.0 * s.heads * s.dim * pairs;
    const double bytes =
        4.0 * s.dim *
        (static_cast<double>(s.all_keys()) * s.kv_heads + static_cast<double>(s.batch) * s.queries * s.heads);
    size_t turn = 0;
    for (int regime = 0; regime < (s.queries > 1 ? regimes : 1); ++regime) {
      for (int r = -2; r < (regime == 1 ? 9 : 21); ++r) {
        std::shuffle(all.begin(), all.end(), random);
        for (Candidate& c : all) {
          if ((s.queries > 1 ? c.name != "tiles" : c.name != "decode") && r > (s.queries > 1 ? 0 : 2))
            continue;  // it takes its time
          const Buffers& b = buffers[turn++ % buffers.size()];
          if (regime == 1) {
            check(cudaDeviceSynchronize(), "synchronize");
            std::this_thread::sleep_for(std::chrono::milliseconds(8));
          }
          spin<<<1, 32, 0, bench.native>>>(60000);
          check(cudaEventRecord(before, bench.native), "record");
          c.plan.run(bench.stream, bench.args(s, b), bench.workspace);
          check(cudaEventRecord(after, bench.native), "record");
          check(cudaEventSynchronize(after), c.name.c_str());
          float ms = 0;
          check(cudaEventElapsedTime(&ms, before, after), "elapsed");
          if (r >= 0) c.ms.push_back(ms);
        }
      }
      for (Candidate& c : all) {
        const float ms = median(c.ms);
        std::printf("%s %s %s: %.1f us, %.0f TFLOP/s, %.0f GB/s\n", bench.name_of(s).c_str(),
                    regime == 1 ? "gap" : "sustained", c.name.c_str(), ms * 1e3, flops / ms * 1e-9, bytes / ms * 1e-6);
        c.ms.clear();
        if (s.queries > 1 || c.name != "decode" || ms > 0.3f) continue;
        const float us = bench.graph_us(c, s, buffers);
        std::printf("%s graph %s: %.2f us, %.0f GB/s\n", bench.name_of(s).c_str(), c.name.c_str(), us,
                    bytes / us * 1e-3);
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
