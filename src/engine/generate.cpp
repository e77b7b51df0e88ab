#include "engine/generate.hpp"

#include <algorithm>
#include <chrono>

#include "engine/tokenizer.hpp"

namespace monotile::engine {

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

void check_prompt(int64_t prompt_tokens, int64_t max_tokens, int64_t limit) {
  if (prompt_tokens == 0) throw Error(ErrorCode::invalid_argument, "generate: prompt: no tokens; allowed: 1 or more");
  if (prompt_tokens + std::min<int64_t>(max_tokens, 1) > limit) {
    throw Error(ErrorCode::invalid_argument,
                "generate: prompt: " + std::to_string(prompt_tokens) + " tokens; allowed: at most " +
                    std::to_string(limit - std::min<int64_t>(max_tokens, 1)) +
                    ", which leaves room for one more in a context of " + std::to_string(limit));
  }
}

}  // namespace

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::interrupted: return "interrupted";
  }
  return "unknown";
}

GenerateResult generate(Session& session, const Tokenizer& tokenizer, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const GenerateCallbacks& callbacks) {
  const auto stopped = [&] { return callbacks.stop && callbacks.stop(); };
  check_prompt(static_cast<int64_t>(prompt.size()), options.max_tokens, session.room());
  GenerateResult result;
  Detokenizer detokenizer(tokenizer);
  const auto emit = [&](const std::string& text) {
    if (text.empty()) return;
    result.text += text;
    if (callbacks.on_text) callbacks.on_text(text);
  };

  const Clock::time_point begin = Clock::now();
  if (!session.prefill(prompt, callbacks.stop)) {
    result.reason = FinishReason::interrupted;
    return result;
  }
  session.synchronize();
  result.prefill_seconds = seconds(begin, Clock::now());
  if (callbacks.after_prefill) callbacks.after_prefill();

  const int64_t most = std::min(options.max_tokens, session.room());
  Clock::time_point first = Clock::now();
  while (static_cast<int64_t>(result.ids.size()) < most) {
    if (stopped()) {
      result.reason = FinishReason::interrupted;
      break;
    }
    if (!result.ids.empty()) session.decode(result.ids.back());
    const int32_t id = session.choose(options.sampling);
    const Clock::time_point now = Clock::now();
    if (result.ids.empty()) {
      first = now;
      result.first_token_seconds = seconds(begin, now);
    } else {
      ++result.decode_steps;
      result.decode_seconds = seconds(first, now);
    }
    if (!options.ignore_end && tokenizer.is_end_of_generation(id)) {
      result.reason = FinishReason::stop;
      break;
    }
    result.ids.push_back(id);
    emit(detokenizer.push(id));
  }
  emit(detokenizer.flush());
  return result;
}

int64_t context_for(const Model& model, int64_t prompt_tokens, int64_t max_tokens, int64_t limit) {
  const int64_t allowed = model.hyperparameters().context_length;
  if (limit > allowed) {
    throw Error(ErrorCode::invalid_argument, "generate: context: " + std::to_string(limit) +
                                                 " tokens; allowed: 1 to the model's " + std::to_string(allowed));
  }
  if (limit == 0) limit = allowed;
  check_prompt(prompt_tokens, max_tokens, limit);
  return std::min(limit, prompt_tokens + max_tokens);
}

}  // namespace monotile::engine
