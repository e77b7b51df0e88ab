#include "engine/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <queue>
#include <random>

namespace monotile::engine {

namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr size_t kMaxAddedTokenBytes = 1024;  // keeps the scan for added tokens linear whatever the file holds
constexpr size_t kMaxTextBytes = size_t{1} << 30;

// Tokens that end a turn or a text in known model families, for files whose metadata names only one of them.
constexpr std::string_view kEndOfTurn[] = {"<end_of_turn>", "<|eot_id|>", "<|im_end|>",
                                           "<|end|>",       "<EOT>",      "<|eom_id|>"};
constexpr std::string_view kEndOfText[] = {"<eos>", "</s>", "<|endoftext|>", "<|end_of_text|>"};

[[noreturn]] void bad_file(const GgufFile& file, const std::string& text) {
  throw Error(ErrorCode::bad_file, "tokenizer: '" + printable(file.path()) + "': " + text);
}

/// Allowed range of the byte after `lead` (Unicode table 3-7), and the length of the sequence; length 0 for a wrong lead.
struct Utf8Lead {
  int length;
  unsigned char low, high;
};

constexpr Utf8Lead utf8_lead(unsigned char b) {
  if (b < 0x80) return {1, 0, 0};
  if (b < 0xC2 || b > 0xF4) return {0, 0, 0};
  if (b < 0xE0) return {2, 0x80, 0xBF};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b < 0xF0) return {3, 0x80, 0xBF};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {4, 0x80, 0xBF};
}

/// Bytes of the character at `text[at]`; 1 for a byte that begins no valid character.
size_t character_bytes(std::string_view text, size_t at) {
  const Utf8Lead lead = utf8_lead(static_cast<unsigned char>(text[at]));
  if (lead.length <= 1 || at + static_cast<size_t>(lead.length) > text.size()) return 1;
  for (int k = 1; k < lead.length; ++k) {
    const auto b = static_cast<unsigned char>(text[at + static_cast<size_t>(k)]);
    if (b < (k == 1 ? lead.low : 0x80) || b > (k == 1 ? lead.high : 0xBF)) return 1;
  }
  return static_cast<size_t>(lead.length);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// The value of "<0xHH>", or -1.
int byte_token_value(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool can_merge(TokenType t) { return t != TokenType::control && t != TokenType::unknown && t != TokenType::byte; }

}  // namespace

// --- loading ----------------------------------------------------------------------------------------------------------

struct Tokenizer::Loader {
  const GgufFile& file;
  Tokenizer& t;

  int32_t special_id(const char* key, int32_t fallback) const {
    const std::string full = std::string("tokenizer.ggml.") + key;
    if (!file.has(full)) return fallback < t.vocab_size() ? fallback : kNone;
    const int64_t id = file.get_i64(full);
    // Some converters write -1 or 2^32 - 1 for "none".
    if (id == -1 || id == int64_t{std::numeric_limits<uint32_t>::max()}) return kNone;
    if (id < 0 || id >= int64_t{t.vocab_size()}) {
      bad_file(file, full + " is " + std::to_string(id) + ", allowed are ids under " + std::to_string(t.vocab_size()));
    }
    return static_cast<int32_t>(id);
  }

  void read_texts() {
    const auto tokens = file.get_string_array("tokenizer.ggml.tokens");
    if (tokens.empty() || tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      bad_file(file,
               "tokenizer.ggml.tokens has " + std::to_string(tokens.size()) + " entries, allowed are 1 to 2^31 - 1");
    }
    t.offsets_.reserve(tokens.size() + 1);
    size_t total = 0;
    for (const std::string_view token : tokens) total += token.size();
    t.blob_.reserve(total);
    for (const std::string_view token : tokens) {
      t.offsets_.push_back(t.blob_.size());
      t.blob_ += token;
    }
    t.offsets_.push_back(t.blob_.size());
  }

  void read_scores() {
    t.scores_ = file.get_f32_array("tokenizer.ggml.scores");
    if (t.scores_.size() + 1 != t.offsets_.size()) {
      bad_file(file, "tokenizer.ggml.scores has " + std::to_string(t.scores_.size()) + " entries for " +
                         std::to_string(t.offsets_.size() - 1) + " tokens");
    }
    for (size_t i = 0; i < t.scores_.size(); ++i) {
      if (std::isnan(t.scores_[i])) bad_file(file, "tokenizer.ggml.scores: entry " + std::to_string(i) + " is NaN");
    }
  }

  void read_types() {
    const size_t count = t.offsets_.size() - 1;
    t.types_.assign(count, TokenType::normal);
    if (!file.has("tokenizer.ggml.token_type")) {
      for (size_t i = 0; i < count; ++i) {
        if (byte_token_value(t.text_unchecked(static_cast<int32_t>(i))) >= 0) t.types_[i] = TokenType::byte;
      }
      return;
    }
    const std::vector<int32_t> types = file.get_i32_array("tokenizer.ggml.token_type");
    if (types.size() != count) {
      bad_file(file, "tokenizer.ggml.token_type has " + std::to_string(types.size()) + " entries for " +
                         std::to_string(count) + " tokens");
    }
    for (size_t i = 0; i < count; ++i) {
      if (types[i] < 0 || types[i] > 6) {
        bad_file(file, "tokenizer.ggml.token_type: entry " + std::to_string(i) + " is " + std::to_string(types[i]) +
                           ", allowed are 0 to 6");
      }
      t.types_[i] = static_cast<TokenType>(types[i]);
      if (t.types_[i] == TokenType::byte && byte_token_value(t.text_unchecked(static_cast<int32_t>(i))) < 0) {
        bad_file(file, "token " + std::to_string(i) + " '" + printable(t.text_unchecked(static_cast<int32_t>(i))) +
                           "' has type byte, allowed are texts like <0x0A>");
      }
    }
  }

  void read_special_ids() {
    t.bos_id_ = special_id("bos_token_id", 1);
    t.eos_id_ = special_id("eos_token_id", 2);
    t.unknown_id_ = special_id("unknown_token_id", 0);
    t.pad_id_ = special_id("padding_token_id", kNone);
    t.eot_id_ = special_id("eot_token_id", kNone);
    t.add_bos_ = file.get_bool("tokenizer.ggml.add_bos_token", true);
    t.add_eos_ = file.get_bool("tokenizer.ggml.add_eos_token", false);
    t.add_space_prefix_ = file.get_bool("tokenizer.ggml.add_space_prefix", true);
    if (t.add_bos_ && t.bos_id_ == kNone) bad_file(file, "add_bos_token is true, but there is no bos_token_id");
    if (t.add_eos_ && t.eos_id_ == kNone) bad_file(file, "add_eos_token is true, but there is no eos_token_id");
    if (!file.has("tokenizer.ggml.token_type")) {
      if (t.unknown_id_ != kNone) set_type(t.unknown_id_, TokenType::unknown);
      if (t.bos_id_ != kNone) set_type(t.bos_id_, TokenType::control);
      if (t.eos_id_ != kNone) set_type(t.eos_id_, TokenType::control);
    }
  }

  void set_type(int32_t id, TokenType type) { t.types_[static_cast<size_t>(id)] = type; }

  /// Needs the index. A marker that a converter left as a normal or user-defined piece becomes a control token, so that plain
  /// text cannot end a turn; only "</s>" keeps its type if user-defined, where it is the HTML tag.
  void find_end_of_generation() {
    std::vector<int32_t>& ids = t.end_of_generation_;
    if (t.eos_id_ != kNone) ids.push_back(t.eos_id_);
    if (t.eot_id_ != kNone) ids.push_back(t.eot_id_);
    if (const int32_t id = special_id("eom_token_id", kNone); id != kNone) ids.push_back(id);
    for (const std::string_view text : kEndOfTurn) {
      const int32_t id = t.find(text);
      if (id == kNone) continue;
      if (t.eot_id_ == kNone) t.eot_id_ = id;
      ids.push_back(id);
      set_type(id, TokenType::control);
    }
    for (const std::string_view text : kEndOfText) {
      const int32_t id = t.find(text);
      if (id == kNone || t.type(id) == TokenType::user_defined) continue;
      ids.push_back(id);
      set_type(id, TokenType::control);
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  }

  void find_bytes() {
    t.byte_ids_.assign(256, kNone);
    for (int32_t id = t.vocab_size() - 1; id >= 0; --id) {  // downwards: the lowest of equal tokens stays
      if (t.types_[static_cast<size_t>(id)] != TokenType::byte) continue;
      t.byte_ids_[static_cast<size_t>(byte_token_value(t.text_unchecked(id)))] = id;
    }
    const auto missing = std::find(t.byte_ids_.begin(), t.byte_ids_.end(), kNone);
    if (missing != t.byte_ids_.end() && t.unknown_id_ == kNone) {
      bad_file(file, "no token for byte " + std::to_string(missing - t.byte_ids_.begin()) + " and no unknown_token_id");
    }
  }

  void check_added() const {
    for (const auto& list : t.added_) {
      for (const int32_t id : list) {
        if (t.text_unchecked(id).size() > kMaxAddedTokenBytes) {
          bad_file(file, "added token " + std::to_string(id) + " has " + std::to_string(t.text_unchecked(id).size()) +
                             " bytes, allowed are at most " + std::to_string(kMaxAddedTokenBytes));
        }
      }
    }
  }
};

Tokenizer Tokenizer::load(const GgufFile& file) {
  const std::string_view model = file.get_string("tokenizer.ggml.model");
  if (model != "llama") {
    throw Error(ErrorCode::unsupported, "tokenizer: '" + printable(file.path()) + "': tokenizer.ggml.model is '" +
                                            printable(model) + "', allowed is 'llama' (SentencePiece)");
  }
  Tokenizer t;
  Loader loader{file, t};
  loader.read_texts();
  loader.read_scores();
  loader.read_types();
  t.build_index();
  loader.read_special_ids();
  loader.find_end_of_generation();
  loader.find_bytes();
  t.build_added();
  loader.check_added();
  for (int32_t id = 0; id < t.vocab_size(); ++id) {
    if (can_merge(t.types_[static_cast<size_t>(id)])) {
      t.longest_mergeable_ = std::max(t.longest_mergeable_, t.text_unchecked(id).size());
    }
  }
  return t;
}

uint64_t Tokenizer::hash(std::string_view text) const {
  uint64_t h = seed_ ^ (text.size() * 0x9E3779B97F4A7C15u);
  const char* p = text.data();
  size_t left = text.size();
  const auto mix = [&](uint64_t word) {
    const unsigned __int128 product = static_cast<unsigned __int128>(h ^ word) * 0xD6E8FEB86659FD93u;
    h = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    mix(word);
  }
  uint64_t word = 0;
  std::memcpy(&word, p, left);
  mix(word);
  mix(seed_);
  return h;
}

void Tokenizer::build_index() {
  std::random_device entropy;
  seed_ = (static_cast<uint64_t>(entropy()) << 32) | entropy();
  table_.assign(std::bit_ceil(types_.size() * 2), kNone);
  const size_t mask = table_.size() - 1;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const std::string_view text = text_unchecked(id);
    if (text.empty()) continue;
    size_t slot = hash(text) & mask;
    while (table_[slot] != kNone && text_unchecked(table_[slot]) != text) slot = (slot + 1) & mask;
    if (table_[slot] == kNone) table_[slot] = id;  // of equal texts the lowest id stays
  }
}

void Tokenizer::build_added() {
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const TokenType type = types_[static_cast<size_t>(id)];
    if (text_unchecked(id).empty()) continue;
    if (type == TokenType::user_defined) added_[0].push_back(id);
    if (type == TokenType::user_defined || type == TokenType::control || type == TokenType::unknown)
      added_[1].push_back(id);
  }
  for (size_t s = 0; s < 2; ++s) {
    std::stable_sort(added_[s].begin(), added_[s].end(),
                     [&](int32_t a, int32_t b) { return text_unchecked(a) < text_unchecked(b); });
    added_begin_[s].assign(257, static_cast<uint32_t>(added_[s].size()));
    for (size_t i = added_[s].size(); i-- > 0;) {
      added_begin_[s][static_cast<unsigned char>(text_unchecked(added_[s][i])[0])] = static_cast<uint32_t>(i);
    }
    for (size_t b = 256; b-- > 0;) added_begin_[s][b] = std::min(added_begin_[s][b], added_begin_[s][b + 1]);
  }
}

// --- look-up ----------------------------------------------------------------------------------------------------------

void Tokenizer::check(int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw Error(ErrorCode::invalid_argument,
                "tokenizer: token id " + std::to_string(id) + ", allowed are 0 to " + std::to_string(vocab_size() - 1));
  }
}

std::string_view Tokenizer::text(int32_t id) const {
  if (id == kNone) return {};
  check(id);
  return text_unchecked(id);
}

TokenType Tokenizer::type(int32_t id) const {
  check(id);
  return types_[static_cast<size_t>(id)];
}

bool Tokenizer::is_end_of_generation(int32_t id) const {
  return std::binary_search(end_of_generation_.begin(), end_of_generation_.end(), id);
}

int32_t Tokenizer::find(std::string_view text) const {
  if (text.empty()) return kNone;
  const size_t mask = table_.size() - 1;
  for (size_t slot = hash(text) & mask; table_[slot] != kNone; slot = (slot + 1) & mask) {
    if (text_unchecked(table_[slot]) == text) return table_[slot];
  }
  return kNone;
}

int32_t Tokenizer::find_mergeable(std::string_view text) const {
  if (text.size() > longest_mergeable_) return kNone;
  const int32_t id = find(text);
  return id != kNone && can_merge(types_[static_cast<size_t>(id)]) ? id : kNone;
}

/// Bytes of the longest added token that starts at `text[at]`, 0 if none. The sorted list is narrowed byte by byte.
size_t Tokenizer::longest_added(std::string_view text, size_t at, bool parse_special, int32_t* id) const {
  const std::vector<int32_t>& list = added_[parse_special];
  const auto first = static_cast<unsigned char>(text[at]);
  size_t low = added_begin_[parse_special][first], high = added_begin_[parse_special][first + 1u];
  size_t best = 0;
  for (size_t depth = 1; low < high; ++depth) {
    // Every text in [low, high) agrees with the input in `depth` bytes; one that ends here is the first of the range.
    if (text_unchecked(list[low]).size() == depth) {
      best = depth;
      *id = list[low];
    }
    if (at + depth >= text.size()) break;
    if (high - low == 1) {  // the usual case: one candidate is left
      const std::string_view only = text_unchecked(list[low]);
      if (only.size() > depth && text.substr(at, only.size()) == only) {
        best = only.size();
        *id = list[low];
      }
      break;
    }
    const auto byte = static_cast<unsigned char>(text[at + depth]);
    const auto byte_at = [&](int32_t token) {
      const std::string_view t = text_unchecked(token);
      return t.size() > depth ? static_cast<int>(static_cast<unsigned char>(t[depth])) : -1;
    };
    const auto begin = list.begin();
    const auto lower = std::lower_bound(begin + static_cast<ptrdiff_t>(low), begin + static_cast<ptrdiff_t>(high), byte,
                                        [&](int32_t token, int b) { return byte_at(token) < b; });
    const auto upper = std::upper_bound(lower, begin + static_cast<ptrdiff_t>(high), byte,
                                        [&](int b, int32_t token) { return b < byte_at(token); });
    low = static_cast<size_t>(lower - begin);
    high = static_cast<size_t>(upper - begin);
  }
  return best;
}

// --- encoding ---------------------------------------------------------------------------------------------------------

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
  if (text.size() >= kMaxTextBytes) {
    throw Error(ErrorCode::invalid_argument, "tokenizer: text of " + std::to_string(text.size()) +
                                                 " bytes, allowed are under " + std::to_string(kMaxTextBytes));
  }
  std::vector<int32_t> out;
  const bool with_bos = add_special && add_bos_;
  if (with_bos) out.push_back(bos_id_);
  bool after_added = true;  // the start of the text counts as following an added token
  size_t plain = 0;         // start of the plain text not yet encoded
  for (size_t at = 0; at < text.size();) {
    int32_t id = kNone;
    const size_t length = longest_added(text, at, parse_special, &id);
    if (length == 0) {
      ++at;
      continue;
    }
    if (at > plain) encode_plain(text.substr(plain, at - plain), add_space_prefix_ && after_added, out);
    const bool doubled = with_bos && at == 0 && id == bos_id_;
    if (!doubled) out.push_back(id);
    after_added = true;
    at += length;
    plain = at;
  }
  if (plain < text.size()) encode_plain(text.substr(plain), add_space_prefix_ && after_added, out);
  if (add_special && add_eos_) out.push_back(eos_id_);
  return out;
}

void Tokenizer::encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& out) const {
  std::string marked;
  marked.reserve(text.size() + text.size() / 4 + kSpaceMark.size());
  if (prefix) marked += kSpaceMark;
  for (const char c : text) {
    if (c == ' ') {
      marked += kSpaceMark;
    } else {
      marked += c;
    }
  }

  struct Symbol {
    uint32_t begin, length;  // length 0: merged into its left neighbour
    int32_t prev, next;
  };
  std::vector<Symbol> symbols;
  symbols.reserve(marked.size());
  for (size_t at = 0; at < marked.size();) {
    const size_t length = character_bytes(marked, at);
    const auto i = static_cast<int32_t>(symbols.size());
    symbols.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(length), i - 1, i + 1});
    at += length;
  }
  symbols.back().next = -1;
  const auto symbol = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };

  struct Pair {
    float score;
    int32_t left, right;
    uint32_t length;
    bool operator<(const Pair& other) const {
      return score < other.score || (score == other.score && left > other.left);
    }
  };
  std::priority_queue<Pair> queue;
  const auto consider = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const uint32_t length = symbol(left).length + symbol(right).length;
    const int32_t id = find_mergeable(std::string_view(marked).substr(symbol(left).begin, length));
    if (id != kNone) queue.push({scores_[static_cast<size_t>(id)], left, right, length});
  };
  for (int32_t i = 1; i < static_cast<int32_t>(symbols.size()); ++i) consider(i - 1, i);
  while (!queue.empty()) {
    const Pair pair = queue.top();
    queue.pop();
    Symbol& left = symbol(pair.left);
    Symbol& right = symbol(pair.right);
    // Stale if either side has been merged since: symbols only grow, so equal total length means both are unchanged.
    if (left.length == 0 || right.length == 0 || left.length + right.length != pair.length) continue;
    left.length = pair.length;
    left.next = right.next;
    if (right.next >= 0) symbol(right.next).prev = pair.left;
    right.length = 0;
    consider(left.prev, pair.left);
    consider(pair.left, left.next);
  }

  for (int32_t i = 0; i >= 0; i = symbol(i).next) {
    const std::string_view piece = std::string_view(marked).substr(symbol(i).begin, symbol(i).length);
    const int32_t id = find_mergeable(piece);
    if (id != kNone) {
      out.push_back(id);
      continue;
    }
    const bool all_bytes = std::all_of(piece.begin(), piece.end(),
                                       [&](char c) { return byte_ids_[static_cast<unsigned char>(c)] != kNone; });
    if (!all_bytes) {
      out.push_back(unknown_id_);
      continue;
    }
    for (const char c : piece) out.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  }
}

// --- decoding ---------------------------------------------------------------------------------------------------------

std::string Tokenizer::piece(int32_t id, bool special) const {
  check(id);
  const std::string_view text = text_unchecked(id);
  switch (types_[static_cast<size_t>(id)]) {
    case TokenType::control:
    case TokenType::unknown: return special ? std::string(text) : std::string();
    case TokenType::user_defined: return std::string(text);
    case TokenType::byte: return std::string(1, static_cast<char>(byte_token_value(text)));
    default: break;
  }
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at, kSpaceMark.size()) == kSpaceMark) {
      out += ' ';
      at += kSpaceMark.size();
    } else {
      out += text[at++];
    }
  }
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool special) const {
  Detokenizer stream(*this, special, true);
  std::string out;
  for (const int32_t id : ids) out += stream.push(id);
  return out + stream.flush();
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool special, bool at_text_start)
    : tokenizer_(&tokenizer), special_(special), drop_space_(at_text_start && tokenizer.adds_space_prefix()) {}

std::string Detokenizer::push(int32_t id) {
  const std::string bytes = tokenizer_->piece(id, special_);
  std::string_view view = bytes;
  if (drop_space_ && !view.empty()) {
    const TokenType type = tokenizer_->type(id);
    // A marker shown at the very start (BOS) does not use up the prefix: the text after it has its own.
    if (type != TokenType::control && type != TokenType::unknown) {
      if (view.front() == ' ' && type != TokenType::user_defined) view.remove_prefix(1);
      drop_space_ = false;
    }
  }
  std::string out;
  append(view, out);
  return out;
}

void Detokenizer::append(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    if (have_ > 0) {
      const Utf8Lead lead = utf8_lead(pending_[0]);
      const unsigned char low = have_ == 1 ? lead.low : 0x80, high = have_ == 1 ? lead.high : 0xBF;
      if (b >= low && b <= high) {
        pending_[have_++] = b;
        if (have_ == need_) {
          out.append(reinterpret_cast<const char*>(pending_), static_cast<size_t>(have_));
          have_ = 0;
        }
        continue;
      }
      out += kReplacement;
      have_ = 0;
    }
    const Utf8Lead lead = utf8_lead(b);
    if (lead.length == 0) {
      out += kReplacement;
    } else if (lead.length == 1) {
      out += c;
    } else {
      pending_[0] = b;
      have_ = 1;
      need_ = lead.length;
    }
  }
}

std::string Detokenizer::flush() {
  const bool unfinished = have_ > 0;
  have_ = 0;
  drop_space_ = false;
  return unfinished ? std::string(kReplacement) : std::string();
}

}  // namespace monotile::engine
