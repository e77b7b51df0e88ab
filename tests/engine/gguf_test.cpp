#include "engine/gguf.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "engine/chat_template.hpp"
#include "engine/inspect.hpp"
#include "engine/tokenizer.hpp"
#include "tests/engine/gguf_writer.hpp"

namespace monotile::engine {
namespace {

using test::Bytes;
using test::GgufWriter;
using test::TempFile;

GgufFile open_bytes(const std::string& bytes) {
  const TempFile file(bytes);
  return GgufFile::open(file.path());  // the mapping outlives the name
}

/// Opens `bytes`, expects `code`, and that the text holds every one of `parts`.
void expect_refused(const std::string& bytes, const std::vector<std::string>& parts,
                    ErrorCode code = ErrorCode::bad_file) {
  const TempFile file(bytes);
  try {
    GgufFile::open(file.path());
    FAIL() << "accepted; expected an error with '" << parts[0] << "'";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    const std::string text = e.what();
    EXPECT_NE(text.find(file.path()), std::string::npos) << "the file is not named: " << text;
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' not in: " << text;
  }
}

std::string floats(std::initializer_list<float> values) {
  Bytes b;
  for (const float v : values) b.put(v);
  return b.data();
}

GgufWriter small() {
  GgufWriter w;
  w.text("general.architecture", "test").u32("a.u32", 7).f32("a.f32", 0.5f);
  w.texts("a.texts", {"x", "", "longer \xE2\x96\x81 text"}).array<int32_t>("a.ints", 5, {1, -2, 3});
  w.tensor("first", {3, 2}, 0, floats({1, 2, 3, 4, 5, 6}));
  w.tensor("second", {32}, 8, std::string(34, '\x11'));
  return w;
}

TEST(Gguf, ReadsScalarsOfEveryType) {
  GgufWriter w;
  w.u8("u8", 200).u32("u32", 4000000000u).i32("i32", -5).f32("f32", 1.25f).boolean("yes", true).boolean("no", false);
  w.text("text", "caf\xC3\xA9")
      .u64("u64", std::numeric_limits<uint64_t>::max())
      .i64("i64", std::numeric_limits<int64_t>::min());
  w.f64("f64", 1e-300)
      .entry("i8", 1, "\xFE")
      .entry("u16", 2, std::string_view("\x34\x12", 2))
      .entry("i16", 3, std::string_view("\xFF\xFF", 2));
  const GgufFile f = open_bytes(w.build());
  EXPECT_EQ(f.get_u64("u8"), 200u);
  EXPECT_EQ(f.get_u64("u32"), 4000000000u);
  EXPECT_EQ(f.get_i64("i32"), -5);
  EXPECT_EQ(f.get_f32("f32"), 1.25f);
  EXPECT_TRUE(f.get_bool("yes"));
  EXPECT_FALSE(f.get_bool("no"));
  EXPECT_EQ(f.get_string("text"), "caf\xC3\xA9");
  EXPECT_EQ(f.get_u64("u64"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(f.get_i64("i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(f.find("f64")->as_f64(), 1e-300);
  EXPECT_EQ(f.get_i64("i8"), -2);
  EXPECT_EQ(f.get_u64("u16"), 0x1234u);
  EXPECT_EQ(f.get_i64("i16"), -1);
  EXPECT_EQ(f.get_f32("i32"), -5.0f);
  EXPECT_EQ(f.get_u64("absent", 9), 9u);
  EXPECT_EQ(f.get_string("absent", "d"), "d");
  EXPECT_EQ(f.find("absent"), nullptr);
  EXPECT_EQ(f.metadata().size(), 13u);
  EXPECT_EQ(f.metadata()[0].key, "u8");
}

TEST(Gguf, GettersRefuseWrongTypesAndRanges) {
  GgufWriter w;
  w.i32("negative", -1).u64("huge", uint64_t{1} << 63).text("text", "x").f32("real", 1.0f).boolean("flag", true);
  w.array<int64_t>("wide", 11, {1, int64_t{1} << 31}).array<float>("reals", 6, {1.0f}).texts("texts", {"a"});
  const GgufFile f = open_bytes(w.build());
  EXPECT_THROW(f.get_u64("negative"), Error);
  EXPECT_THROW(f.get_u64("negative", 3), Error);  // present but wrong: the fallback is for absent keys
  EXPECT_THROW(f.get_i64("huge"), Error);
  EXPECT_THROW(f.get_u64("text"), Error);
  EXPECT_THROW(f.get_u64("real"), Error);
  EXPECT_THROW(f.get_u64("flag"), Error);
  EXPECT_THROW(f.get_u64("wide"), Error);
  EXPECT_THROW(f.get_f32("text"), Error);
  EXPECT_THROW(f.get_string("real"), Error);
  EXPECT_THROW(f.get_bool("negative"), Error);
  EXPECT_THROW(f.get_i32_array("wide"), Error);
  EXPECT_THROW(f.get_i32_array("reals"), Error);
  EXPECT_THROW(f.get_f32_array("texts"), Error);
  EXPECT_THROW(f.get_string_array("reals"), Error);
  EXPECT_THROW(f.get_bool_array("reals"), Error);
  try {
    f.get_u64("missing.key");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_file);
    EXPECT_NE(std::string(e.what()).find("missing.key"), std::string::npos);
  }
}

TEST(Gguf, ReadsArraysThatAreNotAligned) {
  GgufWriter w;
  w.text("k", "odd");  // shifts what follows to an odd offset
  w.array<float>("reals", 6, {0.5f, -2.0f}).array<double>("doubles", 12, {0.25}).array<int8_t>("bytes", 1, {-1, 1});
  w.array<uint8_t>("flags", 7, {1, 0, 1}).array<int32_t>("empty", 5, {}).texts("none", {});
  const GgufFile f = open_bytes(w.build());
  EXPECT_EQ(f.get_f32_array("reals"), (std::vector<float>{0.5f, -2.0f}));
  EXPECT_EQ(f.get_f32_array("doubles"), (std::vector<float>{0.25f}));
  EXPECT_EQ(f.get_i32_array("bytes"), (std::vector<int32_t>{-1, 1}));
  EXPECT_EQ(f.get_f32_array("bytes"), (std::vector<float>{-1, 1}));
  EXPECT_EQ(f.get_bool_array("flags"), (std::vector<bool>{true, false, true}));
  EXPECT_TRUE(f.get_i32_array("empty").empty());
  EXPECT_TRUE(f.get_string_array("none").empty());
}

TEST(Gguf, TensorsAreRowMajorAndPointIntoTheFile) {
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter w = small();
    w.version = version;
    const GgufFile f = open_bytes(w.build());
    EXPECT_EQ(f.version(), version);
    ASSERT_EQ(f.tensors().size(), 2u);
    const TensorView v = f.view("first");
    EXPECT_EQ(v.dtype, DType::f32);
    EXPECT_EQ(v.device, (Device{DeviceKind::cpu, 0}));
    ASSERT_EQ(v.rank, 2);
    EXPECT_EQ(v.extent[0], 2);
    EXPECT_EQ(v.extent[1], 3);
    EXPECT_EQ(v.stride[0], 3);
    EXPECT_EQ(v.stride[1], 1);
    EXPECT_EQ(v.as<const float>()[5], 6.0f);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(v.data) % 32, 0u);
    const GgufTensor& second = f.tensor("second");
    EXPECT_EQ(second.dtype, DType::q8_0);
    EXPECT_EQ(second.bytes, 34u);
    EXPECT_EQ(second.elements, 32);
    EXPECT_EQ(std::to_integer<int>(second.data[33]), 0x11);
    EXPECT_THROW(f.tensor("third"), Error);
    EXPECT_EQ(f.find_tensor("third"), nullptr);
  }
}

TEST(Gguf, SurvivesMovesAndDroppedPages) {
  GgufWriter w;
  Bytes big;
  for (int i = 0; i < 100000; ++i) big.put(static_cast<float>(i));
  w.tensor("big", {100, 1000}, 0, big.data());
  GgufFile a = open_bytes(w.build());
  GgufFile b = std::move(a);
  a = open_bytes(small().build());
  a = std::move(b);
  const GgufTensor& t = a.tensor("big");
  a.drop_pages(t);
  EXPECT_EQ(a.view(t).as<const float>()[99999], 99999.0f);
  EXPECT_EQ(a.view(t).as<const float>()[0], 0.0f);
}

TEST(Gguf, LargerAlignment) {
  GgufWriter w;
  w.alignment = 256;
  w.u32("general.alignment", 256).tensor("a", {1}, 0, floats({1})).tensor("b", {1}, 0, floats({2}));
  const GgufFile f = open_bytes(w.build());
  EXPECT_EQ(f.alignment(), 256u);
  EXPECT_EQ(f.tensor("b").offset, 256u);
  EXPECT_EQ(f.view("b").as<const float>()[0], 2.0f);
}

TEST(Gguf, MetadataOnly) {
  GgufWriter w;
  w.text("k", "v");
  EXPECT_TRUE(open_bytes(w.build()).tensors().empty());
  EXPECT_TRUE(open_bytes(GgufWriter().build()).metadata().empty());
}

TEST(Gguf, RefusesWhatIsNoGgufFile) {
  EXPECT_THROW(GgufFile::open("/nonexistent/model.gguf"), Error);
  expect_refused("", {"0 bytes"});
  expect_refused("GGUF", {"4 bytes"});
  expect_refused(std::string(100, 'x'), {"not a GGUF file", "'xxxx'"});
  const TempFile fifo;
  std::remove(fifo.path().c_str());
  ASSERT_EQ(mkfifo(fifo.path().c_str(), 0600), 0);
  EXPECT_THROW(GgufFile::open(fifo.path()), Error);  // and does not wait for a writer
  EXPECT_THROW(GgufFile::open("/tmp"), Error);
  for (const uint32_t version : {0u, 1u, 4u, 0xFFFFFFFFu}) {
    GgufWriter w = small();
    w.version = version;
    expect_refused(w.build(), {"version " + std::to_string(version), "allowed are 2 and 3"});
  }
  GgufWriter w = small();
  w.version = 0x03000000;
  expect_refused(w.build(), {"big-endian"});
}

TEST(Gguf, RefusesCountsBeyondTheFile) {
  for (const int64_t count : {int64_t{-1}, int64_t{1} << 62, int64_t{1} << 32, int64_t{100000}, int64_t{-8}}) {
    GgufWriter w = small();
    w.entries_off = count - static_cast<int64_t>(w.num_entries);
    expect_refused(w.build(), {"metadata count"});
    w = small();
    w.tensors_off = count - static_cast<int64_t>(w.num_tensors);
    expect_refused(w.build(), {"tensor count"});
  }
}

TEST(Gguf, RefusesBadStringsAndArrays) {
  for (const uint64_t length : {uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7, uint64_t{1000}}) {
    GgufWriter w;
    w.entry("k", 8, Bytes().u64(length).raw("abc").data());
    expect_refused(w.build(), {"metadata 'k'", "string length " + std::to_string(length)});
    w = GgufWriter();
    w.metadata = Bytes().u64(length).raw("key with a bad length").data();
    w.num_entries = 1;
    expect_refused(w.build(), {"metadata entry 0", "string length"});
  }
  for (const uint64_t count : {uint64_t{1} << 61, (uint64_t{1} << 62) + 1, ~uint64_t{0}, uint64_t{17}}) {
    for (const uint32_t element : {4u, 8u, 12u, 7u}) {
      GgufWriter w;
      w.entry("k", 9, Bytes().u32(element).u64(count).raw("0123456789abcdef").data());
      expect_refused(w.build(), {"metadata 'k'"});
    }
  }
  GgufWriter w;
  w.entry("k", 9, Bytes().u32(9).u64(1).u32(4).u64(0).data());
  expect_refused(w.build(), {"array of arrays"});
  w = GgufWriter();
  w.entry("k", 13, "....");
  expect_refused(w.build(), {"value type 13"});
  w = GgufWriter();
  w.entry("k", 9, Bytes().u32(0xFFFFFFFF).u64(1).data());
  expect_refused(w.build(), {"value type 4294967295"});
  w = GgufWriter();
  w.entry("k", 7, "\x02");
  expect_refused(w.build(), {"bool holds 2"});
  w = GgufWriter();
  w.u32("", 1);
  expect_refused(w.build(), {"empty key"});
  w = GgufWriter();
  w.u32("same", 1).u32("other", 2).text("same", "x");
  expect_refused(w.build(), {"'same'", "twice"});
}

TEST(Gguf, RefusesBadTensorInfos) {
  const auto with = [](const test::TensorSpec& t) {
    GgufWriter w;
    w.info(t);
    w.data = std::string(4096, '\0');
    return w.build();
  };
  // The product of these extents wraps to 4194304 in 64 bits.
  expect_refused(with({"wrap", {4194304, 4398046511105}, 0, 0}), {"tensor 'wrap'", "2^62"});
  expect_refused(with({"wrap", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0}), {"2^62"});
  expect_refused(with({"wrap", {uint64_t{1} << 61, 2, 2, 2}, 0, 0}), {"2^62"});
  expect_refused(with({"t", {~uint64_t{0}}, 0, 0}), {"2^62"});
  expect_refused(with({"t", {uint64_t{1} << 61}, 0, 0}), {"data section holds 4096"});
  expect_refused(with({"t", {uint64_t{1} << 61}, 28, 0}), {"overflow 64 bits"});
  expect_refused(with({"t", {0}, 0, 0}), {"dimension 0 is 0"});
  expect_refused(with({"t", {4, 0, 4}, 0, 0}), {"dimension 1 is 0"});
  expect_refused(with({"t", {}, 0, 0}), {"0 dimensions", "1 to 4"});
  expect_refused(with({"t", {1, 1, 1, 1, 1}, 0, 0}), {"5 dimensions"});
  for (const uint32_t type : {4u, 5u, 31u, 36u, 999u, 0xFFFFFFFFu}) {
    expect_refused(with({"t", {32}, type, 0}), {"tensor type " + std::to_string(type) + " is unknown"});
  }
  expect_refused(with({"t", {33}, 8, 0}), {"rows of 33", "Q8_0", "multiples of 32"});
  expect_refused(with({"t", {128, 2}, 12, 0}), {"rows of 128", "Q4_K", "multiples of 256"});
  expect_refused(with({"t", {4}, 0, 33}), {"offset 33", "alignment 32"});
  expect_refused(with({"t", {4}, 0, 4096}), {"offset 4096"});
  expect_refused(with({"t", {1025}, 0, 0}), {"4100 bytes"});
  expect_refused(with({"t", {4}, 0, ~uint64_t{0} - 31}), {"data section holds"});
  expect_refused(with({"", {4}, 0, 0}), {"empty name"});
  expect_refused(with({std::string(256, 'n'), {4}, 0, 0}), {"string length 256"});

  GgufWriter w;
  w.infos = Bytes().text("many").u32(0xFFFFFFFF).u64(1).u64(1).u64(1).u64(1).u64(1).data();
  w.num_tensors = 1;
  expect_refused(w.build(), {"4294967295 dimensions"});
  w = GgufWriter();
  w.tensor("same", {1}, 0, floats({1})).tensor("same", {1}, 0, floats({1}));
  expect_refused(w.build(), {"'same'", "twice"});
  w = GgufWriter();
  w.info({"a", {16}, 0, 0}).info({"b", {4}, 0, 32});
  w.data = std::string(64, '\0');
  expect_refused(w.build(), {"tensor 'b'", "overlaps tensor 'a'"});
}

TEST(Gguf, RefusesBadAlignment) {
  for (const uint32_t alignment : {0u, 3u, 24u, 33u, 0x80000000u, 0xFFFFFFFFu}) {
    GgufWriter w = small();
    w.u32("general.alignment", alignment);
    expect_refused(w.build(), {"general.alignment is " + std::to_string(alignment), "power of two"});
  }
  GgufWriter w = small();
  w.text("general.alignment", "32");
  expect_refused(w.build(), {"general.alignment", "string"});
}

TEST(Gguf, TypesThatCannotBeLoadedAreListedOnly) {
  GgufWriter w;
  w.tensor("q3", {256}, 11, std::string(110, '\0')).tensor("i32", {2}, 26, std::string(8, '\0'));
  w.tensor("ok", {256}, 14, std::string(210, '\0'));
  const GgufFile f = open_bytes(w.build());
  EXPECT_STREQ(f.tensor("q3").type_name, "Q3_K");
  EXPECT_EQ(f.tensor("q3").dtype, DType::none);
  EXPECT_EQ(f.view("ok").dtype, DType::q6_k);
  try {
    f.view("q3");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(e.what()).find("tensor 'q3' has type Q3_K, which is not supported"), std::string::npos)
        << e.what();
  }
  EXPECT_NE(inspect_text(f).find("Q3_K *"), std::string::npos);
}

TEST(Gguf, EveryTruncationIsRefused) {
  const std::string whole = small().build();
  const TempFile file(whole);
  EXPECT_NO_THROW(GgufFile::open(file.path()));
  for (size_t length = 0; length < whole.size(); ++length) {
    file.write(std::string_view(whole).substr(0, length));
    try {
      GgufFile::open(file.path());
      FAIL() << "accepted with " << length << " of " << whole.size() << " bytes";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_file);
    }
  }
}

/// Reads every byte that the object hands out; a sanitizer reports one that lies outside the file.
uint64_t touch(const GgufFile& f) {
  uint64_t sum = 0;
  for (const GgufEntry& e : f.metadata()) {
    for (const char c : e.key) sum += static_cast<unsigned char>(c);
    for (const char c : e.value.text) sum += static_cast<unsigned char>(c);
    for (const std::string_view s : e.value.strings) {
      for (const char c : s) sum += static_cast<unsigned char>(c);
    }
    if (e.value.raw != nullptr && e.value.count > 0) sum += std::to_integer<uint64_t>(e.value.raw[e.value.count - 1]);
  }
  for (const GgufTensor& t : f.tensors()) {
    for (uint64_t i = 0; i < t.bytes; ++i) sum += std::to_integer<uint64_t>(t.data[i]);
    if (t.dtype != DType::none) sum += static_cast<uint64_t>(f.view(t).rank);
    f.drop_pages(t);
  }
  return sum;
}

GgufWriter with_tokenizer() {
  GgufWriter w = small();
  w.text("tokenizer.ggml.model", "llama")
      .text("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");
  w.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a", "b", "ab", "\xE2\x96\x81", "<0x41>"});
  w.array<float>("tokenizer.ggml.scores", 6, {0, 0, 0, -1, -2, -3, -4, 0})
      .array<int32_t>("tokenizer.ggml.token_type", 5, {2, 3, 3, 1, 1, 1, 1, 6});
  w.u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.eos_token_id", 2)
      .u32("tokenizer.ggml.unknown_token_id", 0);
  return w;
}

TEST(Gguf, RandomDamageNeverEscapesTheFile) {
  const std::string whole = with_tokenizer().build();
  std::mt19937_64 random(20240607);
  const TempFile file;
  int opened = 0, tokenized = 0;
  constexpr int kRounds = 2000;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int c = 0; c < changes; ++c) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8))); break;
        case 2: {  // a field of 8 bytes becomes extreme
          const uint64_t extremes[] = {
              0, 1, ~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 32, 0x7FFFFFFFFFFFFFFF, bytes.size()};
          const uint64_t value = extremes[random() % std::size(extremes)];
          if (at + 8 <= bytes.size()) std::memcpy(&bytes[at], &value, 8);
          break;
        }
        default: bytes.resize(std::max<size_t>(at, 1)); break;
      }
    }
    file.write(bytes);
    try {
      const GgufFile f = GgufFile::open(file.path());
      ++opened;
      touch(f);
      for (std::istringstream lines(inspect_text(f)); lines;) {
        std::string line;
        std::getline(lines, line);
        ASSERT_LE(line.size(), 80u * 4u);
      }
      EXPECT_FALSE(inspect_json(f).empty());
      const Tokenizer t = Tokenizer::load(f);
      EXPECT_LE(t.encode("abA b<s>", true, true).size(), 20u);
      const std::vector<ChatMessage> messages = {{"user", "hi"}};
      ChatTemplate::load(f, t).render(messages);
      ++tokenized;
    } catch (const Error& e) {
      EXPECT_NE(e.code(), ErrorCode::internal) << e.what();
    }
  }
  // Damage in strings and tensor data is legal, so both ends of the scale must have been reached.
  EXPECT_GT(opened, kRounds / 10);
  EXPECT_LT(opened, kRounds);
  EXPECT_GT(tokenized, 0);
}

TEST(Gguf, PrintableTextIsSafeForATerminal) {
  EXPECT_EQ(printable("plain \xE6\x97\xA5"), "plain \xE6\x97\xA5");
  EXPECT_EQ(printable("\x1b[31m\n\t\r\x7f"), "\\x1b[31m\\n\\t\\r\\x7f");
  EXPECT_EQ(printable("\xFF\xE2\x82"), "\\xff\\xe2\\x82");
  EXPECT_EQ(printable("\xC2\x9B"), "\\xc2\\x9b");           // a C1 control character
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable(std::string(100, 'a'), 5), "aaaaa...");
}

TEST(Inspect, TextHasAtMost80ColumnsAndTheFacts) {
  GgufWriter w = small();
  w.text("a.very.long.key.that.goes.on." + std::string(100, 'k'), std::string(500, 'v'))
      .text("wide", "\xE6\x97\xA5" + std::string(200, 'x'));
  w.array<float>("a.reals", 6, {0.01f, 1e-6f, 3, 4, 5, 6, 7, 8}).text("evil", "\x1b[2J");
  w.tensor(std::string(200, 't'), {1}, 0, floats({1}));
  const std::string text = inspect_text(open_bytes(w.build()));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto columns =
        std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
    EXPECT_LE(columns, 80) << line;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  for (const char* part : {"GGUF v3", "general.architecture", "\"test\"", "3 x i32 [1, -2, 3]", "8 x f32 [0.01, 1e-06",
                           "[2, 3]", "Q8_0", "first"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Inspect, JsonHoldsTheSame) {
  GgufWriter w = small();
  w.text("bad utf8", "\xFF").f32("nan", std::nanf("")).u64("big", ~uint64_t{0});
  const auto j = nlohmann::json::parse(inspect_json(open_bytes(w.build())));
  EXPECT_EQ(j["version"], 3);
  EXPECT_EQ(j["metadata"]["a.f32"]["value"], 0.5);
  EXPECT_EQ(j["metadata"]["a.ints"]["first"], nlohmann::json({1, -2, 3}));
  EXPECT_EQ(j["metadata"]["a.texts"]["count"], 3);
  EXPECT_EQ(j["metadata"]["big"]["value"], ~uint64_t{0});
  EXPECT_EQ(j["metadata"]["nan"]["value"], "nan");
  EXPECT_EQ(j["tensors"][0]["extents"], nlohmann::json({2, 3}));
  EXPECT_EQ(j["tensors"][1]["type"], "Q8_0");
  EXPECT_EQ(j["totals"]["F32"]["elements"], 6);
}

}  // namespace
}  // namespace monotile::engine
