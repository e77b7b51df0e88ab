// The engine on the small random models in tests/models: against llama.cpp's answers for them, its own bookkeeping, and
// the run from prompt to text.

#include "engine/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/model.hpp"
#include "engine/paged_cache.hpp"
#include "engine/tokenizer.hpp"
#include "tests/engine/golden.hpp"

namespace monotile::engine {
namespace {

using golden::Json;
using Ids = std::vector<int32_t>;

constexpr int64_t kContext = 128;
constexpr Device kCuda{DeviceKind::cuda, 0}, kOpenCL{DeviceKind::opencl, 0};

std::string model_path(const std::string& file) { return golden::source_path("tests/models/" + file); }

bool device_present(Device device) {
  return std::any_of(devices().begin(), devices().end(), [&](const DeviceInfo& info) { return info.device == device; });
}

EngineOptions exact() {
  EngineOptions options = golden::exact_options(kContext);
  options.poison = true;
  return options;
}

Ids random_ids(size_t count, uint32_t seed) {
  Ids ids(count);
  for (int32_t& id : ids) {
    seed = seed * 1664525u + 1013904223u;
    id = static_cast<int32_t>((seed >> 8) % 331u);
  }
  return ids;
}

std::vector<float> logits_after(Session& session, const Ids& ids) {
  session.clear();
  session.prefill(ids);
  return session.logits();
}

/// What throws, or "" if nothing does.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void expect_error(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

// --- against llama.cpp
// --------------------------------------------------------------------------------------------------

struct Limits {
  double logits = 0;          ///< relative error
  double factor_of_peer = 0;  ///< or this times the error of llama.cpp with rounded activations, if larger
  bool greedy = true;
};

double logit_error(Session& session, const Json& prompt) {
  return golden::relative_error(logits_after(session, prompt.at("prompt_ids").get<Ids>()),
                                prompt.at("logits").get<std::vector<float>>());
}

/// All files of one architecture: logits and greedy tokens of every prompt.
void check_small_models(const std::string& architecture, Device device, const EngineOptions& options,
                        const Limits& limits) {
  const Json goldens = golden::read_json("tests/golden/small-" + architecture + ".json");
  const double tie_gap = goldens.at("limits").at("tie_gap");
  for (const Json& entry : goldens.at("models")) {
    const std::string file = entry.at("file");
    SCOPED_TRACE(file);
    const Model model = Model::load(model_path(file), {.device = device});
    Engine engine(model, options);
    Session session(engine);
    double worst = 0;
    int near_ties = 0;
    for (const Json& prompt : entry.at("prompts")) {
      const std::string name = prompt.at("name");
      const double peer = entry.at("quantized_activations_logit_error").at(name);
      const double error = logit_error(session, prompt);
      EXPECT_LE(error, std::max(limits.logits, limits.factor_of_peer * peer)) << name;
      worst = std::max(worst, error);
      if (!limits.greedy) continue;
      const golden::GreedyResult greedy = golden::follow(session, prompt, tie_gap);
      for (const std::string& failure : greedy.failures) ADD_FAILURE() << failure;
      near_ties += greedy.near_ties;
    }
    std::printf("  %-26s %-11s logit error %.2e, near ties decided otherwise %d\n", file.c_str(),
                to_string(device).c_str(), worst, near_ties);
  }
}

// llama.cpp looks GELU up in a table of fp16 values, so Gemma differs by more than rounding.
constexpr Limits kExactLlama{.logits = 2e-5}, kExactGemma{.logits = 1e-3};
// fp16 and tf32 paths of GPUs would still be far below the 2e-2 that any wrong parameter exceeds.
constexpr Limits kDevice{.logits = 2e-3};

TEST(SmallGolden, Llama) { check_small_models("llama", Device{}, exact(), kExactLlama); }
TEST(SmallGolden, Gemma3) { check_small_models("gemma3", Device{}, exact(), kExactGemma); }

TEST(SmallGolden, ReferenceTier) {
  EngineOptions options = exact();
  options.tier = parse_tier("reference");
  check_small_models("gemma3", Device{}, options, kExactGemma);
}

TEST(SmallGolden, Fp16Cache) {
  EngineOptions options = exact();
  options.kv = DType::f16;
  check_small_models("llama", Device{}, options, {.logits = 3e-3});
}

/// int8 activations: no worse than 1.5 times llama.cpp's own rounding.
TEST(SmallGolden, Int8Activations) {
  for (const char* architecture : {"llama", "gemma3"}) {
    EngineOptions options = exact();
    options.cast = ops::ProductCast::int8_block;
    check_small_models(architecture, Device{}, options, {.logits = 1e-3, .factor_of_peer = 1.5, .greedy = false});
  }
}

/// The bf16 stream rounds to 8 bits of mantissa after every operator.
EngineOptions bf16_stream() {
  EngineOptions options = exact();
  options.activations = options.kv = DType::bf16;
  return options;
}

TEST(SmallGolden, Bf16Residual) {
  for (const char* architecture : {"llama", "gemma3"}) {
    check_small_models(architecture, Device{}, bf16_stream(), {.logits = 6e-2, .greedy = false});
  }
}

TEST(SmallGolden, Emulated32) { check_small_models("gemma3", {DeviceKind::emulated, 32}, exact(), kExactGemma); }
TEST(SmallGolden, Emulated64) { check_small_models("llama", {DeviceKind::emulated, 64}, exact(), kExactLlama); }

TEST(SmallGolden, Cuda) {
  if (!device_present(kCuda)) GTEST_SKIP() << "no cuda:0";
  for (const char* architecture : {"llama", "gemma3"}) check_small_models(architecture, kCuda, exact(), kDevice);
}

TEST(SmallGolden, CudaBf16Residual) {
  if (!device_present(kCuda)) GTEST_SKIP() << "no cuda:0";
  for (const char* architecture : {"llama", "gemma3"}) {
    check_small_models(architecture, kCuda, bf16_stream(), {.logits = 6e-2, .greedy = false});
  }
}

/// fp32 throughout; only the order of sums and the device's exp, sin and cos differ from the CPU's.
TEST(SmallGolden, OpenCL) {
  if (!device_present(kOpenCL)) GTEST_SKIP() << "no opencl:0";
  check_small_models("llama", kOpenCL, exact(), kExactLlama);
  check_small_models("gemma3", kOpenCL, exact(), kExactGemma);
}

/// Where weights are copied, those of one product lie together; in the file they stay where they are.
TEST(Loading, QueriesKeysAndValuesLieTogetherOnDevices) {
  for (const Device device : {Device{}, kCuda, kOpenCL}) {
    if (!device_present(device)) continue;
    const Model model = Model::load(model_path("small-llama-q8_0.gguf"), {.device = device});
    const LayerWeights& layer = model.weights().layers.front();
    ASSERT_EQ(layer.qkv.defined(), !device.host_memory()) << to_string(device);
    if (!layer.qkv.defined()) continue;
    EXPECT_EQ(layer.qkv.dim(0), layer.q.dim(0) + layer.k.dim(0) + layer.v.dim(0));
    EXPECT_EQ(layer.q.data, layer.qkv.data);
    EXPECT_EQ(layer.v.as<char>() - layer.k.as<char>(), storage_bytes(layer.k.dtype, layer.k.size()));
  }
}

/// Each wrong parameter moves the logits as far as it moves the oracle's: so each one is read and used.
TEST(SmallGolden, WrongParametersAreNoticed) {
  for (const std::string architecture : {"llama", "gemma3"}) {
    const Json goldens = golden::read_json("tests/golden/small-" + architecture + ".json");
    for (const Json& entry : goldens.at("models")) {
      const Json& prompts = entry.at("prompts");
      const auto longest =
          std::find_if(prompts.begin(), prompts.end(), [](const Json& p) { return p.at("name") == "long"; });
      for (const Json& mutation : entry.at("sensitivity")) {
        const Model model = Model::load(model_path(entry.at("file")), {.overrides = golden::overrides_of(mutation)});
        Engine engine(model, exact());
        Session session(engine);
        const double ours = logit_error(session, *longest), oracle = mutation.at("logit_error");
        EXPECT_NEAR(ours, oracle, 0.1 * oracle) << entry.at("file") << " " << mutation.at("name");
        EXPECT_GT(ours, goldens.at("limits").at("max_logit_error").get<double>());
      }
    }
  }
}

// --- the engine against itself
// ------------------------------------------------------------------------------------------

/// However a sequence is cut into steps, its logits are those of one step, up to the rounding of matrix products.
TEST(EngineSteps, ChunksAndSingleTokensAgreeWithOneStep) {
  const Model model = Model::load(model_path("small-gemma3-f32.gguf"));
  const Ids ids = random_ids(100, 1);
  EngineOptions options = exact();
  std::vector<float> whole;
  {
    Engine engine(model, options);
    Session session(engine);
    whole = logits_after(session, ids);
  }
  for (const int64_t chunk : {1, 2, 7, 16, 33, 64}) {
    options.prefill_chunk = chunk;
    Engine engine(model, options);
    Session session(engine);
    EXPECT_LE(golden::relative_error(logits_after(session, ids), whole), 1e-5) << chunk;
    EXPECT_EQ(session.length(), 100);
  }
}

/// Sessions do not see one another, whatever the steps look like and whichever pages they get.
TEST(EngineSteps, BatchedSessionsAgreeWithSingleOnes) {
  const Model model = Model::load(model_path("small-gemma3-f32.gguf"));
  EngineOptions options = exact();
  options.max_sessions = 3;
  options.prefill_chunk = 48;
  Engine engine(model, options);
  const Ids ids[3] = {random_ids(70, 1), random_ids(31, 2), random_ids(55, 3)};
  std::vector<float> alone[3];
  for (int i = 0; i < 3; ++i) {
    Session session(engine);
    alone[i] = logits_after(session, ids[i]);
  }
  Session sessions[3] = {Session(engine), Session(engine), Session(engine)};
  size_t done[3] = {};
  const size_t parts[3] = {17, 1, 30};  // uneven, so that pages interleave
  std::vector<float> batched[3];
  for (bool more = true; more;) {
    more = false;
    std::vector<Engine::Work> work;
    for (int i = 0; i < 3; ++i) {
      const size_t count = std::min(parts[i], ids[i].size() - done[i]);
      if (count == 0) continue;
      done[i] += count;
      work.push_back({&sessions[i], std::span(ids[i]).subspan(done[i] - count, count), done[i] == ids[i].size()});
      more = true;
    }
    engine.step(work);
    for (const Engine::Work& part : work) {
      if (part.wants_logits) batched[part.session - sessions] = part.session->logits();
    }
  }
  for (int i = 0; i < 3; ++i) EXPECT_LE(golden::relative_error(batched[i], alone[i]), 1e-5) << i;
  for (Session& session : sessions) session.clear();
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
}

/// A window lets pages go while the sequence grows: fewer are there than the sequence has, and the answer stays.
TEST(EngineSteps, WindowedLayersReusePages) {
  const Model model = Model::load(model_path("small-gemma3-f32.gguf"));
  const Hyperparameters& h = model.hyperparameters();
  ASSERT_EQ(h.window, 16);
  const Ids ids = random_ids(120, 9);
  EngineOptions options = exact();
  options.prefill_chunk = 8;
  Engine small(model, options);
  // 8 pages for the layer that sees everything, and window - 1 + 8 tokens for the others.
  EXPECT_EQ(small.total_pages(), pages_for(kContext) + most_pages(kContext, h.window, 8));
  EXPECT_LT(most_pages(kContext, h.window, 8), pages_for(kContext));
  Session session(small);
  const std::vector<float> reused = logits_after(session, ids);
  EXPECT_EQ(small.total_pages() - small.free_pages(), pages_for(120) + 2);  // tokens 97 .. 119 are seen: two pages

  options.prefill_chunk = 128;
  Engine large(model, options);
  Session whole(large);
  EXPECT_LE(golden::relative_error(reused, logits_after(whole, ids)), 1e-5);
  session.clear();
  EXPECT_EQ(small.free_pages(), small.total_pages());
}

TEST(EngineSteps, TheSameRunGivesTheSameBits) {
  const Model model = Model::load(model_path("small-llama-q4_k.gguf"));
  Engine engine(model, {.context = kContext});
  const Ids ids = random_ids(60, 4);
  Session session(engine);
  const std::vector<float> first = logits_after(session, ids);
  EXPECT_EQ(logits_after(session, ids), first);
}

TEST(EngineSteps, RefusalsLeaveTheSessionAsItWas) {
  const Model model = Model::load(model_path("small-llama-f32.gguf"));
  EngineOptions options = exact();
  options.context = 40;
  options.prefill_chunk = 16;
  options.max_sessions = 2;
  Engine engine(model, options), other(model, options);
  Session session(engine), second(engine), stranger(other);
  session.prefill(random_ids(30, 1));
  const std::vector<float> before = session.logits();

  const Ids outside = {331}, negative = {-1}, fine = {5}, many = random_ids(17, 2), none;
  const auto step = [&](std::vector<Engine::Work> work) { return error_of([&] { engine.step(work); }); };
  expect_error(step({{&session, outside}}), {"token 331", "0 to 330"});
  expect_error(step({{&session, negative}}), {"token -1"});
  expect_error(step({{&session, none}}), {"no tokens"});
  expect_error(step({{&second, many}}), {"17 tokens", "prefill_chunk = 16"});
  expect_error(step({{&session, fine}, {&session, fine}}), {"a session twice"});
  expect_error(step({{&stranger, fine}}), {"another engine"});
  expect_error(step({{nullptr, fine}}), {"another engine"});
  expect_error(error_of([&] { session.prefill(random_ids(11, 3)); }), {"41 tokens", "context of 40"});
  expect_error(error_of([&] { session.prefill({}); }), {"no tokens"});
  expect_error(error_of([&] { Session third(engine); }), {"number 3", "max_sessions = 2"});
  expect_error(error_of([&] { (void)second.logits(); }), {"logits", "none"});

  EXPECT_EQ(session.length(), 30);
  EXPECT_EQ(session.room(), 10);
  EXPECT_EQ(session.logits(), before);
  session.prefill(random_ids(10, 3));
  EXPECT_EQ(session.room(), 0);
  expect_error(error_of([&] { session.decode(5); }), {"41 tokens"});
  step({{&second, fine}});
  expect_error(error_of([&] { (void)session.choose(); }), {"logits", "none"});  // those of the last step are gone
}

TEST(EngineSteps, OptionsOutOfRange) {
  const Model model = Model::load(model_path("small-llama-f32.gguf"));
  const auto refused = [&](EngineOptions options) { return error_of([&] { Engine engine(model, options); }); };
  expect_error(refused({.context = 513}), {"context", "513", "512"});
  expect_error(refused({.context = -1}), {"context", "-1"});
  expect_error(refused({.max_sessions = 0}), {"max_sessions"});
  expect_error(refused({.prefill_chunk = 0}), {"prefill_chunk"});
  expect_error(refused({.activations = DType::f16}), {"activations", "f16", "f32, bf16"});
  expect_error(refused({.kv = DType::i8}), {"kv", "i8"});
  EXPECT_EQ(Engine(model, {.context = 512}).options().context, 512);
  EXPECT_EQ(Engine(model).options().context, 512);  // not the default of 4096
}

// --- pages
// --------------------------------------------------------------------------------------------------------------

TEST(Pages, PoolHandsOutEachPageOnce) {
  PagePool pool(3);
  const int32_t a = pool.take(), b = pool.take(), c = pool.take();
  EXPECT_EQ((std::vector<int32_t>{a, b, c}), (std::vector<int32_t>{0, 1, 2}));
  expect_error(error_of([&] { pool.take(); }), {"all 3 pages"});
  pool.give_back(b);
  EXPECT_EQ(pool.take(), b);
  expect_error(error_of([&] { pool.give_back(3); }), {"page 3"});
  expect_error(error_of([] { PagePool(int64_t{1} << 40); }), {"pages"});
}

TEST(Pages, ListDropsWhatNobodySees) {
  PagePool pool(8);
  BlockList list;
  list.grow(pool, 50);
  EXPECT_EQ(list.pages().size(), 4u);
  EXPECT_EQ(list.slot(17), 17);
  list.drop_unseen(pool, 0, 50);  // no window
  EXPECT_EQ(pool.free(), 4);
  list.drop_unseen(pool, 20, 50);  // the query at 50 sees 31 .. 50: page 0 goes, page 1 holds token 31
  EXPECT_EQ(pool.free(), 5);
  EXPECT_EQ(list.pages()[0], BlockList::kGone);
  EXPECT_NE(list.pages()[1], BlockList::kGone);
  list.drop_unseen(pool, 20, 51);
  EXPECT_EQ(pool.free(), 6);
  list.grow(pool, 70);
  EXPECT_EQ(list.pages().size(), 5u);
  list.clear(pool);
  EXPECT_EQ(pool.free(), 8);
}

TEST(Pages, MostPagesIsEnough) {
  for (const int64_t window : {1, 2, 15, 16, 17, 100}) {
    for (const int64_t step : {1, 5, 16, 40}) {
      const int64_t context = 400;
      PagePool pool(most_pages(context, window, step));
      BlockList list;
      for (int64_t length = 0; length < context; length += std::min(step, context - length)) {
        list.drop_unseen(pool, window, length);
        EXPECT_NO_THROW(list.grow(pool, std::min(context, length + step))) << window << " " << step << " " << length;
      }
      list.clear(pool);
    }
  }
}

// --- choosing a token
// -----------------------------------------------------------------------------------------------------

TEST(Choosing, SamplesFollowTheSeed) {
  const Model model = Model::load(model_path("small-llama-q8_0.gguf"));
  Engine engine(model, {.context = kContext});
  const auto run = [&](uint64_t seed) {
    Session session(engine);
    session.prefill(random_ids(5, 1));
    Ids ids;
    for (int i = 0; i < 12; ++i) {
      ids.push_back(session.choose({.temperature = 1.5f, .seed = seed}));
      session.decode(ids.back());
    }
    return ids;
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST(Choosing, FiltersThatKeepOneTokenAreGreedy) {
  const Model model = Model::load(model_path("small-llama-f32.gguf"));
  Engine engine(model, {.context = kContext});
  Session session(engine);
  session.prefill(random_ids(5, 1));
  const int32_t best = session.choose();
  EXPECT_EQ(session.choose({.temperature = 1e-6f, .seed = 3}), best);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(session.choose({.temperature = 2, .top_k = 1, .seed = seed}), best);
    EXPECT_EQ(session.choose({.temperature = 2, .top_p = 1e-6f, .seed = seed}), best);
    EXPECT_EQ(session.choose({.temperature = 2, .min_p = 1, .seed = seed}), best);
  }
}

TEST(Choosing, OptionsOutOfRange) {
  const Model model = Model::load(model_path("small-llama-f32.gguf"));
  Engine engine(model, {.context = kContext});
  Session session(engine);
  session.prefill(random_ids(5, 1));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto refused = [&](SamplingOptions options) { return error_of([&] { (void)session.choose(options); }); };
  expect_error(refused({.temperature = nan}), {"temperature", "nan"});
  expect_error(refused({.temperature = -1}), {"temperature"});
  expect_error(refused({.temperature = 1, .top_p = 1.5f}), {"top_p"});
  expect_error(refused({.temperature = 1, .min_p = nan}), {"min_p"});
  EXPECT_EQ(refused({.temperature = 1, .top_k = 9999999}), "");
}

// --- from prompt to text
// --------------------------------------------------------------------------------------------------

class Generate : public ::testing::Test {
 protected:
  GenerateResult run(int64_t context, size_t prompt_tokens, GenerateOptions options,
                     const GenerateCallbacks& callbacks = {}) {
    EngineOptions engine_options = exact();
    engine_options.context = context;
    engine_options.prefill_chunk = 16;
    Engine engine(model_, engine_options);
    Session session(engine);
    return generate(session, model_.tokenizer(), random_ids(prompt_tokens, 11), options, callbacks);
  }

  Model model_ = Model::load(model_path("small-llama-q8_0.gguf"));
};

TEST_F(Generate, StreamEqualsText) {
  std::string streamed;
  const GenerateResult result = run(kContext, 5, {.max_tokens = 40, .sampling = {.temperature = 1}, .ignore_end = true},
                                    {.on_text = [&](std::string_view text) { streamed += text; }});
  EXPECT_EQ(result.ids.size(), 40u);
  EXPECT_EQ(result.reason, FinishReason::length);
  EXPECT_EQ(result.text, streamed);
  EXPECT_EQ(result.decode_steps, 39);
  EXPECT_GT(result.prefill_seconds, 0);
  EXPECT_GE(result.first_token_seconds, result.prefill_seconds);
}

TEST_F(Generate, ContextBoundsPromptAndAnswer) {
  const GenerateOptions options{.max_tokens = 10, .sampling = {}, .ignore_end = true};
  EXPECT_EQ(run(32, 20, options).ids.size(), 10u);
  EXPECT_EQ(run(32, 31, options).ids.size(), 1u);  // one place is left: the answer ends by length
  EXPECT_EQ(run(32, 31, options).reason, FinishReason::length);
  expect_error(error_of([&] { run(32, 32, options); }), {"32 tokens", "at most 31", "context of 32"});
  expect_error(error_of([&] { run(32, 3200, options); }), {"3200 tokens", "at most 31"});
  expect_error(error_of([&] { run(32, 0, options); }), {"no tokens"});
  EXPECT_EQ(run(32, 32, {.max_tokens = 0}).ids.size(), 0u);

  EXPECT_EQ(context_for(model_, 10, 20, 0), 30);
  EXPECT_EQ(context_for(model_, 10, 2000, 0), 512);
  EXPECT_EQ(context_for(model_, 10, 2000, 100), 100);
  expect_error(error_of([&] { context_for(model_, 10, 1, 513); }), {"513", "512"});
  expect_error(error_of([&] { context_for(model_, 512, 1, 0); }), {"512 tokens", "at most 511"});
}

TEST_F(Generate, EndTokenStopsAndIsNotShown) {
  // Long enough at a high temperature that the end token comes up for some seed.
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const GenerateOptions options{.max_tokens = 100, .sampling = {.temperature = 8, .seed = seed}};
    const GenerateResult result = run(kContext, 5, options);
    for (const int32_t id : result.ids) ASSERT_FALSE(model_.tokenizer().is_end_of_generation(id));
    if (result.reason == FinishReason::length) continue;
    EXPECT_EQ(result.reason, FinishReason::stop);
    EXPECT_LT(result.ids.size(), 100u);
    GenerateOptions further = options;
    further.ignore_end = true;
    const GenerateResult all = run(kContext, 5, further);
    ASSERT_EQ(all.ids.size(), 100u);
    EXPECT_TRUE(model_.tokenizer().is_end_of_generation(all.ids[result.ids.size()]));
    EXPECT_TRUE(std::equal(result.ids.begin(), result.ids.end(), all.ids.begin()));
    return;
  }
  FAIL() << "no run ended by itself";
}

TEST_F(Generate, StopIsAskedBetweenSteps) {
  int tokens = 0;
  GenerateResult result =
      run(kContext, 5, {.max_tokens = 50, .sampling = {}, .ignore_end = true}, {.stop = [&] { return ++tokens > 7; }});
  EXPECT_EQ(result.reason, FinishReason::interrupted);
  EXPECT_EQ(result.ids.size(), 7u);
  result = run(kContext, 100, {.max_tokens = 50}, {.stop = [] { return true; }});  // while the prompt is read
  EXPECT_EQ(result.reason, FinishReason::interrupted);
  EXPECT_TRUE(result.ids.empty());
}

}  // namespace
}  // namespace monotile::engine
