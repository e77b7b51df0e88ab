#pragma once
// From prompt ids to streamed text: prefill, then one token after the other until the model ends, the limit is
// reached or the caller stops.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "monotile/engine.hpp"

namespace monotile::engine {

struct GenerateOptions {
  int64_t max_tokens = 256;
  SamplingOptions sampling;
  bool ignore_end = false;  ///< go on after end-of-generation tokens
};

enum class FinishReason : uint8_t { stop, length, interrupted };
/// "stop", "length", "interrupted".
const char* to_string(FinishReason reason);

struct GenerateResult {
  std::vector<int32_t> ids;  ///< an end-of-generation token that ended the run is not among them
  std::string text;          ///< what was streamed
  FinishReason reason = FinishReason::length;
  double prefill_seconds = 0;
  double first_token_seconds = 0;  ///< from the start to the choice of the first token
  double decode_seconds = 0;       ///< from the first choice to the last one
  int64_t decode_steps = 0;        ///< choices after the first
};

struct GenerateCallbacks {
  std::function<void(std::string_view)> on_text;  ///< whole characters as they become complete
  std::function<void()> after_prefill;            ///< logits of the prompt's last token are there
  std::function<bool()> stop;                     ///< asked between steps
};

/// Throws Error(invalid_argument) if the prompt has no tokens or leaves no room for one more in the session's context
/// (with both numbers).
GenerateResult generate(Session& session, const Tokenizer& tokenizer, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const GenerateCallbacks& callbacks = {});

/// What the prompt needs in the worst case, or the largest context that `model` allows: for EngineOptions::context.
/// `limit` (0: the model's) is checked against the prompt. Throws as generate().
int64_t context_for(const Model& model, int64_t prompt_tokens, int64_t max_tokens, int64_t limit);

}  // namespace monotile::engine
