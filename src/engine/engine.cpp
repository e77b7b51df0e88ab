#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "engine/model.hpp"
#include "engine/paged_cache.hpp"
#include "engine/sampler.hpp"
#include "engine/scratch.hpp"
#include "engine/step_inputs.hpp"
#include "monotile/ops/attention.hpp"
#include "monotile/ops/embedding.hpp"
#include "monotile/ops/kv_cache.hpp"
#include "monotile/ops/mlp.hpp"
#include "monotile/ops/norm.hpp"

namespace monotile::engine {

namespace {

constexpr int64_t kDefaultContext = 4096;
constexpr uint64_t kNoStep = 0;

[[noreturn]] void refuse(const char* argument, const std::string& given, const std::string& allowed) {
  throw Error(ErrorCode::invalid_argument, std::string("engine: ") + argument + ": " + given + "; allowed: " + allowed);
}

void check_range(const char* argument, int64_t value, int64_t lowest, int64_t highest) {
  if (value < lowest || value > highest)
    refuse(argument, std::to_string(value), std::to_string(lowest) + " to " + std::to_string(highest));
}

EngineOptions with_defaults(EngineOptions options, const Model& model) {
  const Hyperparameters& h = model.hyperparameters();
  const Device device = model.device();
  if (options.context == 0) options.context = std::min(h.context_length, kDefaultContext);
  if (options.context < 1 || options.context > h.context_length) {
    refuse("context", std::to_string(options.context) + " tokens",
           "1 to the model's " + std::to_string(h.context_length));
  }
  check_range("max_sessions", options.max_sessions, 1, 1 << 16);
  check_range("prefill_chunk", options.prefill_chunk, 1, 1 << 20);
  options.prefill_chunk =
      std::max(std::min(options.prefill_chunk, options.context * options.max_sessions), options.max_sessions);
  if (options.activations == DType::none) options.activations = device.host_memory() ? DType::f32 : DType::bf16;
  if (options.activations != DType::f32 && options.activations != DType::bf16)
    refuse("activations", dtype_info(options.activations).name, "f32, bf16");
  // Attention takes 16-bit queries with keys of their own type only; fp32 ones take any.
  const bool bf16 = options.activations == DType::bf16;
  if (options.kv == DType::none) options.kv = bf16 ? DType::bf16 : DType::f16;
  if (!is_float(options.kv) || (bf16 && options.kv != DType::bf16))
    refuse("kv", dtype_info(options.kv).name, bf16 ? "bf16 (the activations are bf16)" : "f32, f16, bf16");
  return options;
}

/// cos and sin [positions, rotary_dim / 2] on the device.
struct RopeTable {
  Buffer memory;
  TensorView cos, sin;

  RopeTable(Stream& stream, int64_t positions, int rotary_dim, double base, const ops::RopeScaling& scaling) {
    const int64_t half = rotary_dim / 2;
    const size_t floats = static_cast<size_t>(positions * half);
    memory = Buffer(stream.device(), 2 * floats * sizeof(float));
    cos = TensorView(memory.as<float>(), DType::f32, {positions, half}, stream.device());
    sin = TensorView(memory.as<float>() + floats, DType::f32, {positions, half}, stream.device());
    if (stream.device().host_memory()) {
      ops::build_rope_table(cos.as<float>(), sin.as<float>(), positions, rotary_dim, base, scaling);
      return;
    }
    std::vector<float> host(2 * floats);
    ops::build_rope_table(host.data(), host.data() + floats, positions, rotary_dim, base, scaling);
    copy_to_device(stream, memory.data(), host.data(), host.size() * sizeof(float));
    stream.synchronize();
  }
};

/// Where a layer keeps its keys and which positions it rotates by.
struct LayerPlace {
  size_t group = 0;
  int64_t index = 0;  ///< within the group
};

}  // namespace

struct Session::State {
  int64_t length = 0;
  std::vector<BlockList> pages;    ///< per group
  uint64_t logits_step = kNoStep;  ///< the engine's step that computed logits_row
  int64_t logits_row = 0;
  uint64_t seen = 0;  ///< number of the call that saw it last: guards against one session twice in a step
};

struct Engine::Impl {
  Impl(const Model& model_in, const EngineOptions& options_in);

  void run_step(std::span<const Work> work);
  TensorView logits_of(const Session::State& state) const;
  void check_work(std::span<const Work> work);
  void fill_inputs(std::span<const Work> work);
  void forward();
  std::array<TensorView, 3> queries_keys_values(const LayerWeights& w, const TensorView& normed, const Activations& rows);
  void attention_part(size_t layer, const TensorView& normed, Activations& rows);
  void feed_forward_part(const LayerWeights& weights, const Activations& rows);
  void keep_output_rows(Activations& rows);

  /// c = a w^T + bias
  void product(const TensorView& c, const TensorView& a, const TensorView& w, const TensorView& bias = {}) {
    ops::ProductCast cast = ops::suggested_cast(w.device, a.dim(0), a.dtype, w.dtype);
    if (options.cast) cast = is_quantised(w.dtype) ? *options.cast : ops::ProductCast::none;
    run(context, ops::GemmArgs{.c = c, .a = a, .b = w, .bias = bias, .residual = {}, .cast = cast});
  }
  void norm(const TensorView& y, const TensorView& x, const TensorView& gamma) {
    ops::rms_norm(context, y, x, gamma, h.eps);
  }

  const Model& model;
  const Hyperparameters& h;
  const Weights& weights;
  EngineOptions options;
  monotile::Context context;
  std::vector<LayerGroup> groups;
  std::vector<RopeTable> rope;     ///< per group
  std::vector<LayerPlace> places;  ///< per layer
  std::vector<StepInputs> inputs;  ///< one; a vector because it needs the groups first
  std::vector<Scratch> scratch;    ///< likewise
  Sampler sampler;
  int64_t sessions = 0;
  uint64_t calls = 0;

  // The step being built or last run.
  uint64_t step = kNoStep;
  int64_t tokens = 0, sequences = 0, max_query = 0, max_kv_length = 0;
  std::vector<int64_t> output_rows;  ///< rows of the tokens whose logits are wanted, ascending
};

Engine::Impl::Impl(const Model& model_in, const EngineOptions& options_in)
    : model(model_in),
      h(model_in.hyperparameters()),
      weights(model_in.weights()),
      options(with_defaults(options_in, model_in)),
      context(model_in.device()),
      sampler(model_in.device()) {
  context.tier = options.tier;
  context.count_uses = options.count_uses;
  Stream& stream = context.stream();

  places.resize(static_cast<size_t>(h.layers));
  for (const bool windowed : {false, true}) {
    CacheShape shape{.layers = 0,
                     .kv_heads = h.kv_heads,
                     .head_dim_qk = h.head_dim_qk,
                     .head_dim_v = h.head_dim_v,
                     .dtype = options.kv};
    for (size_t layer = 0; layer < places.size(); ++layer) {
      if (h.windowed[layer] == windowed) places[layer] = {groups.size(), shape.layers++};
    }
    if (shape.layers == 0) continue;
    shape.window = windowed ? h.window : 0;
    shape.max_columns = pages_for(options.context);
    shape.pages = options.max_sessions *
                  most_pages(options.context, shape.window, std::min(options.prefill_chunk, options.context));
    groups.emplace_back(stream, shape, options.poison);
    rope.emplace_back(stream, options.context, h.rotary_dim, windowed ? h.rope_base_local : h.rope_base,
                      windowed ? ops::RopeScaling{} : h.rope_scaling);
  }
  std::vector<int64_t> columns;
  for (const LayerGroup& group : groups) columns.push_back(group.shape().max_columns);
  inputs.emplace_back(stream, options.prefill_chunk, options.max_sessions, columns);
  scratch.emplace_back(stream, h, options.activations, options.prefill_chunk, options.max_sessions, options.poison);
  output_rows.reserve(static_cast<size_t>(options.max_sessions));
}

void Engine::Impl::check_work(std::span<const Work> work) {
  int64_t total = 0;
  ++calls;
  for (const Work& part : work) {
    if (part.session == nullptr || part.session->engine_ != this)
      refuse("work", "a session of another engine", "sessions of this engine");
    Session::State& state = *part.session->state_;
    if (state.seen == calls) refuse("work", "a session twice", "each session once");
    state.seen = calls;
    const auto count = static_cast<int64_t>(part.ids.size());
    if (count == 0) refuse("ids", "no tokens", "1 or more");
    if (count > options.context - state.length) {
      refuse("ids", std::to_string(state.length + count) + " tokens in one session",
             "at most the context of " + std::to_string(options.context));
    }
    for (const int32_t id : part.ids) {
      if (id < 0 || id >= h.vocabulary)
        refuse("ids", "token " + std::to_string(id), "0 to " + std::to_string(h.vocabulary - 1));
    }
    total += count;
  }
  if (total > options.prefill_chunk)
    refuse("work", std::to_string(total) + " tokens in one step",
           "at most prefill_chunk = " + std::to_string(options.prefill_chunk));
}

void Engine::Impl::run_step(std::span<const Work> work) {
  if (work.empty()) return;
  check_work(work);
  ++step;
  fill_inputs(work);
  forward();
  int64_t row = 0;
  for (const Work& part : work) {
    Session::State& state = *part.session->state_;
    state.length += static_cast<int64_t>(part.ids.size());
    if (!part.wants_logits) continue;
    state.logits_step = step;
    state.logits_row = row++;
  }
}

TensorView Engine::Impl::logits_of(const Session::State& state) const {
  if (state.logits_step == kNoStep || state.logits_step != step) {
    refuse("logits", "none for this session", "sessions whose logits the last step computed");
  }
  return scratch.front().logits(options.max_sessions).slice(0, state.logits_row, state.logits_row + 1);
}

/// Pages, tables, ids and positions of the step. Lengths are not yet changed.
void Engine::Impl::fill_inputs(std::span<const Work> work) {
  StepInputs& in = inputs.front();
  tokens = 0;
  sequences = 0;
  max_query = 1;
  max_kv_length = 0;
  output_rows.clear();
  in.q_start()[0] = 0;
  for (const Work& part : work) {
    Session::State& state = *part.session->state_;
    const auto count = static_cast<int64_t>(part.ids.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      BlockList& list = state.pages[g];
      list.drop_unseen(groups[g].pool, groups[g].shape().window, state.length);
      list.grow(groups[g].pool, state.length + count);
      std::copy(list.pages().begin(), list.pages().end(), in.block_table(g, sequences));
      for (int64_t i = 0; i < count; ++i) in.slots(g)[tokens + i] = static_cast<int32_t>(list.slot(state.length + i));
    }
    for (int64_t i = 0; i < count; ++i) {
      in.ids()[tokens + i] = part.ids[static_cast<size_t>(i)];
      in.positions()[tokens + i] = static_cast<int32_t>(state.length + i);
    }
    tokens += count;
    in.kv_length()[sequences] = static_cast<int32_t>(state.length + count);
    in.q_start()[++sequences] = static_cast<int32_t>(tokens);
    max_query = std::max(max_query, count);
    max_kv_length = std::max(max_kv_length, state.length + count);
    if (part.wants_logits) output_rows.push_back(tokens - 1);
  }
  in.upload(context.stream());
}

/// The model: a straight list of operators. delta is what the part before adds to the residual stream.
void Engine::Impl::forward() {
  const StepInputs& in = inputs.front();
  Activations rows = scratch.front().rows(tokens);
  ops::embedding(context, rows.residual, weights.embedding, in.ids_view(tokens), h.embedding_scale);
  for (size_t layer = 0; layer < weights.layers.size(); ++layer) {
    const LayerWeights& w = weights.layers[layer];
    if (layer == 0) {
      norm(rows.normed, rows.residual, w.attention_norm);
    } else {
      ops::add_rms_norm(context, rows.normed, rows.residual, rows.delta, w.attention_norm, h.eps);
    }
    attention_part(layer, rows.normed, rows);
    if (rows.delta.dim(0) == 0) return;  // the last layer, and nobody wants logits: the cache is written, that is all
    ops::add_rms_norm(context, rows.normed, rows.residual, rows.delta, w.feed_forward_norm, h.eps);
    feed_forward_part(w, rows);
  }
  ops::add_rms_norm(context, rows.normed, rows.residual, rows.delta, weights.output_norm, h.eps);
  product(scratch.front().logits(rows.normed.dim(0)), rows.normed, weights.output);
}

/// By heads: [tokens, heads, dim]. By one product of all columns where the weights lie together, whose rows hold the three side by side.
std::array<TensorView, 3> Engine::Impl::queries_keys_values(const LayerWeights& w, const TensorView& normed, const Activations& rows) {
  const int64_t heads[3] = {h.heads, h.kv_heads, h.kv_heads}, dims[3] = {h.head_dim_qk, h.head_dim_qk, h.head_dim_v};
  const TensorView *const weight[3] = {&w.q, &w.k, &w.v}, *const bias[3] = {&w.q_bias, &w.k_bias, &w.v_bias};
  const TensorView* const own[3] = {&rows.qkv, &rows.k, &rows.v};
  const bool together = w.qkv.defined();
  if (together) product(rows.qkv, normed, w.qkv, w.qkv_bias);
  std::array<TensorView, 3> parts;
  int64_t column = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t width = heads[i] * dims[i];
    if (together) {
      parts[i] = TensorView(rows.qkv.as<std::byte>() + storage_bytes(rows.qkv.dtype, column), rows.qkv.dtype, {tokens, heads[i], dims[i]}, rows.qkv.device);
      parts[i].stride[0] = rows.qkv.stride[0];
    } else {
      const TensorView& to = *own[i];
      product(TensorView(to.data, to.dtype, {tokens, width}, to.device), normed, *weight[i], *bias[i]);
      parts[i] = TensorView(to.data, to.dtype, {tokens, heads[i], dims[i]}, to.device);
    }
    column += width;
  }
  return parts;
}

void Engine::Impl::attention_part(size_t layer, const TensorView& normed, Activations& rows) {
  const StepInputs& in = inputs.front();
  const LayerWeights& w = weights.layers[layer];
  const auto [g, index] = places[layer];
  const auto [q, k, v] = queries_keys_values(w, normed, rows);
  if (w.q_norm.defined()) {
    norm(q, q, w.q_norm);
    norm(k, k, w.k_norm);
  }
  ops::rope(context, q, k, in.positions_view(tokens), rope[g].cos, rope[g].sin, h.rope_interleaved, h.rotary_dim);
  const TensorView &keys = groups[g].keys(index), &values = groups[g].values(index);
  ops::kv_append(context, keys, values, k, v, in.slots_view(g, tokens));

  const bool last = layer + 1 == weights.layers.size();
  if (!last || !output_rows.empty()) {
    ops::attention(context, {
                                .out = rows.attended.reshape({tokens, h.heads, h.head_dim_v}),
                                .q = q,
                                .key_cache = keys,
                                .value_cache = values,
                                .block_table = in.block_table_view(g, sequences),
                                .q_start = in.q_start_view(sequences),
                                .kv_length = in.kv_length_view(sequences),
                                .scale = h.attention_scale,
                                .window = groups[g].shape().window,
                                .causal = true,
                                .max_query = max_query,
                                .max_kv_length = max_kv_length,
                            });
  }
  if (last) keep_output_rows(rows);
  if (rows.delta.dim(0) == 0) return;
  product(rows.delta, rows.attended, w.o, w.o_bias);
  if (w.post_attention_norm.defined()) norm(rows.delta, rows.delta, w.post_attention_norm);
}

/// From here on only the tokens whose logits are wanted matter: their rows move to the front.
void Engine::Impl::keep_output_rows(Activations& rows) {
  const auto outputs = static_cast<int64_t>(output_rows.size());
  for (const TensorView* view : {&rows.residual, &rows.attended}) {
    const auto bytes = static_cast<size_t>(storage_bytes(view->dtype, view->dim(1)));
    auto* base = view->as<std::byte>();
    for (size_t i = 0; i < output_rows.size(); ++i) {
      const auto from = static_cast<size_t>(output_rows[i]);
      if (from != i) copy_on_device(context.stream(), base + i * bytes, base + from * bytes, bytes);
    }
  }
  rows = scratch.front().rows(outputs);
}

void Engine::Impl::feed_forward_part(const LayerWeights& w, const Activations& rows) {
  std::optional<ops::ProductCast> cast = options.cast;
  if (cast && !is_quantised(w.gate.dtype)) cast = ops::ProductCast::none;
  ops::mlp(context, {.y = rows.delta,
                     .x = rows.normed,
                     .gate = w.gate,
                     .up = w.up,
                     .down = w.down,
                     .gate_bias = w.gate_bias,
                     .up_bias = w.up_bias,
                     .down_bias = w.down_bias,
                     .residual = {},
                     .hidden = rows.gate,
                     .spare = rows.up,
                     .activation = h.activation,
                     .cast = cast});
  if (w.post_feed_forward_norm.defined()) norm(rows.delta, rows.delta, w.post_feed_forward_norm);
}

Engine::Engine(const Model& model, const EngineOptions& options) : impl_(std::make_unique<Impl>(model, options)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

void Engine::step(std::span<const Work> work) { impl_->run_step(work); }

const Model& Engine::model() const { return impl_->model; }
const EngineOptions& Engine::options() const { return impl_->options; }
monotile::Context& Engine::context() { return impl_->context; }
uint64_t Engine::scratch_bytes() const { return impl_->scratch.front().bytes(); }

int64_t Engine::free_pages() const {
  int64_t pages = 0;
  for (const LayerGroup& group : impl_->groups) pages += group.pool.free();
  return pages;
}

int64_t Engine::total_pages() const {
  int64_t pages = 0;
  for (const LayerGroup& group : impl_->groups) pages += group.pool.total();
  return pages;
}

uint64_t Engine::cache_bytes() const {
  uint64_t bytes = 0;
  for (const LayerGroup& group : impl_->groups) bytes += group.bytes();
  return bytes;
}

Session::Session(Engine& engine) : engine_(engine.impl_.get()), state_(std::make_unique<State>()) {
  if (engine_->sessions >= engine_->options.max_sessions) {
    refuse("session", "number " + std::to_string(engine_->sessions + 1),
           "at most max_sessions = " + std::to_string(engine_->options.max_sessions));
  }
  state_->pages.resize(engine_->groups.size());
  for (size_t g = 0; g < state_->pages.size(); ++g) state_->pages[g].reserve(engine_->groups[g].shape().max_columns);
  ++engine_->sessions;
}

Session::~Session() {
  clear();
  --engine_->sessions;
}

bool Session::prefill(std::span<const int32_t> ids, const std::function<bool()>& stop) {
  if (ids.empty()) refuse("ids", "no tokens", "1 or more");
  if (static_cast<int64_t>(ids.size()) > room()) {
    refuse("ids", std::to_string(length() + static_cast<int64_t>(ids.size())) + " tokens in one session",
           "at most the context of " + std::to_string(engine_->options.context));
  }
  const auto chunk = static_cast<size_t>(engine_->options.prefill_chunk);
  for (size_t begin = 0; begin < ids.size(); begin += chunk) {
    if (begin != 0 && stop && stop()) return false;
    const std::span<const int32_t> part = ids.subspan(begin, std::min(chunk, ids.size() - begin));
    const Engine::Work work{this, part, begin + part.size() == ids.size()};
    engine_->run_step({&work, 1});
  }
  return true;
}

std::vector<float> Session::logits() {
  std::vector<float> result(static_cast<size_t>(engine_->h.vocabulary));
  const TensorView row = engine_->logits_of(*state_);
  copy_to_host(engine_->context.stream(), result.data(), row.data, result.size() * sizeof(float));
  engine_->context.stream().synchronize();
  return result;
}

int32_t Session::choose(const SamplingOptions& sampling) {
  return engine_->sampler.choose(engine_->context, engine_->logits_of(*state_), sampling, state_->length);
}

void Session::synchronize() { engine_->context.stream().synchronize(); }
int64_t Session::length() const { return state_->length; }
int64_t Session::room() const { return engine_->options.context - state_->length; }

void Session::clear() {
  for (size_t g = 0; g < state_->pages.size(); ++g) state_->pages[g].clear(engine_->groups[g].pool);
  state_->length = 0;
  state_->logits_step = kNoStep;
}

}  // namespace monotile::engine
