// Reading hyperparameters and weights: crafted files, right and wrong. (No name here holds the word that selects the
// demo model's label.)

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "engine/architectures.hpp"
#include "engine/model.hpp"
#include "monotile/numeric.hpp"
#include "tests/engine/gguf_writer.hpp"

namespace monotile::engine {
namespace {

using test::GgufWriter;
using test::TempFile;
using Ids = std::vector<int32_t>;

constexpr uint32_t kF32 = 0, kF16 = 1, kBf16 = 30, kI8 = 24;
constexpr int64_t kVocabulary = 8, kHidden = 4, kHeads = 2, kKvHeads = 1, kDim = 2, kFeedForward = 6, kLayers = 2;

struct TinyTensor {
  std::vector<uint64_t> extents;  ///< in the file's order
  std::vector<float> values;
  uint32_t type = kF32;
};

std::vector<float> numbers(size_t count, uint32_t seed, float scale = 1.0f) {
  std::vector<float> values(count);
  for (float& v : values) {
    seed = seed * 1664525u + 1013904223u;
    v = (static_cast<float>(seed >> 9) * 0x1p-23f - 0.5f) * scale;
  }
  return values;
}

/// A llama of two layers, as a list of metadata and tensors that a test may change before it is written.
struct Tiny {
  std::map<std::string, uint32_t> integers;
  std::map<std::string, float> reals;
  std::map<std::string, std::string> texts;
  std::map<std::string, TinyTensor> tensors;
  std::function<void(GgufWriter&)> more = [](GgufWriter&) {};

  explicit Tiny(const std::string& architecture = "llama") {
    texts["general.architecture"] = architecture;
    const auto key = [&](const char* name) { return architecture + "." + name; };
    integers[key("block_count")] = kLayers;
    integers[key("embedding_length")] = kHidden;
    integers[key("context_length")] = 32;
    integers[key("feed_forward_length")] = kFeedForward;
    integers[key("attention.head_count")] = kHeads;
    integers[key("attention.head_count_kv")] = kKvHeads;
    reals[key("attention.layer_norm_rms_epsilon")] = 1e-5f;
    matrix("token_embd.weight", kVocabulary, kHidden);
    vector("output_norm.weight", kHidden);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      vector(block + "attn_norm.weight", kHidden);
      matrix(block + "attn_q.weight", kHeads * kDim, kHidden);
      matrix(block + "attn_k.weight", kKvHeads * kDim, kHidden);
      matrix(block + "attn_v.weight", kKvHeads * kDim, kHidden);
      matrix(block + "attn_output.weight", kHidden, kHeads * kDim);
      vector(block + "ffn_norm.weight", kHidden);
      matrix(block + "ffn_gate.weight", kFeedForward, kHidden);
      matrix(block + "ffn_up.weight", kFeedForward, kHidden);
      matrix(block + "ffn_down.weight", kHidden, kFeedForward);
    }
  }

  void matrix(const std::string& name, int64_t rows, int64_t cols) {
    const size_t seed = std::hash<std::string>{}(name);
    tensors[name] = {{static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)},
                     numbers(static_cast<size_t>(rows * cols), static_cast<uint32_t>(seed), 2.0f)};
  }
  void vector(const std::string& name, int64_t size, uint32_t type = kF32) {
    const size_t seed = std::hash<std::string>{}(name);
    std::vector<float> values = numbers(static_cast<size_t>(size), static_cast<uint32_t>(seed));
    for (float& v : values) v = std::round((1.0f + v) * 64.0f) / 64.0f;  // exact in fp16 and bf16
    tensors[name] = {{static_cast<uint64_t>(size)}, values, type};
  }

  std::string build() const {
    GgufWriter writer;
    for (const auto& [key, value] : texts) writer.text(key, value);
    for (const auto& [key, value] : integers) writer.u32(key, value);
    for (const auto& [key, value] : reals) writer.f32(key, value);
    writer.text("tokenizer.ggml.model", "llama");
    std::vector<std::string> pieces = {"<unk>", "<s>", "</s>"};
    while (pieces.size() < kVocabulary) pieces.push_back(std::string(1, static_cast<char>('a' + pieces.size())));
    writer.texts("tokenizer.ggml.tokens", pieces);
    writer.array("tokenizer.ggml.scores", 6, std::vector<float>(kVocabulary, 0.0f));
    writer.array("tokenizer.ggml.token_type", 5, std::vector<int32_t>{2, 3, 3, 1, 1, 1, 1, 1});
    writer.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2);
    more(writer);
    for (const auto& [name, tensor] : tensors) writer.tensor(name, tensor.extents, tensor.type, bytes(tensor));
    return writer.build();
  }

  static std::string bytes(const TinyTensor& tensor) {
    test::Bytes out;
    for (const float v : tensor.values) {
      switch (tensor.type) {
        case kF32: out.put(v); break;
        case kF16: out.put(from_float<half_t>(v).bits); break;
        case kBf16: out.put(from_float<bfloat16_t>(v).bits); break;
        default: out.put(static_cast<int8_t>(v)); break;
      }
    }
    return out.data();
  }
};

std::vector<float> logits_of(const Model& model, const Ids& ids) {
  EngineOptions options;
  options.kv = DType::f32;
  options.poison = true;
  Engine engine(model, options);
  Session session(engine);
  session.prefill(ids);
  return session.logits();
}

std::vector<float> logits_of(const Tiny& tiny, const Ids& ids = {1, 4, 5, 3, 6}, const ModelOptions& options = {}) {
  const TempFile file(tiny.build());
  return logits_of(Model::load(file.path(), options), ids);
}

Hyperparameters read(const Tiny& tiny, const ModelOptions& options = {}) {
  const TempFile file(tiny.build());
  return Model::load(file.path(), options).hyperparameters();
}

/// Loads and expects an error with this code and all these parts.
void expect_refused(const Tiny& tiny, ErrorCode code, std::initializer_list<const char*> parts,
                    const ModelOptions& options = {}) {
  const TempFile file(tiny.build());
  try {
    const Model model = Model::load(file.path(), options);
    ADD_FAILURE() << "loaded; expected an error with " << *parts.begin();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), code) << text;
    for (const char* part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
}

// --- hyperparameters
// ------------------------------------------------------------------------------------------------------

TEST(HyperparametersTest, LlamaDefaults) {
  const Hyperparameters h = read(Tiny());
  EXPECT_EQ(h.architecture, "llama");
  EXPECT_EQ(h.layers, kLayers);
  EXPECT_EQ(h.head_dim_qk, kDim);
  EXPECT_EQ(h.head_dim_v, kDim);
  EXPECT_EQ(h.vocabulary, kVocabulary);
  EXPECT_EQ(h.rope_base, 10000.0);
  EXPECT_TRUE(h.rope_interleaved);
  EXPECT_EQ(h.rotary_dim, kDim);
  EXPECT_EQ(h.eps, 1e-5f);
  EXPECT_EQ(h.embedding_scale, 1.0f);
  EXPECT_FLOAT_EQ(h.attention_scale, 1.0f / std::sqrt(2.0f));
  EXPECT_EQ(h.window, 0);
  EXPECT_TRUE(h.tied_output);
  EXPECT_EQ(h.rope_scaling.kind, ops::RopeScaling::Kind::none);
}

TEST(HyperparametersTest, HeadsDefaultToAllKvHeads) {
  Tiny tiny;
  tiny.integers.erase("llama.attention.head_count_kv");
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    tiny.matrix("blk." + std::to_string(layer) + ".attn_k.weight", kHeads * kDim, kHidden);
    tiny.matrix("blk." + std::to_string(layer) + ".attn_v.weight", kHeads * kDim, kHidden);
  }
  EXPECT_EQ(read(tiny).kv_heads, kHeads);
}

/// Head sizes of queries/keys and values may differ from each other and from hidden / heads.
TEST(HyperparametersTest, NamedHeadSizes) {
  Tiny tiny;
  tiny.integers["llama.attention.key_length"] = 6;
  tiny.integers["llama.attention.value_length"] = 3;
  tiny.integers["llama.rope.dimension_count"] = 4;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    tiny.matrix(block + "attn_q.weight", kHeads * 6, kHidden);
    tiny.matrix(block + "attn_k.weight", kKvHeads * 6, kHidden);
    tiny.matrix(block + "attn_v.weight", kKvHeads * 3, kHidden);
    tiny.matrix(block + "attn_output.weight", kHidden, kHeads * 3);
  }
  const Hyperparameters h = read(tiny);
  EXPECT_EQ(h.head_dim_qk, 6);
  EXPECT_EQ(h.head_dim_v, 3);
  EXPECT_EQ(h.rotary_dim, 4);
  for (const float logit : logits_of(tiny)) EXPECT_TRUE(std::isfinite(logit));
}

TEST(HyperparametersTest, KeysOutOfRangeAreNamed) {
  const auto with = [](const char* key, uint32_t value) {
    Tiny tiny;
    tiny.integers[key] = value;
    return tiny;
  };
  const auto refused = [&](const char* key, uint32_t value, const char* given) {
    expect_refused(with(key, value), ErrorCode::bad_file, {key, given, "allowed"});
  };
  refused("llama.block_count", 0, "0");
  refused("llama.block_count", 100000, "100000");
  refused("llama.embedding_length", 0, "0");
  refused("llama.context_length", 0, "0");
  refused("llama.feed_forward_length", 0, "0");
  refused("llama.attention.head_count", 0, "0");
  refused("llama.attention.head_count", 3, "3");  // 4 is no multiple
  refused("llama.attention.head_count_kv", 0, "0");
  refused("llama.attention.head_count_kv", 4, "4");  // more than heads
  refused("llama.attention.key_length", 512, "512");
  refused("llama.rope.dimension_count", 1, "1");
  refused("llama.rope.dimension_count", 4, "4");
  expect_refused(with("llama.expert_count", 8), ErrorCode::unsupported, {"llama.expert_count", "8"});
  expect_refused(with("llama.attention.sliding_window", 64), ErrorCode::unsupported,
                 {"llama.attention.sliding_window", "64"});
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.context_length",
                          "llama.feed_forward_length", "llama.attention.head_count"}) {
    Tiny tiny;
    tiny.integers.erase(key);
    expect_refused(tiny, ErrorCode::bad_file, {key, "missing"});
  }
}

TEST(HyperparametersTest, RealsOutOfRangeAreNamed) {
  const auto refused = [](const char* key, float value, ErrorCode code = ErrorCode::bad_file) {
    Tiny tiny;
    tiny.reals[key] = value;
    expect_refused(tiny, code, {key, "allowed"});
  };
  const float nan = std::nanf(""), inf = HUGE_VALF;
  for (const float value : {0.0f, -1e-5f, nan, inf, 2.0f}) refused("llama.attention.layer_norm_rms_epsilon", value);
  for (const float value : {0.0f, -1.0f, nan, inf}) refused("llama.rope.freq_base", value);
  for (const float value : {-1.0f, nan, inf}) refused("llama.rope.scaling.factor", value);
  refused("llama.final_logit_softcapping", 30.0f, ErrorCode::unsupported);
  refused("llama.logit_scale", 0.5f, ErrorCode::unsupported);
  Tiny tiny;
  tiny.reals.erase("llama.attention.layer_norm_rms_epsilon");
  expect_refused(tiny, ErrorCode::bad_file, {"layer_norm_rms_epsilon", "missing"});
}

TEST(HyperparametersTest, UnknownArchitecture) {
  Tiny tiny;
  tiny.texts["general.architecture"] = "mamba\x1b[31m";
  expect_refused(tiny, ErrorCode::unsupported, {"general.architecture", "mamba", "llama, gemma3"});
}

TEST(HyperparametersTest, RopeScaling) {
  Tiny tiny;
  tiny.reals["llama.rope.scaling.factor"] = 4.0f;
  EXPECT_EQ(read(tiny).rope_scaling.kind, ops::RopeScaling::Kind::linear);  // a factor without a type is linear
  EXPECT_EQ(read(tiny).rope_scaling.factor, 4.0);
  tiny.texts["llama.rope.scaling.type"] = "none";
  EXPECT_EQ(read(tiny).rope_scaling.kind, ops::RopeScaling::Kind::none);
  tiny.texts["llama.rope.scaling.type"] = "yarn";
  expect_refused(tiny, ErrorCode::unsupported, {"llama.rope.scaling.type", "yarn"});
  Tiny old;
  old.reals["llama.rope.scale_linear"] = 2.0f;
  EXPECT_EQ(read(old).rope_scaling.factor, 2.0);
}

/// rope_freqs.weight divides the frequencies; 2 everywhere is linear scaling by 2.
TEST(HyperparametersTest, FrequencyDivisors) {
  Tiny linear;
  linear.reals["llama.rope.scaling.factor"] = 2.0f;
  Tiny divided;
  divided.tensors["rope_freqs.weight"] = {{kDim / 2}, std::vector<float>(kDim / 2, 2.0f)};
  EXPECT_EQ(logits_of(divided), logits_of(linear));
  EXPECT_NE(logits_of(divided), logits_of(Tiny()));
  divided.tensors["rope_freqs.weight"].values[0] = 0.0f;
  expect_refused(divided, ErrorCode::bad_file, {"rope_freqs.weight", "0"});
  divided.tensors["rope_freqs.weight"] = {{kDim}, std::vector<float>(kDim, 2.0f)};
  expect_refused(divided, ErrorCode::bad_file, {"rope_freqs.weight", "[2]", "[1]"});
}

TEST(HyperparametersTest, Overrides) {
  EXPECT_EQ(read(Tiny(), {.overrides = {{"llama.rope.freq_base", 5e5}}}).rope_base, 5e5);
  const ErrorCode wrong = ErrorCode::invalid_argument;
  expect_refused(Tiny(), wrong, {"llama.rope.frequency"}, {.overrides = {{"llama.rope.frequency", 1}}});
  expect_refused(Tiny(), wrong, {"block_count", "1.5"}, {.overrides = {{"llama.block_count", 1.5}}});
}

// --- gemma3
// ---------------------------------------------------------------------------------------------------------------

struct TinyGemma : Tiny {
  TinyGemma() : Tiny("gemma3") {
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      vector(block + "attn_q_norm.weight", kDim);
      vector(block + "attn_k_norm.weight", kDim);
      vector(block + "post_attention_norm.weight", kHidden);
      vector(block + "post_ffw_norm.weight", kHidden);
    }
    integers["gemma3.attention.sliding_window"] = 4;
  }
};

TEST(HyperparametersTest, Gemma3Defaults) {
  const Hyperparameters h = read(TinyGemma());
  EXPECT_EQ(h.rope_base, 1e6);
  EXPECT_EQ(h.rope_base_local, 1e4);
  EXPECT_FALSE(h.rope_interleaved);
  EXPECT_EQ(h.embedding_scale, 2.0f);
  EXPECT_EQ(h.window, 4);
  EXPECT_EQ(h.windowed, (std::vector<bool>{true, true}));
  EXPECT_EQ(h.activation, ops::Activation::gelu_tanh);
}

TEST(HyperparametersTest, WindowPatterns) {
  TinyGemma tiny;
  tiny.integers["gemma3.attention.sliding_window_pattern"] = 2;
  EXPECT_EQ(read(tiny).windowed, (std::vector<bool>{true, false}));
  tiny.integers["gemma3.attention.sliding_window_pattern"] = 1;
  EXPECT_EQ(read(tiny).windowed, (std::vector<bool>{false, false}));
  tiny.integers["gemma3.attention.sliding_window_pattern"] = 0;
  EXPECT_EQ(read(tiny).windowed, (std::vector<bool>{true, true}));
  tiny.integers.erase("gemma3.attention.sliding_window_pattern");
  tiny.more = [](GgufWriter& w) { w.array("gemma3.attention.sliding_window_pattern", 7, std::vector<uint8_t>{0, 1}); };
  EXPECT_EQ(read(tiny).windowed, (std::vector<bool>{false, true}));
  tiny.more = [](GgufWriter& w) { w.array("gemma3.attention.sliding_window_pattern", 7, std::vector<uint8_t>{0}); };
  expect_refused(tiny, ErrorCode::bad_file, {"sliding_window_pattern", "1 values", "one per layer, 2"});
  TinyGemma none;
  none.integers.erase("gemma3.attention.sliding_window");
  EXPECT_EQ(read(none).windowed, (std::vector<bool>{false, false}));
}

/// Linear scaling stretches only the layers that see everything.
TEST(HyperparametersTest, WindowedLayersAreNotScaled) {
  TinyGemma plain, scaled;
  scaled.reals["gemma3.rope.scaling.factor"] = 8.0f;
  EXPECT_EQ(logits_of(scaled), logits_of(plain));  // both layers have a window
  plain.integers["gemma3.attention.sliding_window_pattern"] = 2;
  scaled.integers["gemma3.attention.sliding_window_pattern"] = 2;
  EXPECT_NE(logits_of(scaled), logits_of(plain));
}

// --- tensors
// --------------------------------------------------------------------------------------------------------------

TEST(WeightsTest, MissingTensorsAreListed) {
  Tiny tiny;
  tiny.tensors.erase("blk.1.ffn_up.weight");
  tiny.tensors.erase("output_norm.weight");
  expect_refused(tiny, ErrorCode::bad_file, {"2 tensors missing", "blk.1.ffn_up.weight", "output_norm.weight"});
  Tiny deep;
  deep.integers["llama.block_count"] = 40;
  expect_refused(deep, ErrorCode::bad_file, {"342 tensors missing", "blk.2.attn_norm.weight", "and 336 more"});
  Tiny headless;
  headless.tensors.erase("token_embd.weight");
  expect_refused(headless, ErrorCode::bad_file, {"token_embd.weight"});
}

TEST(WeightsTest, UnexpectedTensorsAreListed) {
  Tiny tiny;
  tiny.matrix("blk.0.ffn_gate_inp.weight", 4, kHidden);
  tiny.vector("blk.2.attn_norm.weight", kHidden);
  expect_refused(tiny, ErrorCode::bad_file,
                 {"2 tensors that have no use", "blk.0.ffn_gate_inp.weight", "blk.2.attn_norm.weight"});
  TinyGemma gemma;
  gemma.vector("blk.0.attn_q.bias", kHeads * kDim);
  expect_refused(gemma, ErrorCode::bad_file, {"blk.0.attn_q.bias"});
}

TEST(WeightsTest, ShapesAndTypesAreChecked) {
  Tiny tiny;
  tiny.matrix("blk.0.attn_k.weight", kKvHeads * kDim + 2, kHidden);
  expect_refused(tiny, ErrorCode::bad_file, {"blk.0.attn_k.weight", "[4, 4]", "[2, 4]"});
  Tiny transposed;
  transposed.matrix("blk.0.ffn_down.weight", kFeedForward, kHidden);
  expect_refused(transposed, ErrorCode::bad_file, {"blk.0.ffn_down.weight", "[6, 4]", "[4, 6]"});
  Tiny flat;
  flat.vector("blk.0.attn_q.weight", kHeads * kDim * kHidden);
  expect_refused(flat, ErrorCode::bad_file, {"blk.0.attn_q.weight", "[16]", "[4, 4]"});
  Tiny rows;
  rows.matrix("token_embd.weight", kVocabulary + 1, kHidden);
  expect_refused(rows, ErrorCode::bad_file, {"token_embd.weight", "[9, 4]", "8 tokens"});
  Tiny type;
  type.tensors["blk.1.attn_v.weight"].type = kI8;
  expect_refused(type, ErrorCode::unsupported, {"blk.1.attn_v.weight", "I8", "Q4_K"});
}

TEST(WeightsTest, TiedAndUntiedOutput) {
  const Tiny tied;
  const std::vector<float> with_embedding = logits_of(tied);
  Tiny same = tied, other = tied;
  same.tensors["output.weight"] = tied.tensors.at("token_embd.weight");
  EXPECT_EQ(logits_of(same), with_embedding);
  EXPECT_FALSE(read(same).tied_output);
  other.tensors["output.weight"] = tied.tensors.at("token_embd.weight");
  for (float& v : other.tensors["output.weight"].values) v *= 2.0f;
  const std::vector<float> doubled = logits_of(other);
  for (size_t i = 0; i < doubled.size(); ++i) EXPECT_EQ(doubled[i], 2.0f * with_embedding[i]) << i;
}

TEST(WeightsTest, SixteenBitNormsAreTheSameNumbers) {
  Tiny tiny, half, brain;
  for (auto* changed : {&half, &brain}) {
    for (auto& [name, tensor] : changed->tensors) {
      if (tensor.extents.size() == 1) tensor.type = changed == &half ? kF16 : kBf16;
    }
  }
  EXPECT_EQ(logits_of(half), logits_of(tiny));
  EXPECT_EQ(logits_of(brain), logits_of(tiny));
}

TEST(WeightsTest, CountsAndDevice) {
  const TempFile file(Tiny().build());
  const Model model = Model::load(file.path());
  const int64_t layer =
      2 * kHidden + 2 * kHeads * kDim * kHidden + 2 * kKvHeads * kDim * kHidden + 3 * kFeedForward * kHidden;
  EXPECT_EQ(model.parameters(), kVocabulary * kHidden + kHidden + kLayers * layer);
  EXPECT_EQ(model.weight_bytes(), static_cast<uint64_t>(model.parameters()) * 4);
  EXPECT_EQ(model.weights().output.data, model.weights().embedding.data);
  try {
    Model::load(file.path(), {.device = {DeviceKind::cuda, 99}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found) << error.what();
  }
}

TEST(WeightsTest, NoSuchFileAndDamagedFiles) {
  try {
    Model::load("/nonexistent/file.gguf");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/file.gguf"), std::string::npos);
  }
  const std::string whole = Tiny().build();
  for (size_t length = 0; length < whole.size(); length += 37) {
    const TempFile file(whole.substr(0, length));
    EXPECT_THROW(Model::load(file.path()), Error) << length;
  }
}

// --- biases, against arithmetic written out
// -------------------------------------------------------------------------------

/// The first token alone: rotation by position 0 is the identity and attention gives the value itself.
class FirstToken {
 public:
  explicit FirstToken(const Tiny& tiny) : tiny_(tiny) {}

  std::vector<double> logits(int32_t id) const {
    std::vector<double> x(kHidden);
    for (size_t i = 0; i < x.size(); ++i) x[i] = values("token_embd.weight")[static_cast<size_t>(id * kHidden) + i];
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      const std::vector<double> v = linear(block + "attn_v", norm(block + "attn_norm.weight", x));
      std::vector<double> heads;
      for (int64_t head = 0; head < kHeads; ++head) heads.insert(heads.end(), v.begin(), v.end());
      add(x, linear(block + "attn_output", heads));
      const std::vector<double> h = norm(block + "ffn_norm.weight", x);
      std::vector<double> gate = linear(block + "ffn_gate", h), up = linear(block + "ffn_up", h);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      add(x, linear(block + "ffn_down", gate));
    }
    return product("token_embd.weight", norm("output_norm.weight", x));
  }

 private:
  const std::vector<float>& values(const std::string& name) const { return tiny_.tensors.at(name).values; }
  std::vector<double> norm(const std::string& gamma, const std::vector<double>& x) const {
    double sum = 0;
    for (const double v : x) sum += v * v;
    std::vector<double> y(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = x[i] / std::sqrt(sum / static_cast<double>(x.size()) + 1e-5) * values(gamma)[i];
    return y;
  }
  std::vector<double> product(const std::string& name, const std::vector<double>& x) const {
    const std::vector<float>& w = values(name);
    std::vector<double> y(w.size() / x.size(), 0.0);
    for (size_t row = 0; row < y.size(); ++row) {
      for (size_t i = 0; i < x.size(); ++i) y[row] += w[row * x.size() + i] * x[i];
    }
    return y;
  }
  std::vector<double> linear(const std::string& name, const std::vector<double>& x) const {
    std::vector<double> y = product(name + ".weight", x);
    if (tiny_.tensors.count(name + ".bias") != 0) {
      for (size_t i = 0; i < y.size(); ++i) y[i] += values(name + ".bias")[i];
    }
    return y;
  }
  static void add(std::vector<double>& x, const std::vector<double>& delta) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += delta[i];
  }

  const Tiny& tiny_;
};

TEST(WeightsTest, BiasesAreAdded) {
  Tiny tiny;
  const auto check = [&] {
    const std::vector<double> wanted = FirstToken(tiny).logits(5);
    const std::vector<float> ours = logits_of(tiny, {5});
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], wanted[i], 1e-4) << i;
  };
  check();
  const std::vector<float> before = logits_of(tiny, {5});
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    tiny.vector(block + "attn_v.bias", kKvHeads * kDim);
    tiny.vector(block + "attn_output.bias", kHidden);
    tiny.vector(block + "ffn_gate.bias", kFeedForward);
    tiny.vector(block + "ffn_up.bias", kFeedForward);
    tiny.vector(block + "ffn_down.bias", kHidden);
    check();
  }
  EXPECT_NE(logits_of(tiny, {5}), before);
  // Biases of queries and keys show with two tokens.
  const std::vector<float> two = logits_of(tiny, {5, 3});
  tiny.vector("blk.0.attn_q.bias", kHeads * kDim);
  const std::vector<float> with_q = logits_of(tiny, {5, 3});
  EXPECT_NE(with_q, two);
  tiny.vector("blk.0.attn_k.bias", kKvHeads * kDim);
  EXPECT_NE(logits_of(tiny, {5, 3}), with_q);
}

}  // namespace
}  // namespace monotile::engine
