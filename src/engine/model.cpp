#include "engine/model.hpp"
#include "engine/chat_template.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "engine/tokenizer.hpp"
#include "monotile/numeric.hpp"

namespace monotile::engine {

namespace {

/// Which models have a tensor.
enum class Need : uint8_t { always, with_qk_norm, with_post_norms, bias };

/// One tensor of a layer: its name after "blk.N.", where it goes, and its extents (cols none: a vector).
struct TensorRule {
  const char* name;
  TensorView LayerWeights::*slot;
  Extent rows;
  Extent cols;
  Need need;
};

using L = LayerWeights;
constexpr TensorRule kLayerTensors[] = {
    {"attn_norm.weight", &L::attention_norm, Extent::hidden, Extent::none, Need::always},
    {"attn_q.weight", &L::q, Extent::query, Extent::hidden, Need::always},
    {"attn_k.weight", &L::k, Extent::key, Extent::hidden, Need::always},
    {"attn_v.weight", &L::v, Extent::value, Extent::hidden, Need::always},
    {"attn_output.weight", &L::o, Extent::hidden, Extent::attended, Need::always},
    {"attn_q_norm.weight", &L::q_norm, Extent::head, Extent::none, Need::with_qk_norm},
    {"attn_k_norm.weight", &L::k_norm, Extent::head, Extent::none, Need::with_qk_norm},
    {"post_attention_norm.weight", &L::post_attention_norm, Extent::hidden, Extent::none, Need::with_post_norms},
    {"ffn_norm.weight", &L::feed_forward_norm, Extent::hidden, Extent::none, Need::always},
    {"ffn_gate.weight", &L::gate, Extent::feed_forward, Extent::hidden, Need::always},
    {"ffn_up.weight", &L::up, Extent::feed_forward, Extent::hidden, Need::always},
    {"ffn_down.weight", &L::down, Extent::hidden, Extent::feed_forward, Need::always},
    {"post_ffw_norm.weight", &L::post_feed_forward_norm, Extent::hidden, Extent::none, Need::with_post_norms},
    {"attn_q.bias", &L::q_bias, Extent::query, Extent::none, Need::bias},
    {"attn_k.bias", &L::k_bias, Extent::key, Extent::none, Need::bias},
    {"attn_v.bias", &L::v_bias, Extent::value, Extent::none, Need::bias},
    {"attn_output.bias", &L::o_bias, Extent::hidden, Extent::none, Need::bias},
    {"ffn_gate.bias", &L::gate_bias, Extent::feed_forward, Extent::none, Need::bias},
    {"ffn_up.bias", &L::up_bias, Extent::feed_forward, Extent::none, Need::bias},
    {"ffn_down.bias", &L::down_bias, Extent::hidden, Extent::none, Need::bias},
};

bool architecture_has(const Architecture& architecture, Need need) {
  switch (need) {
    case Need::always: return true;
    case Need::with_qk_norm: return architecture.qk_norm;
    case Need::with_post_norms: return architecture.post_norms;
    case Need::bias: return architecture.biases;
  }
  return false;
}

/// "a, b, c and 17 more"
std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 6;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

std::string shape_of(std::span<const int64_t> extents) {
  std::string text = "[";
  for (size_t i = 0; i < extents.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(extents[i]);
  return text + "]";
}

bool is_matrix_type(DType dtype) { return is_float(dtype) || is_quantised(dtype); }

}  // namespace

struct Model::Impl {
  GgufFile file;
  Hyperparameters hyperparameters;
  Tokenizer tokenizer;
  Weights weights;
  Device device;
  std::vector<Buffer> buffers;  ///< device copies, and vectors converted to f32
  int64_t parameters = 0;
  uint64_t weight_bytes = 0;
};

namespace {

/// Takes tensors out of the file by name, checks them, and remembers which were taken and which are not there.
class TensorReader {
 public:
  TensorReader(const GgufFile& file, Device device, const Hyperparameters& hyperparameters)
      : file_(file), device_(device), h_(hyperparameters) {
    for (const GgufTensor& tensor : file.tensors()) total_ += tensor.bytes;
    if (!device.host_memory()) stream_.emplace(device);
  }

  /// Undefined if absent; noted as missing if `required`. Vectors come out as f32.
  TensorView take(const std::string& name, Extent rows, Extent cols, bool required) {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      if (required) missing_.push_back(name);
      return {};
    }
    taken_.insert(tensor->name);
    const bool vector = cols == Extent::none;
    const int64_t wanted[2] = {extent_of(rows, h_), extent_of(cols, h_)};
    const std::span<const int64_t> shape(wanted, vector ? 1 : 2),
        found(tensor->extents.data(), static_cast<size_t>(tensor->rank));
    if (!std::equal(shape.begin(), shape.end(), found.begin(), found.end())) {
      fail(ErrorCode::bad_file, name, "shape " + shape_of(found), shape_of(shape) + " by the metadata");
    }
    if (vector ? !is_float(tensor->dtype) : !is_matrix_type(tensor->dtype)) {
      fail(ErrorCode::unsupported, name, std::string("type ") + tensor->type_name,
           vector ? "F32, F16, BF16" : "F32, F16, BF16, Q4_0, Q5_0, Q8_0, Q4_K, Q6_K");
    }
    parameters_ += tensor->elements;
    return place(*tensor, vector);
  }

  /// After all tensors were taken.
  void refuse_leftovers() const {
    std::vector<std::string> unexpected;
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!taken_.contains(tensor.name)) unexpected.push_back(printable(tensor.name));
    }
    if (missing_.empty() && unexpected.empty()) return;
    std::string text =
        "model " + file_.path() + ": " + h_.architecture + " with " + std::to_string(h_.layers) + " layers: ";
    if (!missing_.empty()) text += std::to_string(missing_.size()) + " tensors missing: " + list_of(missing_);
    if (!unexpected.empty()) {
      text += (missing_.empty() ? "" : "; ") + std::to_string(unexpected.size()) +
              " tensors that have no use: " + list_of(unexpected);
    }
    throw Error(ErrorCode::bad_file, text);
  }

  /// Tensors of one type and width, one below the other in one buffer: the parts become views of it. Undefined, and nothing is done, where they
  /// differ, one is absent, or they lie in the file itself.
  TensorView join(std::initializer_list<TensorView*> parts) {
    const TensorView first = **parts.begin();
    if (!stream_ || !first.defined()) return {};
    const int64_t width = first.rank == 1 ? 1 : first.dim(1);
    int64_t rows = 0;
    for (const TensorView* part : parts) {
      if (!part->defined() || part->dtype != first.dtype || part->rank != first.rank || (part->rank == 2 && part->dim(1) != width)) return {};
      rows += part->dim(0);
    }
    Buffer joint(device_, static_cast<size_t>(storage_bytes(first.dtype, rows * width)));
    const TensorView all = first.rank == 1 ? TensorView(joint.data(), first.dtype, {rows}, device_)
                                           : TensorView(joint.data(), first.dtype, {rows, width}, device_);
    int64_t row = 0;
    for (TensorView* part : parts) {
      const TensorView place = all.slice(0, row, row + part->dim(0));
      copy_on_device(*stream_, place.data, part->data, static_cast<size_t>(storage_bytes(part->dtype, part->size())));
      row += part->dim(0);
    }
    stream_->synchronize();
    row = 0;
    for (TensorView* part : parts) {
      std::erase_if(buffers, [&](const Buffer& buffer) { return buffer.data() == part->data; });
      *part = all.slice(0, row, row + part->dim(0));
      row += part->dim(0);
    }
    buffers.push_back(std::move(joint));
    return all;
  }

  void finish() {
    if (stream_) stream_->synchronize();
  }

  std::function<void(uint64_t, uint64_t)> progress;
  std::vector<Buffer> buffers;
  int64_t parameters() const { return parameters_; }
  uint64_t total_bytes() const { return total_; }

  [[noreturn]] void fail(ErrorCode code, const std::string& name, const std::string& given,
                         const std::string& allowed) const {
    throw Error(code, "model " + file_.path() + ": tensor '" + name + "': " + given + "; allowed: " + allowed);
  }

 private:
  TensorView place(const GgufTensor& tensor, bool vector) {
    TensorView view = file_.view(tensor);
    std::vector<float> converted;
    if (vector && tensor.dtype != DType::f32) {
      converted.resize(static_cast<size_t>(tensor.elements));
      for (size_t i = 0; i < converted.size(); ++i) converted[i] = element(tensor, i);
      view = TensorView(converted.data(), DType::f32, {tensor.elements});
    }
    view.device = device_;
    if (device_.host_memory() && converted.empty()) return view;
    const size_t bytes = static_cast<size_t>(storage_bytes(view.dtype, view.size()));
    Buffer buffer(device_, bytes);
    if (stream_) {
      copy_to_device(*stream_, buffer.data(), view.data, bytes);
      if (!converted.empty()) stream_->synchronize();
      file_.drop_pages(tensor);
    } else {
      std::memcpy(buffer.data(), view.data, bytes);
    }
    view.data = buffer.data();
    buffers.push_back(std::move(buffer));
    done_ += tensor.bytes;
    if (progress && stream_) progress(done_, total_);
    return view;
  }

  static float element(const GgufTensor& tensor, size_t i) {
    uint16_t bits;
    std::memcpy(&bits, tensor.data + i * sizeof(bits), sizeof(bits));
    return tensor.dtype == DType::f16 ? to_float(half_t{bits}) : to_float(bfloat16_t{bits});
  }

  const GgufFile& file_;
  Device device_;
  const Hyperparameters& h_;
  std::optional<Stream> stream_;
  std::set<std::string_view> taken_;
  std::vector<std::string> missing_;
  int64_t parameters_ = 0;
  uint64_t total_ = 0, done_ = 0;
};

LayerWeights read_layer(TensorReader& reader, const Architecture& architecture, int64_t layer) {
  LayerWeights weights;
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  for (const TensorRule& rule : kLayerTensors) {
    if (!architecture_has(architecture, rule.need)) continue;
    weights.*rule.slot = reader.take(prefix + rule.name, rule.rows, rule.cols, rule.need != Need::bias);
  }
  // One product of all their columns: three small ones take three times the start-up, and a device waits for each.
  const int biases = weights.q_bias.defined() + weights.k_bias.defined() + weights.v_bias.defined();
  if (biases == 0 || biases == 3) {
    weights.qkv = reader.join({&weights.q, &weights.k, &weights.v});
    if (weights.qkv.defined()) weights.qkv_bias = reader.join({&weights.q_bias, &weights.k_bias, &weights.v_bias});
  }
  return weights;
}

/// rope_freqs.weight holds what the frequency of each pair is divided by (how Llama 3's scaling is stored).
std::vector<float> read_divisors(TensorReader& reader, const GgufFile& file) {
  constexpr const char* kName = "rope_freqs.weight";
  const TensorView view = reader.take(kName, Extent::half_rotary, Extent::none, false);
  if (!view.defined()) return {};
  std::vector<float> divisors(static_cast<size_t>(view.size()));
  const GgufTensor& tensor = file.tensor(kName);
  if (tensor.dtype != DType::f32)
    reader.fail(ErrorCode::unsupported, kName, std::string("type ") + tensor.type_name, "F32");
  std::memcpy(divisors.data(), tensor.data, divisors.size() * sizeof(float));
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (!(divisors[i] > 0.0f) || !std::isfinite(divisors[i])) {
      reader.fail(ErrorCode::bad_file, kName, "value " + std::to_string(divisors[i]) + " at " + std::to_string(i),
                  "finite numbers above 0");
    }
  }
  return divisors;
}

Weights read_weights(TensorReader& reader, const Architecture& architecture, const GgufFile& file, Hyperparameters& h) {
  Weights weights;
  weights.embedding = reader.take("token_embd.weight", Extent::vocabulary, Extent::hidden, true);
  weights.output_norm = reader.take("output_norm.weight", Extent::hidden, Extent::none, true);
  // GGUF has no flag for tied weights: no output matrix means that the embedding is the output matrix; one that is
  // there is used.
  weights.output = reader.take("output.weight", Extent::vocabulary, Extent::hidden, false);
  h.tied_output = !weights.output.defined();
  if (h.tied_output) weights.output = weights.embedding;
  if (architecture.rope_divisors) h.rope_scaling.frequency_divisors = read_divisors(reader, file);
  for (int64_t layer = 0; layer < h.layers; ++layer) weights.layers.push_back(read_layer(reader, architecture, layer));
  return weights;
}

/// Rows of the embedding, which the tokenizer must agree with.
int64_t read_vocabulary(const GgufFile& file, const Tokenizer& tokenizer) {
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) return tokenizer.vocab_size();  // reported as missing later
  const int64_t rows = embedding->rank == 2 ? embedding->extents[0] : 0;
  if (rows != tokenizer.vocab_size()) {
    throw Error(ErrorCode::bad_file, "model " + file.path() + ": tensor 'token_embd.weight': shape " +
                                         shape_of({embedding->extents.data(), static_cast<size_t>(embedding->rank)}) +
                                         "; allowed: one row for each of the " +
                                         std::to_string(tokenizer.vocab_size()) + " tokens of the tokenizer");
  }
  return rows;
}

}  // namespace

Model Model::load(const std::string& path, const ModelOptions& options) {
  const Device device = device_info(options.device).device;
  GgufFile file = GgufFile::open(path);
  const Architecture& architecture = find_architecture(file);
  Hyperparameters h = read_hyperparameters(file, architecture, options.overrides);
  Tokenizer tokenizer = Tokenizer::load(file);
  h.vocabulary = read_vocabulary(file, tokenizer);

  auto impl =
      std::unique_ptr<Impl>(new Impl{std::move(file), std::move(h), std::move(tokenizer), {}, device, {}, 0, 0});
  TensorReader reader(impl->file, device, impl->hyperparameters);
  reader.progress = options.progress;
  impl->weights = read_weights(reader, architecture, impl->file, impl->hyperparameters);
  reader.refuse_leftovers();
  reader.finish();
  impl->buffers = std::move(reader.buffers);
  impl->parameters = reader.parameters();
  impl->weight_bytes = reader.total_bytes();
  return Model(std::move(impl));
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

const Hyperparameters& Model::hyperparameters() const { return impl_->hyperparameters; }
std::vector<int32_t> Model::encode(std::string_view text, bool add_special, bool parse_special) const {
  return impl_->tokenizer.encode(text, add_special, parse_special);
}
std::string Model::decode(std::span<const int32_t> ids) const { return impl_->tokenizer.decode(ids); }
bool Model::is_end(int32_t id) const { return impl_->tokenizer.is_end_of_generation(id); }
std::string Model::chat_prompt(std::string_view message) const {
  const ChatMessage messages[] = {{"user", std::string(message)}};
  return ChatTemplate::load(impl_->file, impl_->tokenizer).render(messages);
}
const Tokenizer& Model::tokenizer() const { return impl_->tokenizer; }
const GgufFile& Model::file() const { return impl_->file; }
const Weights& Model::weights() const { return impl_->weights; }
Device Model::device() const { return impl_->device; }
int64_t Model::parameters() const { return impl_->parameters; }
uint64_t Model::weight_bytes() const { return impl_->weight_bytes; }

}  // namespace monotile::engine
