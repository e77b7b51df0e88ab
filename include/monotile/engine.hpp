#pragma once
// The engine: a language model from a GGUF file, run on the public operators. Model (weights, tokenizer) -> Engine
// (paged key/value cache, scratch memory) -> Session (one sequence of tokens).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "monotile/dispatch.hpp"
#include "monotile/ops/activation.hpp"
#include "monotile/ops/gemm.hpp"
#include "monotile/ops/rope.hpp"

namespace monotile::engine {

class GgufFile;
class Tokenizer;
struct Weights;

/// What the metadata of a file says about its model, checked.
struct Hyperparameters {
  std::string architecture;  ///< "llama", "gemma3"
  std::string name;          ///< general.name, may be empty
  int64_t layers = 0;
  int64_t hidden = 0;  ///< width of the residual stream
  int64_t heads = 0, kv_heads = 0;
  int64_t head_dim_qk = 0, head_dim_v = 0;
  int64_t feed_forward = 0;
  int64_t vocabulary = 0;
  int64_t context_length = 0;  ///< positions that the model was trained for
  float eps = 0.0f;
  float embedding_scale = 1.0f;
  float attention_scale = 0.0f;
  ops::Activation activation = ops::Activation::silu;
  bool rope_interleaved = false;
  int rotary_dim = 0;
  double rope_base = 0.0;         ///< layers that see all keys
  double rope_base_local = 0.0;   ///< layers with a window
  ops::RopeScaling rope_scaling;  ///< layers that see all keys; those with a window are never scaled
  int64_t window = 0;             ///< keys that a windowed layer sees, the query's own included; 0: no such layers
  std::vector<bool> windowed;     ///< per layer
  bool tied_output = false;       ///< the file has no output.weight: the embedding is the output matrix
};

struct ModelOptions {
  Device device;
  /// Numbers that replace metadata values, by key ("llama.rope.freq_base", 1e5). A key that the architecture does not
  /// read is Error(invalid_argument).
  std::vector<std::pair<std::string, double>> overrides;
  /// Called while weights are copied to a device with its own memory: bytes copied, bytes in all.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

/// A model with its tokenizer. On host memory the weights are views into the mapped file, quantised ones as they are;
/// on other devices each tensor is copied as it is. Const and safe to share between engines of several threads.
class Model {
 public:
  /// Throws Error(not_found) if there is no such file or device, Error(bad_file) for damaged files, missing or
  /// misshapen tensors (all of them named) and metadata out of range, Error(unsupported) for other architectures,
  /// tensor types, and metadata that asks for arithmetic which is not there.
  static Model load(const std::string& path, const ModelOptions& options = {});
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  const Hyperparameters& hyperparameters() const;
  /// Token ids of `text`. `add_special`: with the tokens that the file asks for in front and at the end; `parse_special`: markers inside the text
  /// become control tokens (never for text of strangers). Throws Error(invalid_argument) for texts of 1 GiB and more.
  std::vector<int32_t> encode(std::string_view text, bool add_special = true, bool parse_special = false) const;
  /// Text of tokens, always valid UTF-8; control tokens give nothing. Throws Error(invalid_argument) for ids outside the vocabulary.
  std::string decode(std::span<const int32_t> ids) const;
  /// Whether generation stops at this token (end of sequence, of turn, of message).
  bool is_end(int32_t id) const;
  /// One user's message in the file's chat template, up to where the answer begins; for `encode(text, true, true)`. Throws
  /// Error(unsupported) if the file has none that can be read.
  std::string chat_prompt(std::string_view message) const;

  /// Parts of the engine's own: their headers are not installed.
  const Tokenizer& tokenizer() const;
  const GgufFile& file() const;
  const Weights& weights() const;
  Device device() const;
  int64_t parameters() const;     ///< elements of all tensors, a tied output counted once
  uint64_t weight_bytes() const;  ///< bytes of all tensors as stored

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct EngineOptions {
  int64_t context = 0;  ///< most tokens of one session; 0: what the model allows, at most 4096
  int64_t max_sessions = 1;
  int64_t prefill_chunk = 256;  ///< most tokens of one step
  DType activations =
      DType::none;  ///< residual stream and all between operators: f32 or bf16; none: f32 on host memory, else bf16
  DType kv = DType::none;  ///< f32, f16, bf16; with bf16 activations bf16 only; none: bf16 with those, else f16
  std::optional<ops::ProductCast>
      cast;  ///< of products with quantised weights; absent: `suggested_cast` for the rows of each (on the CPU int8_block or bf16, on GPUs bf16 for many rows), else none
  TierPolicy tier = default_tier();
  bool count_uses = false;
  bool poison = false;  ///< for tests: cache and scratch memory start as NaN
};

struct SamplingOptions {
  float temperature = 0.0f;  ///< below 1e-5: the best token
  int32_t top_k = 0;         ///< 0: off
  float top_p = 1.0f;        ///< 1: off
  float min_p = 0.0f;        ///< 0: off
  uint64_t seed = 0;
};

class Session;

/// A model ready to run: one stream, a pool of cache pages, scratch memory for one step. Nothing is allocated after
/// the first step of each kind. Not thread-safe; sessions of one engine belong to its thread.
class Engine {
 public:
  /// `model` must outlive the engine. Throws Error(invalid_argument) for sizes out of range and contexts that the
  /// model does not allow.
  explicit Engine(const Model& model, const EngineOptions& options = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine(const Engine&) = delete;

  /// Tokens that one session gets in a step: at least one.
  struct Work {
    Session* session = nullptr;
    std::span<const int32_t> ids;
    bool wants_logits = true;  ///< of the last token
  };
  /// One forward pass for different sessions of this engine, together at most prefill_chunk tokens. Throws
  /// Error(invalid_argument), with no session changed, for ids outside the vocabulary and sessions that would outgrow
  /// the context.
  void step(std::span<const Work> work);

  const Model& model() const;
  const EngineOptions& options() const;  ///< with all defaults filled in but that of `cast`, which each product has its own of
  int64_t free_pages() const;            ///< of all layer groups together
  int64_t total_pages() const;
  uint64_t cache_bytes() const;
  uint64_t scratch_bytes() const;
  monotile::Context& context();

 private:
  friend class Session;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One sequence: its length and its pages in the cache. Must not outlive its engine.
class Session {
 public:
  /// Throws Error(invalid_argument) if the engine already has max_sessions.
  explicit Session(Engine& engine);
  ~Session();
  Session(const Session&) = delete;

  /// Appends tokens in steps of at most prefill_chunk; afterwards the logits of the last one are there. Between two
  /// steps `stop` is asked; if it says true the rest is left out and the result is false.
  bool prefill(std::span<const int32_t> ids, const std::function<bool()>& stop = {});
  /// Appends one token.
  void decode(int32_t id) { prefill({&id, 1}); }

  /// Logits of the newest token, f32 [vocabulary]. Throws Error(invalid_argument) unless the engine's last step
  /// computed them.
  std::vector<float> logits();
  /// The next token by these logits. Random draws depend on seed and position only. Throws Error(invalid_argument) if
  /// there are no logits, Error(device_error) if they hold no valid token (NaN).
  int32_t choose(const SamplingOptions& sampling = {});

  /// Waits until all work queued so far is done.
  void synchronize();
  int64_t length() const;  ///< tokens so far
  int64_t room() const;    ///< tokens that still fit
  /// Forgets all tokens and gives the pages back.
  void clear();

 private:
  friend class Engine;
  struct State;
  Engine::Impl* engine_;
  std::unique_ptr<State> state_;
};

}  // namespace monotile::engine
