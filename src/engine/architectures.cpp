#include "engine/architectures.hpp"

#include <cmath>
#include <limits>

namespace monotile::engine {

namespace {

constexpr Architecture kArchitectures[] = {
    {
        .name = "llama",
        .qk_norm = false,
        .post_norms = false,
        .biases = true,
        .activation = ops::Activation::silu,
        .embedding_times_sqrt_hidden = false,
        .rope_interleaved = true,
        .rope_base = 10000.0,
        .rope_base_local = 0.0,
        .rope_divisors = true,
        .global_every = 0,
        .scale_by_width_layers = 0,
    },
    {
        .name = "gemma3",
        .qk_norm = true,
        .post_norms = true,
        .biases = false,
        .activation = ops::Activation::gelu_tanh,
        .embedding_times_sqrt_hidden = true,
        .rope_interleaved = false,
        .rope_base = 1e6,
        .rope_base_local = 1e4,
        .rope_divisors = false,
        .global_every = 6,
        .scale_by_width_layers = 62,  // the 27B model
    },
};

/// Keys that would change the arithmetic, and the values that leave it as it is. Anything else is refused, never
/// ignored.
struct NeutralKey {
  const char* key;
  double neutral;
};
constexpr NeutralKey kNeutralKeys[] = {
    {"expert_count", 0},
    {"attention.causal", 1},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.scale", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"embedding_scale", 1},
    {"residual_scale", 1},
    {"logit_scale", 1},
    {"use_parallel_residual", 0},
    {"rope.scaling.attn_factor", 1},
};

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

/// Metadata of one architecture, with overrides looked up first.
class Keys {
 public:
  Keys(const GgufFile& file, const char* prefix, std::span<const std::pair<std::string, double>> overrides)
      : file_(file), prefix_(prefix), overrides_(overrides), used_(overrides.size(), false) {}

  std::string full(const char* key) const { return std::string(prefix_) + "." + key; }

  bool has(const char* key) { return override_of(key) != nullptr || file_.has(full(key)); }

  int64_t integer(const char* key, int64_t lowest, int64_t highest) {
    if (!has(key)) fail(ErrorCode::bad_file, key, "missing", range(lowest, highest));
    return integer(key, lowest, highest, 0);
  }

  int64_t integer(const char* key, int64_t lowest, int64_t highest, int64_t fallback) {
    int64_t value = fallback;
    if (const double* given = override_of(key)) {
      if (!(std::fabs(*given) <= 9e15) || *given != std::floor(*given))
        fail(ErrorCode::invalid_argument, key, text_of(*given), range(lowest, highest));
      value = static_cast<int64_t>(*given);
    } else {
      value = file_.get_i64(full(key), fallback);
    }
    if (has(key) && (value < lowest || value > highest))
      fail(ErrorCode::bad_file, key, std::to_string(value), range(lowest, highest));
    return value;
  }

  double real(const char* key, double fallback) {
    if (const double* given = override_of(key)) return *given;
    if (!has(key)) return fallback;
    return static_cast<double>(file_.get_f32(full(key)));
  }

  double positive(const char* key, double fallback, double below) {
    if (!has(key) && !(fallback > 0.0)) fail(ErrorCode::bad_file, key, "missing", "a number above 0");
    const double value = real(key, fallback);
    if (!(value > 0.0) || !(value < below))
      fail(ErrorCode::bad_file, key, text_of(value), "above 0, below " + text_of(below));
    return value;
  }

  /// A boolean or a number.
  double number(const char* key, double fallback) {
    if (const double* given = override_of(key)) return *given;
    const GgufValue* value = file_.find(full(key));
    if (value == nullptr) return fallback;
    return value->type == GgufType::boolean ? (file_.get_bool(full(key)) ? 1.0 : 0.0)
                                            : static_cast<double>(file_.get_f32(full(key)));
  }

  std::string_view text(const char* key, std::string_view fallback) { return file_.get_string(full(key), fallback); }

  bool is_array(const char* key) {
    const GgufValue* value = override_of(key) != nullptr ? nullptr : file_.find(full(key));
    return value != nullptr && value->type == GgufType::array;
  }

  void refuse_unused_overrides() const {
    for (size_t i = 0; i < overrides_.size(); ++i) {
      if (!used_[i]) {
        throw Error(ErrorCode::invalid_argument, "model override: '" + overrides_[i].first +
                                                     "': not a number that architecture " + prefix_ + " reads");
      }
    }
  }

  [[noreturn]] void fail(ErrorCode code, const char* key, const std::string& given, const std::string& allowed) const {
    throw Error(code, "model " + file_.path() + ": key '" + full(key) + "': " + given + "; allowed: " + allowed);
  }

 private:
  static std::string range(int64_t lowest, int64_t highest) {
    return std::to_string(lowest) + " to " + std::to_string(highest);
  }

  const double* override_of(const char* key) {
    const std::string wanted = full(key);
    for (size_t i = 0; i < overrides_.size(); ++i) {
      if (overrides_[i].first != wanted) continue;
      used_[i] = true;
      return &overrides_[i].second;
    }
    return nullptr;
  }

  const GgufFile& file_;
  const char* prefix_;
  std::span<const std::pair<std::string, double>> overrides_;
  std::vector<bool> used_;
};

void read_rope(Keys& keys, const Architecture& architecture, Hyperparameters& h) {
  constexpr double kLargestBase = 1e30;
  h.rope_interleaved = architecture.rope_interleaved;
  h.rotary_dim = static_cast<int>(keys.integer("rope.dimension_count", 2, h.head_dim_qk, h.head_dim_qk));
  if (h.rotary_dim % 2 != 0)
    keys.fail(ErrorCode::bad_file, "rope.dimension_count", std::to_string(h.rotary_dim), "an even number");
  h.rope_base = keys.positive("rope.freq_base", architecture.rope_base, kLargestBase);
  h.rope_base_local =
      h.window > 0 ? keys.positive("rope.freq_base_swa", architecture.rope_base_local, kLargestBase) : 0.0;

  const std::string_view kind = keys.text("rope.scaling.type", "linear");
  if (kind != "linear" && kind != "none") {
    keys.fail(ErrorCode::unsupported, "rope.scaling.type", "'" + printable(kind) + "'",
              "'none', 'linear' (and a tensor rope_freqs.weight)");
  }
  const char* factor_key = keys.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  const double factor = keys.real(factor_key, 0.0);
  if (!(factor >= 0.0) || !std::isfinite(factor))
    keys.fail(ErrorCode::bad_file, factor_key, text_of(factor), "0 (off) or more");
  if (kind == "linear" && factor != 0.0 && factor != 1.0) {
    h.rope_scaling.kind = ops::RopeScaling::Kind::linear;
    h.rope_scaling.factor = factor;
  }
}

void read_window(const GgufFile& file, Keys& keys, const Architecture& architecture, Hyperparameters& h) {
  h.windowed.assign(static_cast<size_t>(h.layers), false);
  const int64_t window = keys.integer("attention.sliding_window", 0, std::numeric_limits<int32_t>::max(), 0);
  if (window == 0) return;
  if (architecture.global_every == 0)
    keys.fail(ErrorCode::unsupported, "attention.sliding_window", std::to_string(window),
              "absent or 0 for this architecture");
  h.window = window;
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  if (keys.is_array(kPattern)) {
    h.windowed = file.get_bool_array(keys.full(kPattern));
    if (static_cast<int64_t>(h.windowed.size()) != h.layers) {
      keys.fail(ErrorCode::bad_file, kPattern, std::to_string(h.windowed.size()) + " values",
                "one per layer, " + std::to_string(h.layers));
    }
    return;
  }
  const int64_t every = keys.integer(kPattern, 0, 1 << 20, architecture.global_every);
  for (int64_t layer = 0; layer < h.layers; ++layer)
    h.windowed[static_cast<size_t>(layer)] = every == 0 || layer % every < every - 1;
}

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture& find_architecture(const GgufFile& file) {
  const std::string_view name = file.get_string("general.architecture");
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (name == architecture.name) return architecture;
    known += std::string(known.empty() ? "" : ", ") + architecture.name;
  }
  throw Error(ErrorCode::unsupported,
              "model " + file.path() + ": key 'general.architecture': '" + printable(name) + "'; allowed: " + known);
}

Hyperparameters read_hyperparameters(const GgufFile& file, const Architecture& architecture,
                                     std::span<const std::pair<std::string, double>> overrides) {
  Keys keys(file, architecture.name, overrides);
  Hyperparameters h;
  h.architecture = architecture.name;
  h.name = printable(file.get_string("general.name", ""));
  for (const auto& [key, neutral] : kNeutralKeys) {
    const double value = keys.number(key, neutral);
    if (value != neutral) keys.fail(ErrorCode::unsupported, key, text_of(value), "absent or " + text_of(neutral));
  }

  h.layers = keys.integer("block_count", 1, 4096);
  h.hidden = keys.integer("embedding_length", 1, 1 << 20);
  h.context_length = keys.integer("context_length", 1, 1 << 30);
  h.feed_forward = keys.integer("feed_forward_length", 1, 1 << 22);
  h.heads = keys.integer("attention.head_count", 1, 1 << 14);
  h.kv_heads = keys.integer("attention.head_count_kv", 1, h.heads, h.heads);
  if (h.heads % h.kv_heads != 0) {
    keys.fail(ErrorCode::bad_file, "attention.head_count_kv", std::to_string(h.kv_heads),
              "a divisor of attention.head_count " + std::to_string(h.heads));
  }
  constexpr int64_t kLargestHead = 256;
  const bool named_dim = keys.has("attention.key_length") && keys.has("attention.value_length");
  if (!named_dim && (h.hidden % h.heads != 0 || h.hidden / h.heads > kLargestHead)) {
    keys.fail(ErrorCode::bad_file, "attention.head_count",
              std::to_string(h.heads) + " for an embedding_length of " + std::to_string(h.hidden),
              "a divisor with heads of at most 256 (or attention.key_length and attention.value_length)");
  }
  h.head_dim_qk = keys.integer("attention.key_length", 2, kLargestHead, h.hidden / h.heads);
  h.head_dim_v = keys.integer("attention.value_length", 1, kLargestHead, h.hidden / h.heads);
  h.eps = static_cast<float>(keys.positive("attention.layer_norm_rms_epsilon", 0.0, 1.0));
  if (!(h.eps > 0.0f))
    keys.fail(ErrorCode::bad_file, "attention.layer_norm_rms_epsilon", text_of(h.eps), "above 0 in fp32");

  h.activation = architecture.activation;
  h.embedding_scale = architecture.embedding_times_sqrt_hidden ? std::sqrt(static_cast<float>(h.hidden)) : 1.0f;
  const bool by_width = architecture.scale_by_width_layers != 0 && h.layers == architecture.scale_by_width_layers;
  h.attention_scale = 1.0f / std::sqrt(static_cast<float>(by_width ? h.hidden / h.heads : h.head_dim_qk));
  read_window(file, keys, architecture, h);
  read_rope(keys, architecture, h);
  keys.refuse_unused_overrides();
  return h;
}

int64_t extent_of(Extent extent, const Hyperparameters& h) {
  switch (extent) {
    case Extent::none: return 0;
    case Extent::hidden: return h.hidden;
    case Extent::query: return h.heads * h.head_dim_qk;
    case Extent::key: return h.kv_heads * h.head_dim_qk;
    case Extent::value: return h.kv_heads * h.head_dim_v;
    case Extent::attended: return h.heads * h.head_dim_v;
    case Extent::feed_forward: return h.feed_forward;
    case Extent::vocabulary: return h.vocabulary;
    case Extent::head: return h.head_dim_qk;
    case Extent::half_rotary: return h.rotary_dim / 2;
  }
  return 0;
}

}  // namespace monotile::engine
