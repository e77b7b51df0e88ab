#pragma once
// SentencePiece tokenizer (pieces with scores, merged best pair first) from the metadata of a GGUF file, and the streaming
// detokenizer that goes with it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf.hpp"

namespace monotile::engine {

/// Kind of a vocabulary entry, numbered as in GGUF files.
enum class TokenType : uint8_t {
  undefined = 0,
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

/// A vocabulary with its rules. Owns all its data (the GgufFile may be closed); const members are safe from several threads.
///
/// Encoding: (1) the text is split at added tokens, leftmost first and the longest of those that start there; user-defined
/// tokens are always split off, control and unknown tokens only with `parse_special`; (2) every piece of plain text gets the
/// space prefix if the file asks for it and the piece begins the text or follows an added token; spaces become U+2581;
/// (3) the neighbouring pair whose union is the piece with the best score is merged, the leftmost of equals, until none is
/// left; (4) a character that is no piece becomes its bytes' tokens, or the unknown token. Plain text never yields a control,
/// unknown or byte token by merging, so that text cannot imitate the markers of a chat.
class Tokenizer {
 public:
  static constexpr int32_t kNone = -1;

  /// Reads `tokenizer.ggml.*`. Throws Error(unsupported) for another kind of tokenizer, Error(bad_file) for missing arrays,
  /// wrong types or lengths, scores that are not numbers, and ids outside the vocabulary.
  static Tokenizer load(const GgufFile& file);

  int32_t vocab_size() const { return static_cast<int32_t>(types_.size()); }
  /// Ids of special tokens, kNone if the file has none.
  int32_t bos_id() const { return bos_id_; }
  int32_t eos_id() const { return eos_id_; }
  int32_t eot_id() const { return eot_id_; }
  int32_t unknown_id() const { return unknown_id_; }
  int32_t pad_id() const { return pad_id_; }
  bool adds_bos() const { return add_bos_; }
  bool adds_eos() const { return add_eos_; }
  bool adds_space_prefix() const { return add_space_prefix_; }

  /// Tokens after which generation stops (end of sequence, of turn, of message), ascending.
  std::span<const int32_t> end_of_generation() const { return end_of_generation_; }
  bool is_end_of_generation(int32_t id) const;

  /// Text of a token as the file holds it, "" for kNone. Throws Error(invalid_argument) for an id outside the vocabulary.
  std::string_view text(int32_t id) const;
  TokenType type(int32_t id) const;
  /// The lowest id whose text is exactly `text`, or kNone.
  int32_t find(std::string_view text) const;

  /// Token ids of `text`. `add_special`: put BOS in front and EOS at the end if the file asks for them; a BOS that `text`
  /// itself begins with (a rendered chat template) is not doubled. `parse_special`: recognise control tokens in the text.
  /// Bytes that are not UTF-8 become byte tokens. Throws Error(invalid_argument) for texts of 1 GiB and more.
  std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const;

  /// Text of `ids`; always valid UTF-8 (what is not becomes U+FFFD). Control and unknown tokens give nothing unless
  /// `special`. One space at the start is dropped if encoding adds one. Throws Error(invalid_argument) as text().
  std::string decode(std::span<const int32_t> ids, bool special = false) const;

  /// Raw bytes of one token, not necessarily whole characters, with the same rule for `special`.
  std::string piece(int32_t id, bool special) const;

 private:
  struct Loader;
  Tokenizer() = default;
  void build_index();
  void build_added();
  size_t longest_added(std::string_view text, size_t at, bool parse_special, int32_t* id) const;
  void encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& out) const;
  void check(int32_t id) const;
  std::string_view text_unchecked(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return {blob_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]};
  }
  uint64_t hash(std::string_view text) const;
  int32_t find_mergeable(std::string_view text) const;

  std::string blob_;             ///< all token texts, one after the other
  std::vector<size_t> offsets_;  ///< vocab_size() + 1
  std::vector<float> scores_;
  std::vector<TokenType> types_;
  std::vector<int32_t> table_;  ///< open addressing, power of two, kNone = free; lowest id of equal texts
  uint64_t seed_ = 0;           ///< random, so that a file cannot aim for one bucket
  size_t longest_mergeable_ = 0;
  std::vector<int32_t> byte_ids_;  ///< 256
  // Added tokens sorted by text; [0] those split off always, [1] with parse_special. `added_begin_[s][b]` is the first
  // index whose text begins with byte >= b.
  std::vector<int32_t> added_[2];
  std::vector<uint32_t> added_begin_[2];
  std::vector<int32_t> end_of_generation_;
  int32_t bos_id_ = kNone, eos_id_ = kNone, eot_id_ = kNone, unknown_id_ = kNone, pad_id_ = kNone;
  bool add_bos_ = true, add_eos_ = false, add_space_prefix_ = true;
};

/// Turns a stream of tokens into a stream of whole characters. Bytes of an unfinished but still valid UTF-8 sequence are held
/// back; bytes that can no longer become valid give U+FFFD at once (one per maximal valid prefix). The pieces joined equal
/// Tokenizer::decode of all ids, when `at_text_start` is true.
class Detokenizer {
 public:
  /// `special`: also show control and unknown tokens. `at_text_start`: the stream begins a text, so the space that encoding
  /// puts in front is dropped; false when it continues a prompt. `tokenizer` must outlive this.
  explicit Detokenizer(const Tokenizer& tokenizer, bool special = false, bool at_text_start = false);
  /// Text that became complete with this token; may be empty. Throws Error(invalid_argument) for an id outside the vocabulary.
  std::string push(int32_t id);
  /// End of the stream: U+FFFD for an unfinished sequence, else "". The object is then as new, in the middle of a text.
  std::string flush();

 private:
  void append(std::string_view bytes, std::string& out);

  const Tokenizer* tokenizer_;
  bool special_;
  bool drop_space_;
  unsigned char pending_[4] = {};
  int have_ = 0;  ///< bytes held
  int need_ = 0;  ///< length of the sequence that they begin
};

}  // namespace monotile::engine
