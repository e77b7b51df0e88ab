#pragma once
// From a conversation to the text that the model was trained on, through the chat template in the model file.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/gguf.hpp"
#include "engine/jinja.hpp"
#include "engine/tokenizer.hpp"

namespace monotile::engine {

struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"; others if the template knows them
  std::string content;
};

struct ChatOptions {
  bool add_generation_prompt = true;  ///< end with the opening of the assistant's turn
  std::optional<int64_t> now;         ///< seconds since 1970 for templates that print the date; absent: they print none
};

/// A parsed chat template with the texts of the model's BOS and EOS tokens. Rendering is const and thread-safe.
class ChatTemplate {
 public:
  /// `source` is Jinja text. Throws as jinja::Template::parse.
  static ChatTemplate from_text(std::string_view source, std::string_view bos_token, std::string_view eos_token);
  /// The template of `file`; if it has none, a built-in one chosen by the marker tokens of the vocabulary (Gemma, ChatML,
  /// Llama 3). Throws Error(unsupported) if there is neither.
  static ChatTemplate load(const GgufFile& file, const Tokenizer& tokenizer);

  /// Empty if the template came from the file or the caller, else the name of the built-in one.
  std::string_view builtin_name() const { return builtin_name_; }

  /// The prompt as text, for Tokenizer::encode with `parse_special`. It may begin with the BOS token, which encode does not
  /// double. Throws Error(invalid_argument) for what the template refuses (say, roles that do not alternate).
  std::string render(std::span<const ChatMessage> messages, const ChatOptions& options = {}) const;

 private:
  ChatTemplate(jinja::Template parsed, std::string_view bos_token, std::string_view eos_token)
      : template_(std::move(parsed)), bos_token_(bos_token), eos_token_(eos_token) {}

  jinja::Template template_;
  std::string bos_token_, eos_token_;
  std::string_view builtin_name_;
};

/// One-line form: parse and render.
std::string render_chat(std::string_view source, std::span<const ChatMessage> messages, bool add_generation_prompt,
                        std::string_view bos_token, std::string_view eos_token);

}  // namespace monotile::engine
