// Models of a real shape with random weights, so that large ones can be measured without a download.

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>

#include "bench/model_bench.hpp"
#include "bench/shapes.hpp"
#include "ops/random_data.hpp"

namespace monotile::bench {
namespace {

/// Little-endian fields of a GGUF header.
class Header {
 public:
  template <class T>
  Header& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Header& text(const std::string& value) {
    put<uint64_t>(value.size());
    bytes_ += value;
    return *this;
  }
  Header& integer(const std::string& key, uint32_t value) { return ++entries_, text(key).put<uint32_t>(4).put(value); }
  Header& real(const std::string& key, float value) { return ++entries_, text(key).put<uint32_t>(6).put(value); }
  Header& string(const std::string& key, const std::string& value) {
    return ++entries_, text(key).put<uint32_t>(8).text(value);
  }
  /// Before the values of an array.
  Header& array(const std::string& key, uint32_t type, uint64_t count) {
    return ++entries_, text(key).put<uint32_t>(9).put(type).put(count);
  }
  uint64_t entries() const { return entries_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  uint64_t entries_ = 0;
};

struct Matrix {
  std::string name;
  int64_t rows, cols;  ///< rows 0: an f32 vector
  uint64_t bytes() const {
    return rows == 0 ? static_cast<uint64_t>(cols) * 4 : static_cast<uint64_t>(rows * cols) * 2;
  }
};

std::vector<Matrix> tensors_of(const ModelShape& m) {
  std::vector<Matrix> list = {{"token_embd.weight", m.vocabulary, m.hidden},
                              {"output_norm.weight", 0, m.hidden},
                              {"output.weight", m.vocabulary, m.hidden}};
  for (int64_t layer = 0; layer < m.layers; ++layer) {
    const auto add = [&](const char* name, int64_t rows, int64_t cols) {
      list.push_back({fmt::format("blk.{}.{}.weight", layer, name), rows, cols});
    };
    add("attn_norm", 0, m.hidden);
    add("attn_q", m.heads * m.head_dim, m.hidden);
    add("attn_k", m.kv_heads * m.head_dim, m.hidden);
    add("attn_v", m.kv_heads * m.head_dim, m.hidden);
    add("attn_output", m.hidden, m.heads * m.head_dim);
    add("ffn_norm", 0, m.hidden);
    add("ffn_gate", m.feed_forward, m.hidden);
    add("ffn_up", m.feed_forward, m.hidden);
    add("ffn_down", m.hidden, m.feed_forward);
  }
  return list;
}

std::string metadata_of(const ModelShape& m, uint64_t tensors) {
  Header h;
  const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
  h.string("general.architecture", "llama")
      .string("general.name", std::string(m.name) + " (synthetic)")
      .integer("general.alignment", 64);
  h.integer("llama.block_count", u32(m.layers))
      .integer("llama.embedding_length", u32(m.hidden))
      .integer("llama.context_length", 8192);
  h.integer("llama.feed_forward_length", u32(m.feed_forward))
      .integer("llama.attention.head_count", u32(m.heads))
      .integer("llama.attention.head_count_kv", u32(m.kv_heads));
  h.integer("llama.attention.key_length", u32(m.head_dim)).integer("llama.attention.value_length", u32(m.head_dim));
  h.integer("llama.rope.dimension_count", u32(m.head_dim))
      .real("llama.rope.freq_base", 500000.0f)
      .real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  const auto count = static_cast<uint64_t>(m.vocabulary);
  h.string("tokenizer.ggml.model", "llama").array("tokenizer.ggml.tokens", 8, count);
  for (uint64_t t = 0; t < count; ++t)
    h.text(t == 0 ? "<unk>" : t == 1 ? "<s>" : t == 2 ? "</s>" : fmt::format("t{}", t));
  h.array("tokenizer.ggml.scores", 6, count);
  for (uint64_t t = 0; t < count; ++t) h.put(-static_cast<float>(t));
  h.array("tokenizer.ggml.token_type", 5, count);
  for (uint64_t t = 0; t < count; ++t) h.put<int32_t>(t == 0 ? 2 : t < 3 ? 3 : 1);
  h.integer("tokenizer.ggml.bos_token_id", 1)
      .integer("tokenizer.ggml.eos_token_id", 2)
      .integer("tokenizer.ggml.unknown_token_id", 0);
  Header whole;
  whole.put<uint32_t>(0x46554747).put<uint32_t>(3).put(tensors).put(h.entries());
  return whole.bytes() + h.bytes();
}

}  // namespace

void write_synthetic_gguf(const std::string& path, const std::string& shape, bool holes) {
  constexpr uint64_t kAlignment = 64;
  const auto aligned = [](uint64_t at) { return (at + kAlignment - 1) / kAlignment * kAlignment; };
  const ModelShape& model = model_shape(shape);
  if (model.experts != 0)
    throw Error(ErrorCode::unsupported, "--synthetic " + shape + ": the engine has no mixtures of experts yet");
  const std::vector<Matrix> tensors = tensors_of(model);
  Header infos;
  uint64_t offset = 0;
  for (const Matrix& t : tensors) {
    infos.text(t.name).put<uint32_t>(t.rows == 0 ? 1 : 2).put(static_cast<uint64_t>(t.cols));
    if (t.rows != 0) infos.put(static_cast<uint64_t>(t.rows));
    infos.put<uint32_t>(t.rows == 0 ? 0 : 30).put(offset);  // F32 or BF16
    offset = aligned(offset + t.bytes());
  }
  const std::string head = metadata_of(model, tensors.size()) + infos.bytes();
  const uint64_t begin = aligned(head.size());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  const auto fail = [&] {
    throw Error(ErrorCode::device_error,
                path + ": a synthetic model of " + std::to_string(begin + offset) + " bytes could not be written");
  };
  if (file == nullptr || std::fwrite(head.data(), 1, head.size(), file.get()) != head.size()) fail();
  std::vector<uint16_t> random(1 << 20);
  ops::RandomData(3).fill(random.data(), DType::bf16, static_cast<int64_t>(random.size()), -0.03, 0.03);
  uint64_t at = 0;
  for (const Matrix& t : tensors) {
    if (std::fseek(file.get(), static_cast<long>(begin + at), SEEK_SET) != 0) fail();
    if (t.rows == 0) {
      const std::vector<float> ones(static_cast<size_t>(t.cols), 1.0f);
      if (std::fwrite(ones.data(), 4, ones.size(), file.get()) != ones.size()) fail();
    } else if (!holes) {
      for (uint64_t left = t.bytes() / 2; left > 0;) {
        const size_t part = std::min<uint64_t>(left, random.size());
        if (std::fwrite(random.data(), 2, part, file.get()) != part) fail();
        left -= part;
      }
    }
    at = aligned(at + t.bytes());
  }
  if (std::fflush(file.get()) != 0 || ftruncate(fileno(file.get()), static_cast<off_t>(begin + offset)) != 0) fail();
}

}  // namespace monotile::bench
