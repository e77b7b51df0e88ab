#include "engine/chat_template.hpp"

#include <utility>
#include <vector>

namespace monotile::engine {

namespace {

using jinja::Value;

struct Builtin {
  std::string_view name;
  std::string_view marker;  ///< a token that only this family has
  std::string_view source;
};

// The documented prompt formats of the families, for files that carry no template.
constexpr Builtin kBuiltins[] = {
    {"gemma", "<start_of_turn>", R"({{ bos_token }}{% set ns = namespace(system='') %}
{% for m in messages %}
{% if m.role == 'system' or m.role == 'developer' %}
{% set ns.system = ns.system + (m.content | trim) + '\n\n' %}
{% else %}
{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + ns.system + (m.content | trim) + '<end_of_turn>\n' -}}
{% set ns.system = '' %}
{% endif %}
{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %})"},
    {"chatml", "<|im_start|>", R"({% for m in messages %}
{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
    {"llama3", "<|start_header_id|>", R"({{ bos_token }}{% for m in messages %}
{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + (m.content | trim) + '<|eot_id|>' -}}
{% endfor %}
{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})"},
};

}  // namespace

ChatTemplate ChatTemplate::from_text(std::string_view source, std::string_view bos_token, std::string_view eos_token) {
  return ChatTemplate(jinja::Template::parse(source), bos_token, eos_token);
}

ChatTemplate ChatTemplate::load(const GgufFile& file, const Tokenizer& tokenizer) {
  const std::string_view bos = tokenizer.text(tokenizer.bos_id()), eos = tokenizer.text(tokenizer.eos_id());
  const std::string_view source = file.get_string("tokenizer.chat_template", "");
  if (!source.empty()) return from_text(source, bos, eos);
  for (const Builtin& builtin : kBuiltins) {
    if (tokenizer.find(builtin.marker) == Tokenizer::kNone) continue;
    ChatTemplate out = from_text(builtin.source, bos, eos);
    out.builtin_name_ = builtin.name;
    return out;
  }
  throw Error(ErrorCode::unsupported,
              "chat template: '" + printable(file.path()) +
                  "' has none, and its vocabulary has the markers of no known chat format; only plain prompts work");
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  std::vector<Value> list;
  list.reserve(messages.size());
  for (const ChatMessage& m : messages)
    list.push_back(Value::dict({{Value("role"), Value(m.role)}, {Value("content"), Value(m.content)}}));
  std::vector<std::pair<std::string, Value>> variables = {
      {"messages", Value::list(std::move(list))},
      {"add_generation_prompt", Value(options.add_generation_prompt)},
      {"bos_token", Value(bos_token_)},
      {"eos_token", Value(eos_token_)},
      {"tools", Value::none()},
      {"documents", Value::none()},
  };
  if (options.now.has_value())
    variables.emplace_back("strftime_now", Value::callable({nullptr, "strftime_now", *options.now}));
  return template_.render(variables);
}

std::string render_chat(std::string_view source, std::span<const ChatMessage> messages, bool add_generation_prompt,
                        std::string_view bos_token, std::string_view eos_token) {
  ChatOptions options;
  options.add_generation_prompt = add_generation_prompt;
  return ChatTemplate::from_text(source, bos_token, eos_token).render(messages, options);
}

}  // namespace monotile::engine
