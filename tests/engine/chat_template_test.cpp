#include "engine/chat_template.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/engine/gguf_writer.hpp"

namespace monotile::engine {
namespace {

using jinja::Value;
using Json = nlohmann::ordered_json;
using Messages = std::vector<ChatMessage>;

Json golden(const char* name) {
  std::ifstream file(std::filesystem::path(MONOTILE_SOURCE_DIR) / "tests" / "golden" / name);
  EXPECT_TRUE(file) << name;
  return Json::parse(file);
}

Value value(const Json& j) {
  if (j.is_null()) return Value::none();
  if (j.is_boolean()) return Value(j.get<bool>());
  if (j.is_number_integer()) return Value(j.get<int64_t>());
  if (j.is_number()) return Value(j.get<double>());
  if (j.is_string()) return Value(j.get<std::string>());
  if (j.is_array()) {
    std::vector<Value> items;
    for (const Json& item : j) items.push_back(value(item));
    return Value::list(std::move(items));
  }
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, item] : j.items()) items.emplace_back(Value(key), value(item));
  return Value::dict(std::move(items));
}

std::string render(std::string_view source, const std::vector<std::pair<std::string, Value>>& variables = {}) {
  return jinja::Template::parse(source).render(variables);
}

/// Expects an error with `code` whose text holds `part`.
void expect_error(std::string_view source, ErrorCode code, const std::string& part) {
  try {
    const std::string out = render(source, {{"l", Value::list({Value(1), Value(2)})}, {"s", Value("text")}});
    ADD_FAILURE() << source << " gave '" << out.substr(0, 100) << "'; expected '" << part << "'";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << source << ": " << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << source << ": " << e.what();
  }
}

// What Jinja2 makes of the same templates and values (tests/golden/record_jinja.py).
TEST(Jinja, FeaturesEqualTheReferenceImplementation) {
  const Json g = golden("jinja.json");
  std::vector<std::pair<std::string, Value>> variables;
  for (const auto& [key, v] : g["variables"].items()) variables.emplace_back(key, value(v));
  int count = 0;
  for (const Json& c : g["features"]) {
    const auto source = c["template"].get<std::string>();
    ++count;
    try {
      const std::string out = render(source, variables);
      if (c.contains("text")) {
        EXPECT_EQ(out, c["text"].get<std::string>()) << source;
      } else {
        ADD_FAILURE() << source << " gave '" << out << "'; the reference refuses it";
      }
    } catch (const Error& e) {
      EXPECT_FALSE(c.contains("text")) << source << ": " << e.what();
      EXPECT_NE(std::string(e.what()).find("line 1"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(c.value("raised", "")), std::string::npos) << e.what();
    }
  }
  EXPECT_GE(count, 50);
}

TEST(ChatTemplate, FamiliesEqualTheReferenceImplementation) {
  const Json g = golden("jinja.json");
  int rendered = 0, raised = 0;
  for (const Json& c : g["conversations"]) {
    Messages messages;
    for (const Json& m : c["messages"])
      messages.push_back({m["role"].get<std::string>(), m["content"].get<std::string>()});
    const auto name = c["name"].get<std::string>();
    try {
      const std::string out = render_chat(g["families"][name].get<std::string>(), messages,
                                          c["add_generation_prompt"].get<bool>(), "<bos>", "<eos>");
      ASSERT_TRUE(c.contains("text")) << name << " gave '" << out << "' for " << c["messages"];
      EXPECT_EQ(out, c["text"].get<std::string>()) << name;
      ++rendered;
    } catch (const Error& e) {
      EXPECT_FALSE(c.contains("text")) << name << ": " << e.what();
      EXPECT_NE(std::string(e.what()).find(c.value("raised", "")), std::string::npos) << e.what();
      ++raised;
    }
  }
  EXPECT_GT(rendered, 40);
  EXPECT_GT(raised, 20);
}

TEST(ChatTemplate, CasesEqualTheReferenceImplementation) {
  const Json g = golden("chat_templates.json");
  for (const Json& c : g["cases"]) {
    const Json& conversation = g["conversations"][c["conversation"].get<std::string>()];
    const auto name = c["template"].get<std::string>();
    try {
      const std::string out =
          render(g["templates"][name].get<std::string>(), {{"messages", value(conversation)},
                                                           {"add_generation_prompt", value(c["add_generation_prompt"])},
                                                           {"bos_token", value(g["bos_token"])},
                                                           {"eos_token", value(g["eos_token"])}});
      ASSERT_TRUE(c.contains("rendered")) << name << " gave '" << out << "'";
      EXPECT_EQ(out, c["rendered"].get<std::string>()) << name;
    } catch (const Error& e) {
      ASSERT_TRUE(c.contains("error")) << name << ": " << e.what();
      EXPECT_NE(std::string(e.what()).find(c["error"].get<std::string>()), std::string::npos) << e.what();
    }
  }
}

TEST(Jinja, ErrorsNameLineAndThing) {
  expect_error("a\n\n{{ s | shout }}", ErrorCode::unsupported, "line 3: filter 'shout' is not supported; allowed are");
  expect_error("{#\n#}{{ s is loud }}", ErrorCode::unsupported, "line 2: test 'loud' is not supported");
  expect_error("{{ s.shout() }}", ErrorCode::unsupported, "method 'shout' of string");
  expect_error("{{ shout() }}", ErrorCode::unsupported, "function 'shout'");
  expect_error("{{ s\n.missing.deeper }}", ErrorCode::invalid_argument, "'missing' is undefined");
  expect_error("{% include 'x' %}", ErrorCode::unsupported, "statement 'include'");
  expect_error("{% call f() %}{% endcall %}", ErrorCode::unsupported, "statement 'call'");
  expect_error("{{ f(*l) }}", ErrorCode::unsupported, "");
  expect_error("{% if s %}\n\nx", ErrorCode::bad_file, "line 3: the template ends where 'endif' is expected");
  expect_error("{{ 'a", ErrorCode::bad_file, "string without closing quote");
  expect_error("{{ s ! }}", ErrorCode::bad_file, "character '!'");
  expect_error("{{ [1, 2 }}", ErrorCode::bad_file, "unexpected '}'");
  expect_error("{% break %}", ErrorCode::bad_file, "break outside a loop");
  expect_error("{{ 99999999999999999999 }}", ErrorCode::bad_file, "64 bits");
  expect_error("{{ 9223372036854775807 + 1 }}", ErrorCode::invalid_argument, "64 bits");
  expect_error("{{ -9223372036854775807 - 2 }}", ErrorCode::invalid_argument, "64 bits");
  expect_error("{{ 10 ** 20 }}", ErrorCode::invalid_argument, "64 bits");
  expect_error("{{ 1 % 0 }}", ErrorCode::invalid_argument, "division by zero");
  expect_error("{{ raise_exception('roles\x1b must alternate') }}", ErrorCode::invalid_argument,
               "line 1: roles\\x1b must alternate");
  expect_error("{% for a, b in [[1]] %}{% endfor %}", ErrorCode::invalid_argument, "1 values for 2 variables");
  expect_error("{{ s | trim(shape=1) }}", ErrorCode::unsupported, "argument 'shape'");
}

TEST(Jinja, RefusedStatementsMatterOnlyWhereReached) {
  EXPECT_EQ(render("{% if false %}{% call f(1) %}x{% endcall %}{{ f(*a) }}{{ 1 | nope }}{% endif %}ok"), "ok");
}

TEST(Jinja, HostileTemplatesEnd) {
  const auto repeated = [](std::string_view s, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += s;
    return out;
  };
  // Nesting: neither the parser nor the evaluator may run out of stack.
  for (const auto& [open, close] : {std::pair{"(", ")"},
                                    {"[", "]"},
                                    {"{'a':", "}"},
                                    {"-", ""},
                                    {"not ", ""},
                                    {"s[", "]"},
                                    {"s(", ")"},
                                    {"1 if ", " else 2"}}) {
    expect_error("{{ " + repeated(open, 20000) + "1" + repeated(close, 20000) + " }}", ErrorCode::bad_file,
                 "nested deeper");
  }
  expect_error("{{ 1" + repeated(" + 1", 20000) + " }}", ErrorCode::bad_file, "nested deeper");
  expect_error("{{ s" + repeated("|trim", 20000) + " }}", ErrorCode::bad_file, "nested deeper");
  expect_error("{{ s" + repeated(".a", 20000) + " }}", ErrorCode::bad_file, "nested deeper");
  expect_error("{{ s" + repeated(" is defined", 20000) + " }}", ErrorCode::bad_file, "nested deeper");
  expect_error(repeated("{% if s %}", 20000) + repeated("{% endif %}", 20000), ErrorCode::bad_file, "nested deeper");
  expect_error(repeated("{% for x in l %}", 20000), ErrorCode::bad_file, "nested deeper");
  expect_error("{{ s | map(" + repeated("'map',", 20000) + "'trim') | list }}", ErrorCode::bad_file, "nests deeper");
  EXPECT_EQ(
      render("{{ 1" + repeated(" + 1", 100) + " }}" + repeated("{% if 1 %}", 30) + "x" + repeated("{% endif %}", 30)),
      "101x");
  expect_error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", ErrorCode::bad_file, "nests deeper");
  expect_error("{% set n = namespace(v=[]) %}{% for i in range(1000) %}{% set n.v = [n.v] %}{% endfor %}",
               ErrorCode::invalid_argument, "nest deeper");
  expect_error("{% set n = namespace() %}{% set n.self = n %}", ErrorCode::unsupported, "namespace inside a namespace");
  expect_error("{% set n = namespace() %}{% set n.self = [{'a': n}] %}", ErrorCode::unsupported,
               "namespace inside a namespace");
  // Time and memory.
  const std::string nest = "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}";
  expect_error(nest + repeated("{% endfor %}", 3), ErrorCode::bad_file, "steps");
  expect_error("{{ range(1000000000000) }}", ErrorCode::bad_file, "items");
  expect_error("{{ 'x' * 1000000000000 }}", ErrorCode::bad_file, "bytes");
  expect_error("{{ 'x' * 9223372036854775807 }}", ErrorCode::bad_file, "bytes");
  const std::string doubling =
      "{% set n = namespace(v=START) %}{% for i in range(60) %}{% set n.v = n.v + n.v %}{% endfor %}";
  expect_error(std::string(doubling).replace(doubling.find("START"), 5, "'ab'"), ErrorCode::bad_file, "bytes");
  expect_error(std::string(doubling).replace(doubling.find("START"), 5, "[1]"), ErrorCode::bad_file, "items");
  // A small value that prints, compares or dumps as 2^25 items.
  const std::string shared =
      "{% set n = namespace(v=[1]) %}{% for i in range(25) %}{% set n.v = [n.v, n.v] %}{% endfor %}";
  expect_error(shared + "{{ n.v }}", ErrorCode::bad_file, "steps");
  expect_error(shared + "{{ n.v | tojson }}", ErrorCode::bad_file, "steps");
  expect_error(shared + "{{ n.v == n.v }}", ErrorCode::bad_file, "steps");
  expect_error(shared + "{{ n.v | string | length }}", ErrorCode::bad_file, "steps");
  EXPECT_THROW(jinja::Template::parse(std::string(2 << 20, 'x')), Error);
}

TEST(Jinja, RandomTemplatesNeverCrash) {
  static constexpr const char* kParts[] = {"{{",       "}}",         "{%",     "%}",      "{#",
                                           "#}",       "{%-",        "-%}",    "{{-",     "-}}",
                                           " ",        "\n",         "'",      "\"",      "if ",
                                           "for ",     "in ",        "endif",  "endfor",  "else",
                                           "set ",     "x",          "l",      "s",       "=",
                                           "==",       "(",          ")",      "[",       "]",
                                           "{",        "}",          ".",      ",",       ":",
                                           "|",        "~",          "-",      "+",       "*",
                                           "**",       "//",         "%",      "1",       "2.5",
                                           "not ",     "and ",       "is ",    "defined", "macro m(a)",
                                           "endmacro", "raw",        "endraw", "m(1)",    "namespace(a=1)",
                                           "range(3)", "loop.index", "\\",     "\xFF",    "\xE6\x97"};
  uint32_t state = 12345;
  const auto next = [&](uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
  };
  int rendered = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string source = next(2) == 0 ? "{{ " : "{% ";
    for (uint32_t n = 1 + next(12); n > 0; --n) source += kParts[next(std::size(kParts))];
    source += next(2) == 0 ? " }}" : " %}";
    try {
      render(source, {{"l", Value::list({Value(1), Value("a")})}, {"s", Value("text")}, {"x", Value(3)}});
      ++rendered;
    } catch (const Error& e) {
      ASSERT_NE(e.code(), ErrorCode::internal) << source;
    }
  }
  EXPECT_GT(rendered, 100);
}

TEST(ChatTemplate, UserTextIsNeverCode) {
  const std::string out = render_chat("{% for m in messages %}{{ m.content }}{% endfor %}",
                                      Messages{{"user", "{{ 1 + 1 }}{% raw %}"}}, false, "", "");
  EXPECT_EQ(out, "{{ 1 + 1 }}{% raw %}");
}

TEST(ChatTemplate, DateOnlyWhenGiven) {
  const ChatTemplate t =
      ChatTemplate::from_text("{{ strftime_now('%d %b %Y') if strftime_now is defined else 'none' }}", "", "");
  EXPECT_EQ(t.render({}), "none");
  ChatOptions options;
  options.now = 86400 * 365;
  EXPECT_EQ(t.render({}, options), "01 Jan 1971");
}

GgufFile vocabulary_with(const std::vector<std::string>& markers, const char* source) {
  test::GgufWriter w;
  std::vector<std::string> tokens{"<unk>", "<bos>", "<eos>"};
  tokens.insert(tokens.end(), markers.begin(), markers.end());
  w.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", tokens);
  w.array("tokenizer.ggml.scores", 6, std::vector<float>(tokens.size(), 0.0f));
  w.u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.eos_token_id", 2)
      .u32("tokenizer.ggml.unknown_token_id", 0);
  if (source != nullptr) w.text("tokenizer.chat_template", source);
  const test::TempFile file(w.build());
  return GgufFile::open(file.path());
}

TEST(ChatTemplate, FromTheFileOrBuiltIn) {
  const Messages messages = {{"system", "S"}, {"user", " u "}, {"assistant", "a"}, {"user", "v"}};
  const auto load = [](const GgufFile& f) { return ChatTemplate::load(f, Tokenizer::load(f)); };

  const ChatTemplate own =
      load(vocabulary_with({"<start_of_turn>"}, "{{ bos_token }}{{ messages | length }}{{ eos_token }}"));
  EXPECT_EQ(own.builtin_name(), "");
  EXPECT_EQ(own.render(messages), "<bos>4<eos>");

  const ChatTemplate gemma = load(vocabulary_with({"<start_of_turn>", "<end_of_turn>"}, nullptr));
  EXPECT_EQ(gemma.builtin_name(), "gemma");
  EXPECT_EQ(gemma.render(messages),
            "<bos><start_of_turn>user\nS\n\nu<end_of_turn>\n<start_of_turn>model\na<end_of_turn>\n<start_of_turn>"
            "user\nv<end_of_turn>\n"
            "<start_of_turn>model\n");
  ChatOptions closed;
  closed.add_generation_prompt = false;
  EXPECT_EQ(gemma.render(Messages{{"user", "x"}}, closed), "<bos><start_of_turn>user\nx<end_of_turn>\n");

  const ChatTemplate chatml = load(vocabulary_with({"<|im_start|>"}, nullptr));
  EXPECT_EQ(chatml.render(Messages{{"system", "S"}, {"user", " u "}}),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n u <|im_end|>\n<|im_start|>assistant\n");

  const ChatTemplate llama3 = load(vocabulary_with({"<|start_header_id|>"}, nullptr));
  EXPECT_EQ(
      llama3.render(Messages{{"user", " u "}}),
      "<bos><|start_header_id|>user<|end_header_id|>\n\nu<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");

  try {
    load(vocabulary_with({}, nullptr));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
  }
}

}  // namespace
}  // namespace monotile::engine
