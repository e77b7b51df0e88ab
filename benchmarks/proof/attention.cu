// Attention on a GPU: every path of the prefill and decode kernels and the kernel of rows, checked in fp64, and timed beside
// cuDNN where it is found (dlopen, and its front end's headers at build time). Cold L2 by rotating buffers, normal random
// data, candidates in shuffled order, medians; sustained (back to back) and with gaps (8 ms of rest before each launch),
// since the chip is limited by power. One query per sequence is timed with events, and short rows also per node of a graph
// of 48 over rotating buffers. FA2 and FlexAttention are beside it in benchmarks/peers/run.py, through the C ABI.
//
//   monotile_attention [--set main|anchors|wide|variants|decode|masks|codes|random] [--seconds S] [--regimes 1|2] [--rows N] [--json FILE]
//
// main: the anchors, decode and masks at equal work, the path of Ampere beside each anchor and each decode row. decode: one
// query per sequence alone, more pages and heads. codes: the anchors in 16 bits and in e4m3. wide: head dimensions above 128. variants: the anchors by the
// loops of attention_variants.cu. random: 100 shapes that nobody chose (a fixed seed), the chosen
// implementation against cuDNN, and the ten worst with what is known about why. --rows: only row N of the set.
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

#include "bench/cuda/cudnn.hpp"
#include "monotile/ops/attention.hpp"
#include "ops/attention/attention.hpp"
#include "ops/attention/tile_params.hpp"
#include "runtime/scoped_target.hpp"

#include "attention_shapes.cuh"
#include "attention_variants.cuh"

namespace {

using namespace monotile;  // NOLINT
using ops::AttentionArgs;
using proof::Buffers;
using proof::check;
using proof::Layout;
using proof::Shape;
using proof::spin;

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
          table,
          s.mask};
}
struct Candidate {
  std::string name;
  Plan<AttentionArgs> plan;
  std::function<void(Stream&, const AttentionArgs&)> peer;  ///< in place of the plan
  bool quick = true;                                        ///< others are timed a few times only
  std::vector<float> ms;
};
/// What was measured of one candidate on one shape.
struct Result {
  std::string shape, regime, candidate;
  double us, tflops, gbs, cudnn;  ///< of cuDNN's time in the same run; 0: there is none
};

struct Bench {
  const DeviceInfo& info;
  cudaStream_t native;
  Stream stream;
  double* sums = nullptr;
  int32_t* tables = nullptr;
  int32_t* block_table = nullptr;
  int32_t* key_ranges = nullptr;
  float* slopes = nullptr;
  float* code_scale = nullptr;
  void* workspace = nullptr;
  bool failed = false;
  static constexpr size_t kMostEntries = size_t{1} << 20;
  static constexpr int kMostKeys = 16384;  ///< of masks that have a table of positions

  static cudaStream_t make_stream() {
    cudaStream_t s = nullptr;
    check(cudaStreamCreate(&s), "stream");
    return s;
  }
  explicit Bench(const DeviceInfo& device) : info(device), native(make_stream()), stream(device.device, native) {
    check(cudaMallocManaged(&sums, 16), "memory");
    check(cudaMalloc(&tables, 4096 * sizeof(int32_t)), "memory");
    check(cudaMalloc(&block_table, kMostEntries * sizeof(int32_t)), "memory");
    check(cudaMalloc(&key_ranges, 2 * kMostKeys * sizeof(int32_t)), "memory");
    check(cudaMalloc(&slopes, 256 * sizeof(float)), "memory");
    check(cudaMalloc(&code_scale, sizeof(float)), "memory");
    check(cudaMemcpy(code_scale, &proof::kCodeScale, sizeof(float), cudaMemcpyHostToDevice), "scale");
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
    if (s.codes) {
      for (TensorView* t : {&a.q, &a.key_cache, &a.value_cache}) {
        t->data = b.codes + (static_cast<__nv_bfloat16*>(t->data) - b.q);
        t->dtype = DType::f8_e4m3;
      }
      a.q_scale = a.key_scale = a.value_scale = view(code_scale, DType::f32, {1});
    }
    a.window = s.mask.window;
    a.softcap = s.mask.softcap;
    if (s.mask.prefix > 0) a.prefix_length = view(tables + 3072, DType::i32, {s.batch});
    if (s.mask.alibi) a.alibi_slopes = view(slopes, DType::f32, {s.heads});
    if (s.mask.document > 0) {
      a.key_ranges = view(key_ranges, DType::i32, {s.batch, s.keys, 2});
      a.key_ranges.stride[0] = 0;  // the same for all
    }
    return a;
  }
  void set_tables(const Shape& s) const {
    check(cudaDeviceSynchronize(), "synchronize");
    std::vector<int32_t> t(4096);
    for (int i = 0; i <= s.batch; ++i) t[static_cast<size_t>(i)] = i * s.queries;
    for (int i = 0; i < s.batch; ++i) {
      t[static_cast<size_t>(1024 + i)] = i * s.keys;
      t[static_cast<size_t>(2048 + i)] = s.length(i);
      t[static_cast<size_t>(3072 + i)] = s.mask.prefix;
    }
    check(cudaMemcpy(tables, t.data(), t.size() * sizeof(int32_t), cudaMemcpyHostToDevice), "tables");
    if (s.mask.alibi) {
      std::vector<float> of_heads;
      for (int h = 0; h < s.heads; ++h) of_heads.push_back(s.mask.slope(h, s.heads));
      check(cudaMemcpy(slopes, of_heads.data(), of_heads.size() * sizeof(float), cudaMemcpyHostToDevice), "slopes");
    }
    if (s.mask.document > 0) {
      std::vector<int32_t> ranges;
      if (s.keys > kMostKeys) std::abort();
      for (int i = 0; i < s.keys; ++i) {
        const int first = i / s.mask.document * s.mask.document;
        ranges.push_back(first), ranges.push_back(std::min(first + s.mask.document, s.keys));
      }
      check(cudaMemcpy(key_ranges, ranges.data(), ranges.size() * sizeof(int32_t), cudaMemcpyHostToDevice), "ranges");
    }
    if (s.page == 0) return;
    std::vector<int32_t> pages(static_cast<size_t>(s.batch) * s.columns());
    if (pages.size() > kMostEntries) std::abort();
    for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int32_t>(i);
    std::shuffle(pages.begin(), pages.end(), std::mt19937(5));
    check(cudaMemcpy(block_table, pages.data(), pages.size() * sizeof(int32_t), cudaMemcpyHostToDevice), "tables");
  }
  /// Our implementations that can do this call, on the path that is chosen now.
  std::vector<Candidate> candidates(const Shape& s, const Buffers& b, const std::string& path = "") {
    std::vector<Candidate> all;
    const AttentionArgs a = args(s, b);
    for (const auto* implementation : {&ops::attention_decode_tiles, &ops::attention_tiles, &ops::attention_portable,
                                       &ops::attention_codes, &ops::attention_widened}) {
      if (implementation->supports(a, info) != nullptr) continue;
      Candidate c{implementation->name + path, {}, {}, {}, {}};
      c.plan.implementation = implementation;
      c.plan.device = &info;
      implementation->plan(a, info, c.plan);
      c.quick = s.codes || implementation == (s.queries > 1 ? &ops::attention_tiles : &ops::attention_decode_tiles);
      if (c.plan.workspace_bytes <= size_t{1} << 30) all.push_back(c);
    }
    return all;
  }
  /// The one that the dispatcher chooses.
  Candidate chosen(const Shape& s, const Buffers& b) {
    Candidate c{"", plan<AttentionArgs>(info.device, args(s, b)), {}, {}, {}};
    c.name = c.plan.implementation->name;
    c.quick = c.name != "portable";
    return c;
  }
  /// The loops of attention_variants.cu.
  void add_variants(std::vector<Candidate>& all, const Shape& s, const Buffers& b) {
    namespace fill = ops::attention_params;
    for (const proof::Variant& v : proof::attention_variants()) {
      if (v.dim != s.dim || s.mask.any() || s.codes || !fill::suits_copy_engine(args(s, b), v.bn)) continue;
      const auto launch = [this, v](Stream& on, const AttentionArgs& a) {
        const int64_t heads = fill::heads_per_tile(a, v.bm, true);
        auto p = fill::prefill_params<kernels::SpanMask>(a, heads, v.bm / heads, v.bn);
        fill::fill_score(p.score, a);
        p.queue = v.queue;
        v.launch(on, Grid{info.units, 0}, p);
      };
      all.push_back({v.name, {}, launch, true, {}});
    }
  }
  void add_cudnn(std::vector<Candidate>& all, const Shape& s, const Buffers& b) {
    // Its call knows dense sequences of one length, and pages.
    if (s.codes || s.mask.any() || (s.page == 0 && !s.lengths.empty())) return;
    for (auto& peer : bench::cudnn_baseline(info, args(s, b)))
      all.push_back({"cuDNN", {}, std::move(peer.launch), true, {}});
  }
  void run(const Candidate& c, const Shape& s, const Buffers& b) {
    if (c.peer)
      c.peer(stream, args(s, b));
    else
      c.plan.run(stream, args(s, b), workspace);
  }
  void verify_result(const char* name, const Shape& s, const Buffers& b, int rows) {
    sums[0] = sums[1] = 0;
    const int64_t all = static_cast<int64_t>(s.batch) * s.queries * s.heads;
    check(cudaDeviceSynchronize(), name);
    proof::verify<<<static_cast<unsigned>(rows == 0 ? all : rows), 128>>>(layout_of(s, tables, block_table), b, rows,
                                                                          sums);
    check(cudaDeviceSynchronize(), name);
    const double error = std::sqrt(sums[0] / sums[1]);
    if (error <= (s.codes ? 0.03 : 5e-3)) return;
    failed = true;
    std::printf("WRONG: %s %s: error %g\n", name, s.name().c_str(), error);
  }
  /// Device time of a call, in graphs of many over rotating buffers, one candidate after the other in shuffled order.
  void time_graphs(std::vector<Candidate*> all, const Shape& s, const std::vector<Buffers>& buffers,
                   std::mt19937& random) {
    constexpr int kNodes = 48;
    struct Replay {
      Candidate* candidate;
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t exec = nullptr;
    };
    std::vector<Replay> replays;
    for (Candidate* c : all) {
      Replay replay{c};
      check(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal), "capture");
      bool captured = true;
      try {
        for (int i = 0; i < kNodes; ++i) run(*c, s, buffers[static_cast<size_t>(i) % buffers.size()]);
      } catch (const Error&) {  // a peer that cannot be captured
        captured = false;
      }
      captured = cudaStreamEndCapture(native, &replay.graph) == cudaSuccess && captured;
      if (captured) captured = cudaGraphInstantiate(&replay.exec, replay.graph, 0) == cudaSuccess;
      (void)cudaGetLastError();
      c->ms.clear();
      if (captured) replays.push_back(replay);
    }
    cudaEvent_t before, after;
    check(cudaEventCreate(&before), "event"), check(cudaEventCreate(&after), "event");
    for (int r = -2; r < 15; ++r) {
      std::shuffle(replays.begin(), replays.end(), random);
      for (Replay& replay : replays) {
        spin<<<1, 32, 0, native>>>(60000);
        check(cudaEventRecord(before, native), "record");
        check(cudaGraphLaunch(replay.exec, native), "launch");
        check(cudaEventRecord(after, native), "record");
        check(cudaEventSynchronize(after), replay.candidate->name.c_str());
        float ms = 0;
        check(cudaEventElapsedTime(&ms, before, after), "elapsed");
        if (r >= 0) replay.candidate->ms.push_back(ms / kNodes);
      }
    }
    for (Replay& replay : replays)
      check(cudaGraphExecDestroy(replay.exec), "graph"), check(cudaGraphDestroy(replay.graph), "graph");
    check(cudaEventDestroy(before), "event"), check(cudaEventDestroy(after), "event");
  }
};
float median(std::vector<float> v) {
  if (v.empty()) return 1e9f;
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// Figures of a regime: printed, and kept for the summary and the file.
void report(const Shape& s, const char* regime, std::vector<Candidate>& all, std::vector<Result>& results) {
  double cudnn = 0;
  for (const Candidate& c : all) {
    if (c.name == "cuDNN" && !c.ms.empty()) cudnn = median(c.ms) * 1e3;
  }
  const double flops = s.flops(), bytes = s.bytes();
  for (Candidate& c : all) {
    if (c.ms.empty()) continue;
    const double us = median(c.ms) * 1e3;
    results.push_back({s.name(), regime, c.name, us, flops / us * 1e-6, bytes / us * 1e-3, cudnn / us});
    const Result& r = results.back();
    std::printf("%s %s %s: %.2f us, %.0f TFLOP/s, %.0f GB/s", r.shape.c_str(), regime, r.candidate.c_str(), us,
                r.tflops, r.gbs);
    if (cudnn > 0 && c.name != "cuDNN") std::printf(", %.3f of cuDNN", r.cudnn);
    std::printf("\n");
    c.ms.clear();
  }
  std::fflush(stdout);
}
/// The time of a pair that is seen, beside that of the first row.
void summarise_masks(const std::vector<Shape>& shapes, const std::vector<Result>& results) {
  const auto tflops = [&](const Shape& s) {
    for (const Result& r : results) {
      if (r.shape == s.name() && r.regime == "sustained" && r.candidate == "tiles") return r.tflops;
    }
    return 0.0;
  };
  const Shape* plain = nullptr;
  for (const Shape& s : shapes) {
    if (s.queries == 1) continue;
    if (!s.mask.any() && s.causal && s.batch == 4) plain = &s;
    if (plain != nullptr && s.mask.any() && tflops(*plain) > 0 && tflops(s) > 0)
      std::printf("%s: %.3f of plain causal's speed at equal work\n", s.name().c_str(), tflops(s) / tflops(*plain));
  }
}
void summarise_random(const std::vector<Shape>& shapes, const std::vector<Result>& results, int multiprocessors) {
  struct Row {
    const Shape* shape;
    const Result* result;
  };
  std::vector<Row> rows;
  double logs = 0;
  for (const Shape& s : shapes) {
    for (const Result& r : results) {
      if (r.shape == s.name() && r.candidate != "cuDNN" && r.cudnn > 0)
        rows.push_back({&s, &r}), logs += std::log(r.cudnn);
    }
  }
  if (rows.empty()) return;
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.result->cudnn < b.result->cudnn; });
  std::printf(
      "%zu of %zu random shapes (cuDNN has no plan for the others): geometric mean %.3f of cuDNN, median %.3f, tenth "
      "%.3f; the worst ten:\n",
      rows.size(), shapes.size(), std::exp(logs / static_cast<double>(rows.size())),
      rows[rows.size() / 2].result->cudnn, rows[rows.size() / 10].result->cudnn);
  for (size_t i = 0; i < std::min<size_t>(10, rows.size()); ++i) {
    const Result& r = *rows[i].result;
    const std::string why = proof::reasons(*rows[i].shape, r.candidate, r.us, multiprocessors);
    std::printf("  %.3f %s (%s, %.1f us, %.0f TFLOP/s, %.0f GB/s): %s\n", r.cudnn, r.shape.c_str(), r.candidate.c_str(),
                r.us, r.tflops, r.gbs, why.empty() ? "nothing that is known applies" : why.c_str());
  }
}
void write_json(const std::string& path, const DeviceInfo& info, const std::vector<Result>& results) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::printf("cannot write %s\n", path.c_str());
    std::exit(1);
  }
  std::fprintf(file, "{\"device\": \"%s\", \"path\": \"%s\", \"driver\": \"%s\", \"rows\": [", info.name.c_str(),
               info.path.c_str(), info.driver.c_str());
  for (size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    std::fprintf(file,
                 "%s\n  {\"shape\": \"%s\", \"regime\": \"%s\", \"candidate\": \"%s\", \"us\": %.3f, \"tflops\": %.2f, "
                 "\"gb_per_s\": %.1f, \"of_cudnn\": %.4f}",
                 i == 0 ? "" : ",", r.shape.c_str(), r.regime.c_str(), r.candidate.c_str(), r.us, r.tflops, r.gbs,
                 r.cudnn);
  }
  std::fprintf(file, "\n]}\n");
  std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 80;
  int regimes = 2, only = -1;
  std::string set = "main", json;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seconds") seconds = std::atof(argv[i + 1]);
    if (option == "--regimes") regimes = std::atoi(argv[i + 1]);
    if (option == "--set") set = argv[i + 1];
    if (option == "--rows") only = std::atoi(argv[i + 1]);
    if (option == "--json") json = argv[i + 1];
  }
  const bool decode = set == "decode", random_set = set == "random", all_sets = set == "main";
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  Bench bench(device_info(parse_device("cuda")));
  std::printf("%s, path %s, %s\n", bench.info.name.c_str(), bench.info.path.c_str(), bench.info.driver.c_str());
  if (!bench::cudnn_absent().empty()) std::printf("%s\n", bench::cudnn_absent().c_str());

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
    Buffers b{take(q), take(k), take(k), take(q)};
    if (s.codes) b.codes = reinterpret_cast<__nv_fp8_e4m3*>(take(b.out - b.q));
    return b;
  };
  proof::fill_normal<<<2048, 256>>>(reinterpret_cast<__nv_bfloat16*>(pool), kPool / 2, 1);

  std::vector<Shape> odd;
  for (const int dim : {40, 64, 80, 96, 128, 192, 256}) {
    if (only >= 0 || random_set) break;
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
    if (only < 0 && !random_set) odd.push_back({3, 1, 900, heads * 2, 2, 128, true, 16});
  }
  for (const proof::Mask mask :
       {proof::Mask{.window = 70}, {.prefix = 90}, {.document = 100}, {.softcap = 2.0f}, {.alibi = true}}) {
    if (only >= 0 || random_set) break;
    for (const int dim : {64, 128}) {
      if (!decode) odd.push_back({2, 300, 411, 4, 2, dim, true, 0, false, {}, mask});
      odd.push_back({2, 1, 411, 4, 2, dim, true, 0, false, {}, mask});
    }
  }
  for (const int dim : {64, 80, 128}) {
    if (only >= 0 || set != "codes") break;
    for (const auto& [queries, keys] :
         std::vector<std::pair<int, int>>{{128, 128}, {77, 301}, {300, 300}, {129, 1000}}) {
      for (const bool causal : {true, false})
        odd.push_back({2, queries, keys, 4, 2, dim, causal, causal ? 0 : 16, false, {}, {}, true});
    }
  }
  for (const Shape& s : odd) {
    size_t place = 0;
    const Buffers b = buffers_at(s, place);
    if (s.codes) proof::make_codes<<<2048, 256>>>(b.q, b.codes, static_cast<size_t>(b.out - b.q));
    bench.set_tables(s);
    for (Candidate& c : bench.candidates(s, b)) {
      check(cudaMemset(b.out, 0xff, static_cast<size_t>(s.batch) * s.queries * s.heads * s.dim * 2), "poison");
      c.plan.run(bench.stream, bench.args(s, b), bench.workspace);
      bench.verify_result(c.name.c_str(), s, b, 0);
    }
  }
  if (!odd.empty()) std::printf("small and odd shapes: %s\n", bench.failed ? "WRONG" : "right");
  std::fflush(stdout);

  std::vector<Shape> shapes;
  const auto add = [&](const std::vector<Shape>& more) { shapes.insert(shapes.end(), more.begin(), more.end()); };
  if (set == "wide") add(proof::wide_shapes());
  if (all_sets || set == "anchors" || set == "variants") add(proof::anchor_shapes());
  if (all_sets || decode) add(proof::decode_shapes(decode));
  if (all_sets || set == "masks") add(proof::mask_shapes());
  if (set == "codes") add(proof::code_shapes());
  if (random_set) add(proof::random_shapes(100));
  std::vector<Result> results;
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
    proof::fill_normal<<<2048, 256>>>(reinterpret_cast<__nv_bfloat16*>(pool), kPool / 2, 1);
    for (const Buffers& b : buffers) {
      if (s.codes) proof::make_codes<<<2048, 256>>>(b.q, b.codes, static_cast<size_t>(b.out - b.q));
    }
    bench.set_tables(s);
    std::vector<Candidate> all;
    if (random_set)
      all.push_back(bench.chosen(s, buffers[0]));
    else
      all = bench.candidates(s, buffers[0]);
    if (set == "variants" || set == "wide") bench.add_variants(all, s, buffers[0]);
    if (s.queries > 1 && !random_set) std::erase_if(all, [](const Candidate& c) { return c.name == "portable"; });
    if (!random_set && !s.mask.any() && set != "codes" && set != "variants") {
      const ScopedTarget ampere(Target::cuda_sm80);
      for (Candidate& c : bench.candidates(s, buffers[0], " of Ampere")) {
        if (c.quick) all.push_back(c);
      }
    }
    bench.add_cudnn(all, s, buffers[0]);
    size_t turn = 0;
    for (int regime = 0; regime < (s.queries > 1 && !random_set ? regimes : 1); ++regime) {
      for (int r = -2; r < (regime == 1 || random_set ? 9 : 21); ++r) {
        std::shuffle(all.begin(), all.end(), random);
        for (Candidate& c : all) {
          if (!c.quick && r > (s.queries > 1 ? 0 : 2)) continue;  // it takes its time
          const Buffers& b = buffers[turn++ % buffers.size()];
          if (regime == 1) {
            check(cudaDeviceSynchronize(), "synchronize");
            std::this_thread::sleep_for(std::chrono::milliseconds(8));
          }
          spin<<<1, 32, 0, bench.native>>>(100000);
          check(cudaEventRecord(before, bench.native), "record");
          bench.run(c, s, b);
          check(cudaEventRecord(after, bench.native), "record");
          check(cudaEventSynchronize(after), c.name.c_str());
          float ms = 0;
          check(cudaEventElapsedTime(&ms, before, after), "elapsed");
          if (r >= 0) c.ms.push_back(ms);
        }
      }
      report(s, regime == 1 ? "gap" : "sustained", all, results);
    }
    std::vector<Candidate*> short_ones;
    for (Candidate& c : all) {
      for (const Result& r : results) {
        if (s.queries == 1 && !random_set && c.quick && r.shape == s.name() && r.candidate == c.name && r.us < 300)
          short_ones.push_back(&c);
      }
    }
    if (!short_ones.empty()) {
      bench.time_graphs(short_ones, s, buffers, random);
      report(s, "graph", all, results);
    }
    for (Candidate& c : all) {
      bench.run(c, s, buffers[0]);
      bench.verify_result(c.name.c_str(), s, buffers[0], random_set ? 64 : 512);
    }
  }
  summarise_masks(shapes, results);
  if (random_set) summarise_random(shapes, results, bench.info.units);
  if (!json.empty()) write_json(json, bench.info, results);
  return bench.failed ? 1 : 0;
}
