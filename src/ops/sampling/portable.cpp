// Argmax and sampling, portable tier: which layout a row gets, and the launches.

#include "monotile/kernels/sampling/params.hpp"
#include "ops/row_tiles.hpp"
#include "ops/sampling/row_scan.hpp"
#include "ops/sampling/sampling.hpp"

namespace monotile::ops {
namespace {

/// Searches hold more in registers, and meet whole long rows on lanes only where the lists of a scan do not suffice.
template <class Args>
RowTile tile_of(const Args& a, const DeviceInfo& device) {
  if constexpr (std::is_same_v<Args, ArgmaxArgs>) {
    const RowTile tile = pick_block_tile(a.logits.dim(1), device, 256);
    // Long rows are cut into chunks, by their length alone.
    if (tile.layout != kWide || compiles_on_use(device)) return tile;
    return {(whole_vectors(a.logits) ? kExact : 0) + kBlock2, 256, 0};
  }
  RowTile tile = pick_block_tile(a.logits.dim(1), device, 512);
  if (tile.layout == kWide) tile.layout = kStream;
  return tile;
}

template <class Args>
auto kernel_of(const Args& a, const DeviceInfo& device) {
  return find_kernel(Args::op_name, target_of(device), variant_of(a.logits.dtype, tile_of(a, device).layout));
}

template <class Args>
const char* supports(const Args& a, const DeviceInfo& device) {
  if (a.logits.dim(1) > int64_t{1} << 24) return "more than 2^24 columns";  // tokens are counted in fp32
  return kernel_of(a, device) == nullptr ? "not built for this target" : nullptr;
}

template <class Args>
double cost(const Args&, const DeviceInfo&) {
  return 1.0;
}

/// Bytes of scratch behind that list: groups of neighbours whose elements may be candidates (list_largest in threshold.hpp).
constexpr size_t kGroupBytes = 2048 * sizeof(int32_t);
/// Bytes of scratch for the list of a row's candidates.
uint64_t list_bytes(int64_t chunks, int threads) {
  return threads <= 1 ? 0 : chunks != 0 ? RowScan::kListBytes : lang::shortlist_bytes(threads);
}

template <class T>
T* rows_from(const TensorView& view, int64_t first) {
  return view.defined() ? view.as<T>() + first : nullptr;
}

template <class X>
lang::view<const X> logits_from(const TensorView& logits, int64_t first) {
  lang::view<const X> v = row_view<const X>(logits);
  v.data += first * v.outer_stride;
  return v;
}

/// f(first row, rows) for each slice of rows that share the workspace.
template <class F>
void each_slice(const RowScan& scan, int64_t rows, F f) {
  const int64_t slice = scan.chunks == 0 ? rows : scan.slice;
  for (int64_t first = 0; first < rows; first += slice) f(first, std::min(slice, rows - first));
}

int64_t kernel_number(const char* name, DType dtype, uint32_t layout, const DeviceInfo& device) {
  return reinterpret_cast<int64_t>(find_kernel(name, target_of(device), variant_of(dtype, layout)));
}
template <class Params>
void queue(int64_t kernel, Stream& stream, const Grid& grid, const Params& p) {
  reinterpret_cast<KernelFn<Params>>(kernel)(stream, grid, p);
}

// ---- Argmax ----

constexpr int64_t kArgmaxChunk = 256 * row_layout<kBlock2>::elements;
/// Rows that share the workspace.
int64_t argmax_slice(int64_t rows, int64_t chunks) { return std::min(rows, std::max<int64_t>(64, 65536 / chunks)); }

const char* argmax_supports(const ArgmaxArgs& a, const DeviceInfo& device) {
  const RowTile tile = tile_of(a, device);
  return kernel_number(tile.rows_per_program == 0 ? "argmax_chunk" : "argmax", a.logits.dtype, tile.layout, device) == 0
             ? "not built for this target"
             : nullptr;
}
void plan_argmax(const ArgmaxArgs& a, const DeviceInfo& device, Plan<ArgmaxArgs>& plan) {
  const RowTile tile = tile_of(a, device);
  const int64_t chunks = tile.rows_per_program == 0 ? ceil_div(a.logits.dim(1), kArgmaxChunk) : 0;
  plan.config = {tile.threads, chunks,
                 kernel_number(chunks != 0 ? "argmax_chunk" : "argmax", a.logits.dtype, tile.layout, device),
                 kernel_number("argmax_row", a.logits.dtype, 0, device), device.wave};
  if (chunks != 0) plan.workspace_bytes = static_cast<size_t>(argmax_slice(a.logits.dim(0), chunks) * chunks * 8);
}
template <class X>
void launch_argmax(const Plan<ArgmaxArgs>& plan, Stream& stream, const ArgmaxArgs& a, void* workspace) {
  const int64_t rows = a.logits.dim(0), chunks = plan.config[1];
  kernels::ArgmaxParams<X> p{};
  p.cols = a.logits.dim(1);
  p.chunks = static_cast<int32_t>(chunks);
  const int64_t slice = chunks == 0 ? rows : argmax_slice(rows, chunks);
  p.largest = static_cast<float*>(workspace);
  p.columns = reinterpret_cast<int32_t*>(p.largest + slice * chunks);
  for (int64_t first = 0; first < rows; first += slice) {
    p.rows = std::min(slice, rows - first);
    p.logits = logits_from<X>(a.logits, first);
    p.ids = rows_from<int32_t>(a.ids, first);
    p.status = rows_from<int32_t>(a.status, first);
    const int threads = static_cast<int>(plan.config[0]);
    queue(plan.config[2], stream, Grid{chunks == 0 ? p.rows : p.rows * chunks, threads, 0, cpu_grain(p.cols * 4)}, p);
    if (chunks != 0) queue(plan.config[3], stream, Grid{p.rows, static_cast<int>(plan.config[4]), 0, 1}, p);
  }
}

// ---- Top-k and log-probabilities ----

template <class Args>
struct TopKShape;
template <>
struct TopKShape<TopKArgs> {
  static int64_t k(const TopKArgs& a) { return a.ids.dim(1); }
  static bool empty(const TopKArgs& a) { return a.ids.size() == 0; }
  template <class X>
  static void fill(kernels::TopKParams<X>& p, const TopKArgs& a, int64_t first) {
    p.values = a.values.as<float>() + first * p.k;
    p.ids = a.ids.as<int32_t>() + first * p.k;
  }
};
template <>
struct TopKShape<LogprobsArgs> {
  static int64_t k(const LogprobsArgs& a) { return a.top_ids.defined() ? a.top_ids.dim(1) : 0; }
  static bool empty(const LogprobsArgs& a) { return a.logits.dim(0) == 0; }
  template <class X>
  static void fill(kernels::TopKParams<X>& p, const LogprobsArgs& a, int64_t first) {
    p.log = true;
    if (p.k > 0) {
      p.values = a.top_logprobs.as<float>() + first * p.k;
      p.ids = a.top_ids.as<int32_t>() + first * p.k;
    }
    if (a.tokens.defined()) {
      p.given = static_cast<int32_t>(a.tokens.dim(1));
      p.given_ids = a.tokens.as<const int32_t>() + first * p.given;
      p.given_values = a.logprobs.as<float>() + first * p.given;
    }
  }
};

template <class Args>
int64_t top_k_kernel(const Args& a, const DeviceInfo& device) {
  return kernel_number("top_k", a.logits.dtype, tile_of(a, device).layout, device);
}

template <class Args>
const char* top_k_supports(const Args& a, const DeviceInfo& device) {
  return top_k_kernel(a, device) == 0 ? "not built for this target" : nullptr;
}

template <class Args>
void plan_top_k(const Args& a, const DeviceInfo& device, Plan<Args>& plan) {
  const RowScan scan = pick_row_scan(a.logits.dim(0), a.logits.dim(1), device);
  plan.config = {tile_of(a, device).threads,
                 scan.chunks,
                 scan.groups,
                 scan.slice,
                 top_k_kernel(a, device),
                 kernel_number("row_scan", a.logits.dtype, scan_layout(a.logits, device), device)};
  plan.workspace_bytes = scan.workspace_bytes();
}

template <class X, class Args>
void launch_top_k(const Plan<Args>& plan, Stream& stream, const Args& a, void* workspace) {
  const RowScan scan{plan.config[1], plan.config[2], plan.config[3]};
  const int threads = static_cast<int>(plan.config[0]);
  kernels::TopKParams<X> p{};
  p.cols = a.logits.dim(1);
  p.k = static_cast<int32_t>(TopKShape<Args>::k(a));
  p.list_bytes = list_bytes(scan.chunks, threads);
  p.facts = scan.facts(workspace);
  const size_t scratch = p.list_bytes + std::max(static_cast<size_t>(p.k) * 8, scan.chunks != 0 ? kGroupBytes : 0);
  each_slice(scan, a.logits.dim(0), [&](int64_t first, int64_t rows) {
    p.rows = rows;
    p.logits = logits_from<X>(a.logits, first);
    p.status = rows_from<int32_t>(a.status, first);
    TopKShape<Args>::fill(p, a, first);
    if (scan.chunks != 0) {
      kernels::ScanParams<X> s{};
      s.logits = p.logits, s.facts = p.facts, s.rows = rows, s.cols = p.cols, s.maxima = p.k > 0;
      s.mass_factor = p.log ? 1.44269504f : 0.0f;
      queue(plan.config[5], stream, Grid{rows * scan.chunks, RowScan::threads_on(*plan.device), 0, 1}, s);
    }
    queue(plan.config[4], stream, Grid{rows, threads, scratch, cpu_grain(p.cols * 4)}, p);
  });
}

template <class Args>
void run_top_k(const Plan<Args>& plan, Stream& stream, const Args& a, void* workspace) {
  if (TopKShape<Args>::empty(a)) return;
  switch (a.logits.dtype) {
    case DType::f32: return launch_top_k<float>(plan, stream, a, workspace);
    case DType::f16: return launch_top_k<half_t>(plan, stream, a, workspace);
    default: return launch_top_k<bfloat16_t>(plan, stream, a, workspace);
  }
}

// ---- Penalties ----

constexpr int64_t kWindow = 8192;  // columns whose counts a program holds
// Histories up to this length are one program's work on lanes (PenaliseFew), whose scratch they share with as many buckets as a window has columns.
constexpr int64_t kFewTokens = 2048;

bool few_tokens(const PenaltiesArgs& a, const DeviceInfo& device) {
  return device.device.kind != DeviceKind::cpu && (!a.history.defined() || a.history.dim(1) <= kFewTokens);
}
int64_t penalty_kernel(const PenaltiesArgs& a, DType dtype, const DeviceInfo& device) {
  return kernel_number("apply_penalties", dtype, few_tokens(a, device) ? 1 : 0, device);
}

template <class X>
void queue_penalties(int64_t kernel, Stream& stream, const PenaltiesArgs& a, const DeviceInfo& device) {
  kernels::PenaltyParams<X> p{};
  p.logits = row_view<X>(a.logits);
  p.rows = a.logits.dim(0);
  p.cols = a.logits.dim(1);
  if (a.history.defined() && a.history.dim(1) > 0) {
    p.history = a.history.as<const int32_t>();
    p.history_cols = a.history.dim(1);
    p.history_stride = a.history.step(0);
  }
  p.history_length = a.history_length.as<const int32_t>();
  p.prompt_length = a.prompt_length.as<const int32_t>();
  p.repetition = a.repetition.as<const float>();
  p.presence = a.presence.as<const float>();
  p.frequency = a.frequency.as<const float>();
  if (a.bias_ids.defined()) {
    p.bias_ids = a.bias_ids.as<const int32_t>();
    p.bias = a.bias.as<const float>();
    p.bias_cols = a.bias_ids.dim(1);
  }
  p.window = std::min(kWindow, p.cols);
  const int64_t windows = (p.cols + p.window - 1) / p.window;
  const bool lanes = device.device.kind != DeviceKind::cpu;
  if (few_tokens(a, device)) {
    return queue(kernel, stream, Grid{p.rows, lanes_on(device, 1024), static_cast<size_t>(kWindow * 4 + kFewTokens * 14), 1}, p);
  }
  p.parts = lanes ? windows : 1;
  p.windows = lanes ? 1 : windows;
  queue(kernel, stream, Grid{p.rows * p.parts, lanes_on(device, 256), static_cast<size_t>(p.window) * 8, 1}, p);
}

void queue_penalties(int64_t kernel, Stream& stream, const PenaltiesArgs& a, const DeviceInfo& device) {
  switch (a.logits.dtype) {
    case DType::f32: return queue_penalties<float>(kernel, stream, a, device);
    case DType::f16: return queue_penalties<half_t>(kernel, stream, a, device);
    default: return queue_penalties<bfloat16_t>(kernel, stream, a, device);
  }
}

const char* penalties_support(const PenaltiesArgs& a, const DeviceInfo& device) {
  return penalty_kernel(a, a.logits.dtype, device) == 0 ? "not built for this target" : nullptr;
}
void plan_penalties(const PenaltiesArgs& a, const DeviceInfo& device, Plan<PenaltiesArgs>& plan) {
  plan.config = {penalty_kernel(a, a.logits.dtype, device)};
}
void run_penalties(const Plan<PenaltiesArgs>& plan, Stream& stream, const PenaltiesArgs& a, void*) {
  if (a.logits.size() == 0) return;
  queue_penalties(plan.config[0], stream, a, *plan.device);
}

// ---- Sampling ----

constexpr int64_t kMostWanted = 512;  // candidates of a long row that are listed at most, if no more are equal

void plan_sample(const SampleArgs& a, const DeviceInfo& device, Plan<SampleArgs>& plan) {
  const RowScan scan = pick_row_scan(a.logits.dim(0), a.logits.dim(1), device);
  plan.config = {tile_of(a, device).threads,
                 scan.chunks,
                 scan.groups,
                 scan.slice,
                 kernel_number("sample", a.logits.dtype, tile_of(a, device).layout, device),
                 kernel_number("row_scan", a.logits.dtype, scan_layout(a.logits, device), device),
                 kernel_number("sample_chunk", a.logits.dtype, kBlock4, device),
                 penalty_kernel(a.penalties, a.logits.dtype, device)};
  plan.workspace_bytes = scan.workspace_bytes();
}

template <class X>
void launch_sample(const Plan<SampleArgs>& plan, Stream& stream, const SampleArgs& a, void* workspace) {
  const RowScan scan{plan.config[1], plan.config[2], plan.config[3]};
  const int threads = static_cast<int>(plan.config[0]);
  kernels::SampleParams<X> p{};
  p.cols = a.logits.dim(1);
  p.list_bytes = list_bytes(scan.chunks, threads);
  p.facts = scan.facts(workspace);
  p.most_wanted = static_cast<int32_t>(kMostWanted);
  each_slice(scan, a.logits.dim(0), [&](int64_t first, int64_t rows) {
    p.rows = rows;
    p.logits = logits_from<X>(a.logits, first);
    p.ids = rows_from<int32_t>(a.ids, first);
    p.status = rows_from<int32_t>(a.status, first);
    p.temperature = rows_from<const float>(a.temperature, first);
    p.top_p = rows_from<const float>(a.top_p, first);
    p.min_p = rows_from<const float>(a.min_p, first);
    p.top_k = rows_from<const int32_t>(a.top_k, first);
    p.seeds = rows_from<const int64_t>(a.seeds, first);
    p.positions = rows_from<const int64_t>(a.positions, first);
    if (scan.chunks != 0) {
      kernels::ScanParams<X> s{};
      s.logits = p.logits, s.facts = p.facts, s.rows = rows, s.cols = p.cols;
      s.sampling = true;
      s.temperature = p.temperature, s.top_p = p.top_p, s.min_p = p.min_p, s.top_k = p.top_k;
      const Grid chunks{rows * scan.chunks, RowScan::threads_on(*plan.device), 0, 1};
      queue(plan.config[5], stream, chunks, s);
      queue(plan.config[6], stream, chunks, p);
    }
    const size_t scratch = p.list_bytes + (scan.chunks != 0 ? kGroupBytes : 0);
    queue(plan.config[4], stream, Grid{rows, threads, scratch, cpu_grain(p.cols * 4)}, p);
  });
}

void run_sample(const Plan<SampleArgs>& plan, Stream& stream, const SampleArgs& a, void* workspace) {
  if (a.ids.size() == 0) return;
  if (a.penalties.any()) {
    PenaltiesArgs penalties = a.penalties;
    penalties.logits = a.logits;
    queue_penalties(plan.config[7], stream, penalties, *plan.device);
  }
  switch (a.logits.dtype) {
    case DType::f32: return launch_sample<float>(plan, stream, a, workspace);
    case DType::f16: return launch_sample<half_t>(plan, stream, a, workspace);
    default: return launch_sample<bfloat16_t>(plan, stream, a, workspace);
  }
}

// ---- Speculative verification ----

constexpr uint32_t kVerifyDrafts = 0, kVerifyDraw = 1, kVerifyFinish = 2;

int64_t verify_kernel(uint32_t step, const DeviceInfo& device) {
  return reinterpret_cast<int64_t>(find_kernel("speculative_verify", target_of(device), step));
}
const char* verify_supports(const VerifyArgs&, const DeviceInfo& device) {
  return verify_kernel(kVerifyDraw, device) == 0 ? "not built for this target" : nullptr;
}
void plan_verify(const VerifyArgs& a, const DeviceInfo& device, Plan<VerifyArgs>& plan) {
  const int64_t cols = a.target_probs.dim(2), batch = a.target_probs.dim(0);
  // Draws do not depend on how a row is cut.
  const bool lanes = device.device.kind != DeviceKind::cpu;
  const int threads = lanes ? static_cast<int>(std::min<int64_t>(lanes_on(device, 256), whole_waves((cols + 7) / 8, 1, device))) : 1;
  const int64_t chunks = lanes ? (cols + threads * 8 - 1) / (threads * 8) : 1;
  plan.config = {threads, chunks, verify_kernel(kVerifyDrafts, device), verify_kernel(kVerifyDraw, device),
                 verify_kernel(kVerifyFinish, device)};
  plan.workspace_bytes = static_cast<size_t>(batch * 4 + batch * chunks * 8);
}
void run_verify(const Plan<VerifyArgs>& plan, Stream& stream, const VerifyArgs& a, void* workspace) {
  if (a.accepted.size() == 0) return;
  kernels::VerifyParams p{};
  p.target = row_view<const float>(a.target_probs);
  if (a.draft_probs.defined() && a.draft_probs.size() != 0) p.draft = row_view<const float>(a.draft_probs);
  p.draft_tokens = a.draft_tokens.as<const int32_t>();
  p.seeds = a.seeds.as<const int64_t>();
  p.positions = a.positions.as<const int64_t>();
  p.tokens = a.tokens.as<int32_t>();
  p.accepted = a.accepted.as<int32_t>();
  p.status = a.status.as<int32_t>();
  p.batch = a.target_probs.dim(0);
  p.cols = a.target_probs.dim(2);
  p.chunks = plan.config[1];
  p.drafts = static_cast<int32_t>(a.draft_tokens.dim(1));
  p.no_valid_token = row_no_valid_token;
  p.rejected = static_cast<int32_t*>(workspace);
  p.scores = reinterpret_cast<float*>(p.rejected + p.batch);
  p.winners = reinterpret_cast<int32_t*>(p.scores + p.batch * p.chunks);
  const bool lanes = plan.config[0] > 1;
  queue(plan.config[2], stream, Grid{1, lanes ? lanes_on(*plan.device, 256) : 1, 0, 1}, p);
  queue(plan.config[3], stream, Grid{p.batch * p.chunks, static_cast<int>(plan.config[0]), 0, 1}, p);
  queue(plan.config[4], stream, Grid{1, lanes ? lanes_on(*plan.device, 256) : 1, 0, 1}, p);
}

void run_argmax(const Plan<ArgmaxArgs>& plan, Stream& stream, const ArgmaxArgs& a, void* workspace) {
  if (a.ids.size() == 0) return;
  switch (a.logits.dtype) {
    case DType::f32: return launch_argmax<float>(plan, stream, a, workspace);
    case DType::f16: return launch_argmax<half_t>(plan, stream, a, workspace);
    default: return launch_argmax<bfloat16_t>(plan, stream, a, workspace);
  }
}

}  // namespace

const Implementation<ArgmaxArgs> argmax_portable = {"portable",       Tier::portable, argmax_supports,
                                                    cost<ArgmaxArgs>, plan_argmax,    run_argmax};
const Implementation<SampleArgs> sample_portable = {"portable",       Tier::portable, supports<SampleArgs>,
                                                    cost<SampleArgs>, plan_sample,    run_sample};
const Implementation<TopKArgs> top_k_portable = {"portable",     Tier::portable,       top_k_supports<TopKArgs>,
                                                 cost<TopKArgs>, plan_top_k<TopKArgs>, run_top_k<TopKArgs>};
const Implementation<LogprobsArgs> logprobs_portable = {
    "portable",         Tier::portable,           top_k_supports<LogprobsArgs>,
    cost<LogprobsArgs>, plan_top_k<LogprobsArgs>, run_top_k<LogprobsArgs>};
const Implementation<PenaltiesArgs> penalties_portable = {"portable",          Tier::portable, penalties_support,
                                                          cost<PenaltiesArgs>, plan_penalties, run_penalties};
const Implementation<VerifyArgs> verify_portable = {"portable",       Tier::portable, verify_supports,
                                                    cost<VerifyArgs>, plan_verify,    run_verify};

}  // namespace monotile::ops
