#include "engine/tokenizer.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <random>

#include "tests/engine/gguf_writer.hpp"

namespace monotile::engine {
namespace {

using test::GgufWriter;
using test::TempFile;
using Ids = std::vector<int32_t>;

constexpr const char* kSpace = "\xE2\x96\x81";

/// A vocabulary with all byte tokens: ids 0 <unk>, 1 <s>, 2 </s>, 3..258 bytes, then the added pieces.
struct Vocabulary {
  std::vector<std::string> texts{"<unk>", "<s>", "</s>"};
  std::vector<float> scores{0, 0, 0};
  std::vector<int32_t> types{2, 3, 3};
  bool add_bos = true, add_eos = false, space_prefix = false;
  std::function<void(GgufWriter&)> more;  ///< further metadata

  explicit Vocabulary(bool bytes = true) {
    for (int b = 0; b < 256 && bytes; ++b) {
      char text[8];
      std::snprintf(text, sizeof text, "<0x%02X>", b);
      add(text, 0, 6);
    }
  }
  int32_t add(const std::string& text, float score, int32_t type = 1) {
    texts.push_back(text);
    scores.push_back(score);
    types.push_back(type);
    return static_cast<int32_t>(texts.size()) - 1;
  }
  GgufWriter writer() const {
    GgufWriter w;
    w.text("tokenizer.ggml.model", "llama")
        .texts("tokenizer.ggml.tokens", texts)
        .array("tokenizer.ggml.scores", 6, scores);
    w.array("tokenizer.ggml.token_type", 5, types);
    w.u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.eos_token_id", 2)
        .u32("tokenizer.ggml.unknown_token_id", 0);
    w.boolean("tokenizer.ggml.add_bos_token", add_bos).boolean("tokenizer.ggml.add_eos_token", add_eos);
    w.boolean("tokenizer.ggml.add_space_prefix", space_prefix);
    if (more) more(w);
    return w;
  }
  Tokenizer load() const { return load(writer()); }
  static Tokenizer load(const GgufWriter& w) {
    const TempFile file(w.build());
    return Tokenizer::load(GgufFile::open(file.path()));  // keeps nothing of the file
  }
};

Ids bytes(std::string_view text) {
  Ids out;
  for (const char c : text) out.push_back(3 + static_cast<unsigned char>(c));
  return out;
}

Ids plus(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Tokenizer, MergesTheBestScoreFirstAndTheLeftmostOfEquals) {
  Vocabulary v;
  const int32_t a = v.add("a", -9), b = v.add("b", -9), c = v.add("c", -9);
  const int32_t ab = v.add("ab", -2), bc = v.add("bc", -1), aa = v.add("aa", -3), abc = v.add("abc", -8);
  const Tokenizer t = v.load();
  EXPECT_EQ(t.encode("ab", false, false), (Ids{ab}));
  EXPECT_EQ(t.encode("abc", false, false), (Ids{abc}));  // a + bc: the better pair first, then the union
  EXPECT_EQ(t.encode("abcb", false, false), (Ids{abc, b}));
  EXPECT_EQ(t.encode("aaa", false, false), (Ids{aa, a}));  // ties go to the left
  EXPECT_EQ(t.encode("aaaaa", false, false), (Ids{aa, aa, a}));
  EXPECT_EQ(t.encode("cbca", false, false), (Ids{c, bc, a}));
  EXPECT_TRUE(t.encode("", false, false).empty());
}

TEST(Tokenizer, NoMergeThroughATextThatIsNoPiece) {
  Vocabulary v;
  const int32_t x = v.add("x", -1), y = v.add("y", -1), z = v.add("z", -1);
  v.add("xyz", 5);  // neither xy nor yz exists
  EXPECT_EQ(v.load().encode("xyz", false, false), (Ids{x, y, z}));
}

TEST(Tokenizer, FallsBackToBytes) {
  Vocabulary v;
  const int32_t a = v.add("a", -1);
  const Tokenizer t = v.load();
  EXPECT_EQ(t.encode("a\xE6\x97\xA5"
                     "a",
                     false, false),
            plus(plus({a}, bytes("\xE6\x97\xA5")), {a}));
  // Bytes that are not UTF-8 stand alone, and do not swallow the characters after them.
  EXPECT_EQ(t.encode("\xF0"
                     "aaa",
                     false, false),
            plus(bytes("\xF0"), {a, a, a}));
  EXPECT_EQ(t.encode("\xE2\x82", false, false), bytes("\xE2\x82"));
  EXPECT_EQ(t.encode(std::string_view("\0", 1), false, false), bytes(std::string_view("\0", 1)));
}

TEST(Tokenizer, UnknownWithoutByteTokens) {
  Vocabulary v(false);
  const int32_t a = v.add("a", -1);
  const Tokenizer t = v.load();
  EXPECT_EQ(t.encode("a\xE6\x97\xA5"
                     "b",
                     false, false),
            (Ids{a, 0, 0}));  // one per character
  EXPECT_EQ(t.decode(Ids{a, 0}), "a");
  EXPECT_EQ(t.decode(Ids{a, 0}, true), "a<unk>");
}

TEST(Tokenizer, SpacePrefixAndEscaping) {
  Vocabulary v;
  const std::string s = kSpace;
  const int32_t space = v.add(s, -1), word = v.add("w", -1), space_word = v.add(s + "w", -0.5f), two = v.add(s + s, -2);
  EXPECT_EQ(v.load().encode("w w", false, false), (Ids{word, space_word}));
  v.space_prefix = true;
  const Tokenizer t = v.load();
  EXPECT_EQ(t.encode("w w", false, false), (Ids{space_word, space_word}));
  EXPECT_EQ(t.encode(" w", false, false), (Ids{space, space_word}));
  EXPECT_EQ(t.encode(" ", false, false), (Ids{two}));
  EXPECT_TRUE(t.encode("", false, false).empty());
  EXPECT_EQ(t.decode(Ids{space_word, space_word}), "w w");
  EXPECT_EQ(t.decode(Ids{space, space_word}), " w");
  EXPECT_EQ(t.encode(s + "w", false, false), t.encode(" w", false, false));  // the mark itself reads as a space
}

// Case K-01: the text next to an added token follows the model's own prefix rule.
TEST(Tokenizer, TextNextToAnAddedToken) {
  Vocabulary v;
  const std::string s = kSpace;
  v.space_prefix = true;
  v.add(s, -9);
  const int32_t user = v.add("user", -5), space_user = v.add(s + "user", -3);
  for (const char* part : {"us", "er", "u", "s", "e", "r"}) v.add(part, -6);
  v.add(s + "us", -4), v.add(s + "u", -7);
  const int32_t start = v.add("<|im_start|>", 0, 4);
  const Tokenizer t = v.load();
  EXPECT_EQ(t.encode("<|im_start|>user", false, true), (Ids{start, space_user}));
  EXPECT_NE(t.encode("<|im_start|>user", false, true), (Ids{start, user}));
  EXPECT_EQ(t.encode("<|im_start|><|im_start|>", false, true), (Ids{start, start}));
  EXPECT_EQ(t.encode("user<|im_start|>", false, true), (Ids{space_user, start}));
  const Ids spaced = t.encode("<|im_start|> user", false, true);
  EXPECT_EQ(spaced.front(), start);
  EXPECT_EQ(spaced.back(), space_user);
  EXPECT_EQ(spaced.size(), 3u);
}

TEST(Tokenizer, AddedTokensByKind) {
  Vocabulary v;
  const int32_t user = v.add("<sep>", 0, 4), control = v.add("<ctl>", 0, 3), longer = v.add("<sep><sep>", 0, 4),
                tag = v.add("<sep>x", 0, 3);
  const Tokenizer t = v.load();
  EXPECT_EQ(t.encode("<sep>", false, false), (Ids{user}));    // user-defined: always
  EXPECT_EQ(t.encode("<ctl>", false, true), (Ids{control}));  // control: only when asked for
  EXPECT_EQ(t.encode("<ctl>", false, false), bytes("<ctl>"));
  EXPECT_EQ(t.encode("<s>", false, false), bytes("<s>"));
  EXPECT_EQ(t.encode("<unk>", false, true), (Ids{0}));
  EXPECT_EQ(t.encode("<sep><sep><sep>", false, false), (Ids{longer, user}));  // the longest at the leftmost place
  EXPECT_EQ(t.encode("<sep>x", false, true), (Ids{tag}));
  EXPECT_EQ(t.encode("<sep>x", false, false), plus({user}, bytes("x")));
  EXPECT_EQ(t.encode("a<sep", false, true), bytes("a<sep"));
  EXPECT_EQ(t.encode("<<sep>>", false, true), plus(plus(bytes("<"), {user}), bytes(">")));
  EXPECT_EQ(t.piece(user, false), "<sep>");
  EXPECT_EQ(t.piece(control, false), "");
  EXPECT_EQ(t.piece(control, true), "<ctl>");
}

TEST(Tokenizer, PlainTextNeverMakesControlOrByteTokens) {
  Vocabulary v;
  // Every step of a merge up to "<s>" and "<0x41>" exists, with the best scores.
  for (const char* part : {"<", "s", ">", "<s", "0", "x", "4", "1", "<0", "<0x", "<0x4", "<0x41"}) v.add(part, 10);
  const Tokenizer t = v.load();
  for (const int32_t id : t.encode("<s><0x41></s><unk>", false, false)) {
    EXPECT_NE(id, 0);
    EXPECT_NE(id, 1);
    EXPECT_NE(id, 2);
    EXPECT_NE(id, 3 + 0x41);
  }
}

TEST(Tokenizer, SpecialTokensAroundAText) {
  Vocabulary v;
  const int32_t a = v.add("a", -1);
  v.add_eos = true;
  const Tokenizer t = v.load();
  EXPECT_EQ(t.encode("a", true, true), (Ids{1, a, 2}));
  EXPECT_EQ(t.encode("", true, true), (Ids{1, 2}));
  EXPECT_EQ(t.encode("a", false, true), (Ids{a}));
  EXPECT_EQ(t.encode("<s>a", true, true), (Ids{1, a, 2}));        // not a second one
  EXPECT_EQ(t.encode("<s><s>a", true, true), (Ids{1, 1, a, 2}));  // but what the text says is kept
  EXPECT_EQ(t.encode("<s>a", false, true), (Ids{1, a}));
  v.add_bos = v.add_eos = false;
  EXPECT_EQ(v.load().encode("a", true, true), (Ids{a}));
}

TEST(Tokenizer, EndOfGeneration) {
  Vocabulary v;
  const int32_t turn = v.add("<end_of_turn>", 0, 1), tag = v.add("</x>", 0, 4), eot = v.add("<custom>", 0, 3);
  v.more = [&](GgufWriter& w) { w.u32("tokenizer.ggml.eot_token_id", static_cast<uint32_t>(eot)); };
  const Tokenizer t = v.load();
  for (const int32_t id : {2, turn, eot}) EXPECT_TRUE(t.is_end_of_generation(id)) << id;
  for (const int32_t id : {0, 1, 3, tag, -1, 100000}) EXPECT_FALSE(t.is_end_of_generation(id)) << id;
  EXPECT_EQ(t.eot_id(), eot);
  EXPECT_EQ(t.type(turn), TokenType::control);  // so that plain text cannot end a turn
  EXPECT_EQ(t.encode("<end_of_turn>", false, false), bytes("<end_of_turn>"));
}

TEST(Tokenizer, HtmlTagThatLooksLikeAnEndIsNone) {
  Vocabulary v;
  v.texts[2] = "<eos>";
  const int32_t strike = v.add("</s>", 0, 4);
  const Tokenizer t = v.load();
  EXPECT_FALSE(t.is_end_of_generation(strike));
  EXPECT_EQ(t.encode("</s>", false, false), (Ids{strike}));
}

// The algorithm written again without queue, links or tables: scan all pairs, merge the best, repeat.
Ids slow_encode(const Vocabulary& v, const std::string& text) {
  std::map<std::string, int32_t> ids;
  for (size_t i = 0; i < v.texts.size(); ++i) {
    if (v.types[i] == 1) ids.emplace(v.texts[i], static_cast<int32_t>(i));
  }
  std::vector<std::string> parts;
  for (const char c : text) parts.push_back(c == ' ' ? kSpace : std::string(1, c));
  for (;;) {
    size_t best = parts.size();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto it = ids.find(parts[i] + parts[i + 1]);
      if (it == ids.end()) continue;
      const float score = v.scores[static_cast<size_t>(it->second)];
      if (best == parts.size() || score > v.scores[static_cast<size_t>(ids.at(parts[best] + parts[best + 1]))])
        best = i;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  Ids out;
  for (const std::string& part : parts) {
    const auto it = ids.find(part);
    if (it != ids.end()) {
      out.push_back(it->second);
    } else {
      out = plus(out, bytes(part));
    }
  }
  return out;
}

TEST(Tokenizer, EqualsASlowReferenceOnRandomTexts) {
  std::mt19937 random(7);
  const auto letter = [&] { return "ab cd"[random() % 5]; };
  for (int round = 0; round < 20; ++round) {
    Vocabulary v;
    std::map<std::string, bool> seen{{kSpace, true}};
    v.add(kSpace, -20);  // else it falls back to bytes, which read back as U+2581
    for (int i = 0; i < 60; ++i) {
      std::string piece;
      for (size_t n = 1 + random() % 5; n > 0; --n) {
        const char c = letter();
        piece += c == ' ' ? kSpace : std::string(1, c);
      }
      if (!std::exchange(seen[piece], true)) v.add(piece, -static_cast<float>(random() % 12));  // with many ties
    }
    const Tokenizer t = v.load();
    for (int i = 0; i < 30; ++i) {
      std::string text;
      for (size_t n = random() % 60; n > 0; --n) text += letter();
      ASSERT_EQ(t.encode(text, false, false), slow_encode(v, text)) << "'" << text << "' in round " << round;
      ASSERT_EQ(t.decode(t.encode(text, false, false)), text);
    }
  }
}

TEST(Tokenizer, LongTextsTakeLinearTime) {
  Vocabulary v;
  v.add("a", -1), v.add("aa", -2), v.add("aaaa", -3), v.add("aaaaaaaa", -4), v.add(kSpace, -5);
  v.add("<tag>", 0, 4), v.add("<tag><tag>", 0, 4), v.add(std::string(1000, 'a') + "!", 0, 4);
  const Tokenizer t = v.load();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(t.encode(std::string(160000, 'a'), false, false).size(), 20000u);
  std::string tags;
  for (int i = 0; i < 20000; ++i) tags += "<tag>";
  EXPECT_EQ(t.encode(tags, false, false).size(), 10000u);
  // Quadratic work would take many minutes; the bound allows for sanitizers and a busy machine.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(Tokenizer, RefusesHostileMetadata) {
  const auto refused = [](const GgufWriter& w, const std::string& part, ErrorCode code = ErrorCode::bad_file) {
    try {
      Vocabulary::load(w);
      ADD_FAILURE() << "accepted; expected '" << part << "'";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  refused(GgufWriter(), "tokenizer.ggml.model");
  refused(GgufWriter().text("tokenizer.ggml.model", "gpt2"), "'gpt2'", ErrorCode::unsupported);
  const GgufWriter model = GgufWriter().text("tokenizer.ggml.model", "llama");
  refused(model, "tokenizer.ggml.tokens");
  GgufWriter w = model;
  refused(w.texts("tokenizer.ggml.tokens", {}).array<float>("tokenizer.ggml.scores", 6, {}), "0 entries");
  w = model;
  refused(w.u32("tokenizer.ggml.tokens", 1), "array of strings");
  w = model;
  refused(w.texts("tokenizer.ggml.tokens", {"a"}), "tokenizer.ggml.scores");

  Vocabulary v;
  v.scores.pop_back();
  refused(v.writer(), "scores has 258 entries for 259 tokens");
  v = Vocabulary();
  v.scores[5] = std::numeric_limits<float>::quiet_NaN();
  refused(v.writer(), "entry 5 is NaN");
  v = Vocabulary();
  v.types.push_back(1);
  refused(v.writer(), "token_type has 260 entries");
  v = Vocabulary();
  v.types[4] = 7;
  refused(v.writer(), "entry 4 is 7");
  v = Vocabulary();
  v.types[4] = -1;
  refused(v.writer(), "entry 4 is -1");
  v = Vocabulary();
  v.add("<0xG1>", 0, 6);
  refused(v.writer(), "has type byte");
  v = Vocabulary();
  v.add(std::string(1025, 'x'), 0, 4);
  refused(v.writer(), "1025 bytes");
  for (const char* key : {"eot_token_id", "padding_token_id", "eom_token_id"}) {
    v = Vocabulary();
    v.more = [&](GgufWriter& out) { out.u32(std::string("tokenizer.ggml.") + key, 259); };
    refused(v.writer(), key);
    v.more = [&](GgufWriter& out) { out.i32(std::string("tokenizer.ggml.") + key, -7); };
    refused(v.writer(), key);
    v.more = [&](GgufWriter& out) { out.text(std::string("tokenizer.ggml.") + key, "x"); };
    refused(v.writer(), key);
    v.more = [&](GgufWriter& out) { out.u32(std::string("tokenizer.ggml.") + key, 0xFFFFFFFFu); };
    EXPECT_NO_THROW(v.load()) << "2^32 - 1 means none";
  }
  w = model;
  w.texts("tokenizer.ggml.tokens", {"a"})
      .array<float>("tokenizer.ggml.scores", 6, {0})
      .i32("tokenizer.ggml.unknown_token_id", -1);
  refused(GgufWriter(w).boolean("tokenizer.ggml.add_bos_token", false), "no token for byte 0");
  refused(w, "no bos_token_id");
}

TEST(Tokenizer, WorksWithoutTokenTypes) {
  GgufWriter w;
  w.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0x41>", "b"});
  w.array<float>("tokenizer.ggml.scores", 6, {0, 0, 0, 0, 0}).boolean("tokenizer.ggml.add_space_prefix", false);
  const Tokenizer t = Vocabulary::load(w);
  EXPECT_EQ(t.encode("A", true, false), (Ids{1, 3}));
  EXPECT_EQ(t.decode(Ids{1, 3, 4}), "Ab");  // not "<0x41>b"
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreRefused) {
  const Tokenizer t = Vocabulary().load();
  for (const int32_t id : {-1, -2, 259, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    EXPECT_THROW(t.decode(Ids{id}), Error) << id;
    EXPECT_THROW(t.type(id), Error) << id;
    EXPECT_THROW(Detokenizer(t).push(id), Error) << id;
  }
  EXPECT_EQ(t.text(Tokenizer::kNone), "");
  EXPECT_EQ(t.find("no such token"), Tokenizer::kNone);
  EXPECT_EQ(t.find(""), Tokenizer::kNone);
}

// Case K-02.
TEST(Detokenizer, HoldsUnfinishedCharacters) {
  Vocabulary v;
  const int32_t left = v.add("\xF0\x9F", -1), right = v.add("\x99\x82", -1), a = v.add("a", -1);
  const Tokenizer t = v.load();
  Detokenizer d(t);
  EXPECT_EQ(d.push(left), "");
  EXPECT_EQ(d.push(right), "\xF0\x9F\x99\x82");
  const Ids korean = bytes("\xEA\xB9\xB0");
  EXPECT_EQ(d.push(korean[0]), "");
  EXPECT_EQ(d.push(korean[1]), "");
  EXPECT_EQ(d.push(korean[2]), "\xEA\xB9\xB0");
  EXPECT_EQ(d.push(3 + 0xFF), "\xEF\xBF\xBD");  // can never become valid: at once
  EXPECT_EQ(d.push(3 + 0xE2), "");
  EXPECT_EQ(d.push(3 + 0x82), "");
  EXPECT_EQ(d.flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(d.flush(), "");
  EXPECT_EQ(d.push(3 + 0xE2), "");
  EXPECT_EQ(d.push(a),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(d.push(3 + 0xC3), "");
  EXPECT_EQ(d.push(1), "");  // a control token shows nothing and breaks nothing
  EXPECT_EQ(d.push(3 + 0xA9), "\xC3\xA9");
}

/// UTF-8 with U+FFFD for every maximal prefix of a valid character, written from the definition: try all lengths.
std::string replaced(std::string_view s) {
  const auto valid = [](std::string_view c) {
    if (c.empty()) return false;
    const auto b = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(c[i])); };
    uint32_t code = 0;
    if (c.size() == 1) return b(0) < 0x80;
    for (size_t i = 1; i < c.size(); ++i) {
      if (b(i) < 0x80 || b(i) > 0xBF) return false;
    }
    if (c.size() == 2 && b(0) >= 0xC0 && b(0) < 0xE0) code = (b(0) & 31) << 6 | (b(1) & 63);
    if (c.size() == 3 && b(0) >= 0xE0 && b(0) < 0xF0) code = (b(0) & 15) << 12 | (b(1) & 63) << 6 | (b(2) & 63);
    if (c.size() == 4 && b(0) >= 0xF0 && b(0) < 0xF8)
      code = (b(0) & 7) << 18 | (b(1) & 63) << 12 | (b(2) & 63) << 6 | (b(3) & 63);
    const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    return code >= least[c.size()] && code <= 0x10FFFF && !(code >= 0xD800 && code < 0xE000);
  };
  // A prefix of a valid character: some continuation makes it valid.
  const auto prefix = [&](std::string_view p) {
    for (size_t length = p.size() + 1; length <= 4; ++length) {
      for (const char fill : {'\x80', '\xBF', '\x90', '\xA0', '\x8F', '\x9F'}) {
        std::string c(p);
        c += fill;
        while (c.size() < length) c += '\x80';
        if (valid(c)) return true;
      }
    }
    return false;
  };
  std::string out;
  while (!s.empty()) {
    size_t take = 0;
    for (size_t n = 1; n <= 4 && n <= s.size(); ++n) take = valid(s.substr(0, n)) ? n : take;
    if (take > 0) {
      out += s.substr(0, take);
    } else {
      take = 1;
      while (take < s.size() && prefix(s.substr(0, take + 1))) ++take;
      out += "\xEF\xBF\xBD";
    }
    s.remove_prefix(take);
  }
  return out;
}

TEST(Detokenizer, StreamEqualsDecodingAtOnce) {
  const Tokenizer t = Vocabulary().load();
  std::mt19937 random(11);
  const unsigned char likely[] = {0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2,
                                  0xDF, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF};
  for (int round = 0; round < 3000; ++round) {
    std::string raw;
    for (size_t n = random() % 12; n > 0; --n) raw += static_cast<char>(likely[random() % sizeof likely]);
    const Ids ids = bytes(raw);
    Detokenizer d(t);
    std::string joined;
    for (const int32_t id : ids) joined += d.push(id);
    joined += d.flush();
    ASSERT_EQ(joined, replaced(raw)) << ::testing::PrintToString(raw);
    ASSERT_EQ(joined, t.decode(ids));
  }
}

TEST(Detokenizer, LeadingSpaceOnlyAtTheStartOfAText) {
  Vocabulary v;
  v.space_prefix = true;
  const int32_t word = v.add(std::string(kSpace) + "w", -1), tag = v.add(" tag", -1, 4);
  const Tokenizer t = v.load();
  Detokenizer start(t, false, true), middle(t);
  EXPECT_EQ(start.push(1), "");
  EXPECT_EQ(start.push(word), "w");
  EXPECT_EQ(start.push(word), " w");
  EXPECT_EQ(middle.push(word), " w");
  EXPECT_EQ(t.decode(Ids{1, word, word}), "w w");
  EXPECT_EQ(t.decode(Ids{1, word}, true), "<s>w");
  EXPECT_EQ(t.decode(Ids{tag}), " tag");  // its space is its own
}

}  // namespace
}  // namespace monotile::engine
