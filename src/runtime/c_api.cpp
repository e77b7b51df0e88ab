// The C interface: turns C structs into views and exceptions into status codes; nothing is decided here.

#include "monotile/c_api.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "monotile/ops/activation.hpp"
#include "monotile/ops/mlp.hpp"
#include "monotile/ops/attention.hpp"
#include "monotile/ops/embedding.hpp"
#include "monotile/ops/gemm.hpp"
#include "monotile/ops/kv_cache.hpp"
#include "monotile/ops/moe.hpp"
#include "monotile/ops/norm.hpp"
#include "monotile/ops/quant.hpp"
#include "monotile/ops/rope.hpp"
#include "monotile/ops/sampling.hpp"
#include "monotile/ops/softmax.hpp"
#include "runtime/version.hpp"

struct monotile_context {
  std::unique_ptr<monotile::Stream> wrapped;  // the caller's stream, if one was given; goes after `context`
  std::unique_ptr<monotile::Context> context;
  const char* last_implementation = "";
};

struct monotile_buffer {
  monotile::Buffer buffer;
};

namespace {

using namespace monotile;

// The header repeats these numbers for C.
static_assert(static_cast<int>(ErrorCode::invalid_argument) == MONOTILE_INVALID_ARGUMENT &&
              static_cast<int>(ErrorCode::internal) == MONOTILE_INTERNAL);
static_assert(static_cast<int>(DType::i64) == MONOTILE_I64 && static_cast<int>(DType::q4_0) == MONOTILE_Q4_0 &&
              static_cast<int>(DType::q6_k) == MONOTILE_Q6_K);
static_assert(static_cast<int>(DeviceKind::cpu) == MONOTILE_CPU &&
              static_cast<int>(DeviceKind::emulated) == MONOTILE_EMULATED);
static_assert(static_cast<int>(ops::row_index_clamped) == MONOTILE_ROW_INDEX_CLAMPED &&
              static_cast<int>(ops::row_has_nan) == MONOTILE_ROW_HAS_NAN);
static_assert(static_cast<int>(ops::Activation::identity) == MONOTILE_IDENTITY &&
              static_cast<int>(ops::ProductCast::int8_block) == MONOTILE_CAST_INT8_BLOCK &&
              static_cast<int>(ops::ProductCast::bf16) == MONOTILE_CAST_BF16 &&
              static_cast<int>(ops::ProductCast::tf32) == MONOTILE_CAST_TF32 &&
              static_cast<int>(ops::ProductForm::tn) == MONOTILE_FORM_TN);
static_assert(static_cast<int>(DType::f8_e4m3) == MONOTILE_F8_E4M3 &&
              static_cast<int>(DType::f8_e5m2) == MONOTILE_F8_E5M2);
static_assert(static_cast<int>(ops::RopeScaling::Kind::longrope) == MONOTILE_ROPE_LONGROPE &&
              kMaxRank == MONOTILE_MAX_RANK);

thread_local std::string last_error;

template <class Body>
monotile_status guarded(const Body& body) noexcept {
  try {
    try {
      body();
      return MONOTILE_OK;
    } catch (const Error& error) {
      last_error = error.what();
      return static_cast<monotile_status>(error.code());
    } catch (const std::bad_alloc&) {
      last_error = "out of host memory";
      return MONOTILE_OUT_OF_MEMORY;
    } catch (const std::exception& error) {
      last_error = error.what();
      return MONOTILE_INTERNAL;
    } catch (...) {
      last_error = "an exception of unknown type";
      return MONOTILE_INTERNAL;
    }
  } catch (...) {  // not even the text could be kept
    return MONOTILE_OUT_OF_MEMORY;
  }
}

[[noreturn]] void refuse(const std::string& what, const std::string& given, const std::string& allowed) {
  throw Error(ErrorCode::invalid_argument, what + ": " + given + "; allowed: " + allowed);
}

template <class T>
T& present(T* pointer, const char* call, const char* argument) {
  if (pointer == nullptr) refuse(std::string(call) + ": " + argument, "null", "a pointer");
  return *pointer;
}

/// A struct of the caller as this library knows it. Members that the caller does not know are zero; members that this
/// library does not know must be zero. `least` is the size that version 1 had.
template <class T>
T read(const T* given, const char* call, const char* argument, size_t least = sizeof(T)) {
  constexpr size_t kLargest = 4096;  // anything above is an unset size
  const size_t size = present(given, call, argument).size;
  const std::string what = std::string(call) + ": " + argument + ".size";
  if (size < least || size > kLargest)
    refuse(what, std::to_string(size), "sizeof of the struct, " + std::to_string(sizeof(T)) + " in this library");
  T known{};
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  std::memcpy(static_cast<void*>(&known), bytes, std::min(size, sizeof(T)));
  if (std::any_of(bytes + std::min(size, sizeof(T)), bytes + size, [](unsigned char byte) { return byte != 0; })) {
    throw Error(ErrorCode::unsupported, what + ": " + std::to_string(size) +
                                            ": a member that this library (ABI version " +
                                            std::to_string(MONOTILE_ABI_VERSION) + ") does not know is set");
  }
  return known;
}

Device device_of(const char* call, int32_t kind, int32_t index) {
  if (kind < MONOTILE_CPU || kind > MONOTILE_EMULATED)
    refuse(std::string(call) + ": device kind", std::to_string(kind), "a monotile_device_kind");
  if (index < 0 || index > INT16_MAX) refuse(std::string(call) + ": device index", std::to_string(index), "0 to 32767");
  return {static_cast<DeviceKind>(kind), static_cast<int16_t>(index)};
}

/// Undefined for a null pointer: the operators know which of their tensors are optional.
TensorView view_of(const char* call, const char* argument, const monotile_tensor* given) {
  TensorView view;
  if (given == nullptr) return view;
  const monotile_tensor tensor = read(given, call, argument);
  const std::string what = std::string(call) + ": " + argument;
  if (tensor.rank < 1 || tensor.rank > kMaxRank)
    refuse(what + ".rank", std::to_string(tensor.rank), "1 to 8; a null tensor where one is optional");
  if (tensor.dtype < 0 || tensor.dtype > 255 || dtype_info(static_cast<DType>(tensor.dtype)).block_bytes == 0) {
    refuse(what + ".dtype", std::to_string(tensor.dtype), "a monotile_dtype but none");
  }
  view.data = tensor.data;
  view.dtype = static_cast<DType>(tensor.dtype);
  view.device = device_of(call, tensor.device_kind, tensor.device_index);
  view.rank = tensor.rank;
  std::copy_n(tensor.extents, tensor.rank, view.extent.begin());
  std::copy_n(tensor.strides, tensor.rank, view.stride.begin());
  return view;
}

template <class Enum>
Enum choice(const char* call, const char* argument, int32_t value, Enum last) {
  if (value < 0 || value > static_cast<int32_t>(last)) {
    refuse(std::string(call) + ": " + argument, std::to_string(value),
           "0 to " + std::to_string(static_cast<int32_t>(last)));
  }
  return static_cast<Enum>(value);
}

ops::PenaltiesArgs penalties_of(const monotile_penalties_args* given, const char* call, const char* argument) {
  const auto a = read(given, call, argument);
  return {view_of(call, "logits", a.logits),
          view_of(call, "history", a.history),
          view_of(call, "history_length", a.history_length),
          view_of(call, "prompt_length", a.prompt_length),
          view_of(call, "repetition", a.repetition),
          view_of(call, "presence", a.presence),
          view_of(call, "frequency", a.frequency),
          view_of(call, "bias_ids", a.bias_ids),
          view_of(call, "bias", a.bias)};
}

ops::RouterArgs router_of(const monotile_moe_router_args* given, const char* call, const char* argument) {
  const auto a = read(given, call, argument);
  ops::RouterArgs r;
  r.weights = view_of(call, "weights", a.weights);
  r.experts = view_of(call, "experts", a.experts);
  r.logits = view_of(call, "logits", a.logits);
  r.bias = view_of(call, "bias", a.bias);
  r.status = view_of(call, "status", a.status);
  r.score = choice(call, "score", a.score, ops::RouterScore::sigmoid);
  r.renormalise = a.renormalise != 0;
  r.scale = a.scale;
  r.groups = a.groups;
  r.kept_groups = a.kept_groups;
  r.group_sum = a.group_sum;
  return r;
}

ops::AlignArgs align_of(const monotile_moe_align_args* given, const char* call, const char* argument) {
  const auto a = read(given, call, argument);
  return {view_of(call, "sorted", a.sorted),
          view_of(call, "positions", a.positions),
          view_of(call, "offsets", a.offsets),
          view_of(call, "counts", a.counts),
          view_of(call, "block_experts", a.block_experts),
          view_of(call, "experts", a.experts),
          a.block,
          a.first_expert};
}

template <class Args>
void run_operator(monotile_context* given, const Args& args) {
  Context& context = *present(given, Args::op_name, "context").context;
  const Plan<Args> chosen = plan(context.device(), args, context.tier);
  chosen.run(context.stream(), args, chosen.workspace_bytes != 0 ? context.workspace(chosen.workspace_bytes) : nullptr);
  given->last_implementation = chosen.implementation->name;
}

void rms_norm(monotile_context* context, const monotile_rms_norm_args* args, const char* call, bool with_residual) {
  const auto a = read(args, call, "args");
  if (with_residual) present(a.residual, call, "residual");
  if (!with_residual && a.residual != nullptr)
    refuse(std::string(call) + ": residual", "a tensor", "null; monotile_add_rms_norm takes one");
  run_operator(context, ops::RmsNormArgs{.y = view_of(call, "y", a.y),
                                         .residual = view_of(call, "residual", a.residual),
                                         .x = view_of(call, "x", a.x),
                                         .gamma = view_of(call, "gamma", a.gamma),
                                         .beta = view_of(call, "beta", a.beta),
                                         .eps = a.eps,
                                         .gamma_offset = a.gamma_offset});
}

}  // namespace

int32_t monotile_abi_version(void) { return MONOTILE_ABI_VERSION; }

const char* monotile_version(void) { return detail::version(); }

const char* monotile_last_error(void) { return last_error.c_str(); }

const char* monotile_status_name(int32_t status) {
  switch (status) {
    case MONOTILE_OK: return "ok";
    case MONOTILE_INVALID_ARGUMENT: return "invalid_argument";
    case MONOTILE_UNSUPPORTED: return "unsupported";
    case MONOTILE_OUT_OF_MEMORY: return "out_of_memory";
    case MONOTILE_DEVICE_ERROR: return "device_error";
    case MONOTILE_BAD_FILE: return "bad_file";
    case MONOTILE_NOT_FOUND: return "not_found";
    case MONOTILE_INTERNAL: return "internal";
    default: return "unknown";
  }
}

monotile_status monotile_device_count(int32_t* count) {
  return guarded([&] { present(count, "monotile_device_count", "count") = static_cast<int32_t>(devices().size()); });
}

monotile_status monotile_device_at(int32_t position, monotile_device_info* info) {
  return guarded([&] {
    constexpr const char* call = "monotile_device_at";
    const size_t size = present(info, call, "info").size;
    if (size < sizeof(size_t))
      refuse(std::string(call) + ": info.size", std::to_string(size), "sizeof(monotile_device_info)");
    const auto count = static_cast<int32_t>(devices().size());
    if (position < 0 || position >= count)
      refuse(std::string(call) + ": position", std::to_string(position), "0 to " + std::to_string(count - 1));
    const DeviceInfo& found = devices()[static_cast<size_t>(position)];
    const monotile_device_info result = {size,
                                         static_cast<int32_t>(found.device.kind),
                                         found.device.index,
                                         found.name.c_str(),
                                         found.architecture.c_str(),
                                         found.path.c_str(),
                                         found.driver.c_str(),
                                         found.units,
                                         found.wave,
                                         found.memory_bytes,
                                         found.l2_bytes,
                                         found.shared_bytes};
    std::memcpy(static_cast<void*>(info), &result, std::min(size, sizeof(result)));
  });
}

const char* monotile_absent_backends(void) {
  thread_local std::string text;
  const monotile_status status = guarded([] {
    text.clear();
    for (const std::string& line : absent_backends()) text += line + "\n";
  });
  return status == MONOTILE_OK ? text.c_str() : "";
}

monotile_status monotile_cpu_threads(int32_t* threads) {
  return guarded([&] { present(threads, "monotile_cpu_threads", "threads") = cpu_threads(); });
}

monotile_status monotile_set_cpu_threads(int32_t threads) {
  return guarded([&] { set_cpu_threads(threads); });
}

monotile_status monotile_context_create(int32_t device_kind, int32_t device_index, monotile_context** context) {
  return guarded([&] {
    constexpr const char* call = "monotile_context_create";
    monotile_context*& result = present(context, call, "context");
    auto created = std::make_unique<monotile_context>();
    created->context = std::make_unique<Context>(device_of(call, device_kind, device_index));
    result = created.release();
  });
}

monotile_status monotile_context_create_on_stream(int32_t device_kind, int32_t device_index, void* native_stream,
                                                  monotile_context** context) {
  return guarded([&] {
    constexpr const char* call = "monotile_context_create_on_stream";
    monotile_context*& result = present(context, call, "context");
    auto created = std::make_unique<monotile_context>();
    created->wrapped = std::make_unique<Stream>(device_of(call, device_kind, device_index), native_stream);
    created->context = std::make_unique<Context>(*created->wrapped);
    result = created.release();
  });
}

void monotile_context_destroy(monotile_context* context) { delete context; }

monotile_status monotile_context_native_stream(monotile_context* context, void** native_stream) {
  return guarded([&] {
    constexpr const char* call = "monotile_context_native_stream";
    present(native_stream, call, "native_stream") = present(context, call, "context").context->stream().native();
  });
}

monotile_status monotile_context_set_tier(monotile_context* context, const char* tier) {
  return guarded([&] {
    constexpr const char* call = "monotile_context_set_tier";
    Context& target = *present(context, call, "context").context;
    target.tier = parse_tier(&present(tier, call, "tier"));
  });
}

monotile_status monotile_context_reserve_workspace(monotile_context* context, size_t bytes) {
  return guarded(
      [&] { present(context, "monotile_context_reserve_workspace", "context").context->reserve_workspace(bytes); });
}

const char* monotile_context_last_implementation(const monotile_context* context) {
  return context != nullptr ? context->last_implementation : "";
}

monotile_status monotile_synchronize(monotile_context* context) {
  return guarded([&] { present(context, "monotile_synchronize", "context").context->stream().synchronize(); });
}

monotile_status monotile_buffer_create(int32_t device_kind, int32_t device_index, size_t bytes,
                                       monotile_buffer** buffer) {
  return guarded([&] {
    constexpr const char* call = "monotile_buffer_create";
    monotile_buffer*& result = present(buffer, call, "buffer");
    auto created = std::make_unique<monotile_buffer>();
    created->buffer = Buffer(device_of(call, device_kind, device_index), bytes);
    result = created.release();
  });
}

void* monotile_buffer_data(const monotile_buffer* buffer) {
  return buffer != nullptr ? buffer->buffer.data() : nullptr;
}

size_t monotile_buffer_bytes(const monotile_buffer* buffer) { return buffer != nullptr ? buffer->buffer.size() : 0; }

void monotile_buffer_destroy(monotile_buffer* buffer) { delete buffer; }

monotile_status monotile_copy_to_device(monotile_context* context, void* device_destination, const void* host_source,
                                        size_t bytes) {
  return guarded([&] {
    copy_to_device(present(context, "monotile_copy_to_device", "context").context->stream(), device_destination,
                   host_source, bytes);
  });
}

monotile_status monotile_copy_to_host(monotile_context* context, void* host_destination, const void* device_source,
                                      size_t bytes) {
  return guarded([&] {
    copy_to_host(present(context, "monotile_copy_to_host", "context").context->stream(), host_destination,
                 device_source, bytes);
  });
}

monotile_status monotile_copy_on_device(monotile_context* context, void* destination, const void* source,
                                        size_t bytes) {
  return guarded([&] {
    copy_on_device(present(context, "monotile_copy_on_device", "context").context->stream(), destination, source,
                   bytes);
  });
}

monotile_status monotile_fill_bytes(monotile_context* context, void* destination, int32_t value, size_t bytes) {
  return guarded([&] {
    fill_bytes(present(context, "monotile_fill_bytes", "context").context->stream(), destination, value, bytes);
  });
}

monotile_status monotile_storage_bytes(int32_t dtype, int64_t elements, int64_t* bytes) {
  return guarded([&] {
    int64_t& result = present(bytes, "monotile_storage_bytes", "bytes");
    result = storage_bytes(dtype >= 0 && dtype <= 255 ? static_cast<DType>(dtype) : DType::none, elements);
  });
}

monotile_status monotile_tensor_packed(monotile_tensor* tensor, void* data, int32_t dtype, int32_t device_kind,
                                       int32_t device_index, int32_t rank, const int64_t* extents) {
  return guarded([&] {
    constexpr const char* call = "monotile_tensor_packed";
    present(tensor, call, "tensor");
    present(extents, call, "extents");
    if (rank < 1 || rank > kMaxRank) refuse(std::string(call) + ": rank", std::to_string(rank), "1 to 8");
    if (dtype < 0 || dtype > 255) refuse(std::string(call) + ": dtype", std::to_string(dtype), "a monotile_dtype");
    const TensorView view(data, static_cast<DType>(dtype), {extents, static_cast<size_t>(rank)},
                          device_of(call, device_kind, device_index));
    monotile_tensor result{};
    result.size = sizeof(result);
    result.data = data;
    result.dtype = dtype;
    result.device_kind = device_kind;
    result.device_index = device_index;
    result.rank = rank;
    std::copy_n(view.extent.begin(), rank, result.extents);
    std::copy_n(view.stride.begin(), rank, result.strides);
    *tensor = result;
  });
}

monotile_status monotile_rms_norm(monotile_context* context, const monotile_rms_norm_args* args) {
  return guarded([&] { rms_norm(context, args, "rms_norm", false); });
}

monotile_status monotile_add_rms_norm(monotile_context* context, const monotile_rms_norm_args* args) {
  return guarded([&] { rms_norm(context, args, "add_rms_norm", true); });
}

monotile_status monotile_rope(monotile_context* context, const monotile_rope_args* args) {
  return guarded([&] {
    constexpr const char* call = "rope";
    const auto a = read(args, call, "args");
    run_operator(context, ops::RopeArgs{.q_out = view_of(call, "q_out", a.q_out),
                                        .k_out = view_of(call, "k_out", a.k_out),
                                        .q = view_of(call, "q", a.q),
                                        .k = view_of(call, "k", a.k),
                                        .positions = view_of(call, "positions", a.positions),
                                        .cos = view_of(call, "cos", a.cos),
                                        .sin = view_of(call, "sin", a.sin),
                                        .status = view_of(call, "status", a.status),
                                        .rotary_dim = a.rotary_dim,
                                        .interleaved = choice(call, "interleaved", a.interleaved, 1) != 0});
  });
}

monotile_status monotile_rope_table(const monotile_rope_table_args* args) {
  return guarded([&] {
    constexpr const char* call = "rope_table";
    const auto a = read(args, call, "args", offsetof(monotile_rope_table_args, long_divisors));
    if (a.max_position > 0) {
      present(a.cos, call, "cos");
      present(a.sin, call, "sin");
    }
    ops::RopeScaling scaling;
    scaling.kind = choice(call, "scaling", a.scaling, ops::RopeScaling::Kind::longrope);
    scaling.factor = a.factor;
    scaling.low_freq_factor = a.low_freq_factor;
    scaling.high_freq_factor = a.high_freq_factor;
    scaling.original_context = a.original_context;
    if (a.frequency_divisors != nullptr && a.rotary_dim > 0) {
      scaling.frequency_divisors.assign(a.frequency_divisors, a.frequency_divisors + a.rotary_dim / 2);
    }
    if (a.long_divisors != nullptr && a.rotary_dim > 0) {
      scaling.long_divisors.assign(a.long_divisors, a.long_divisors + a.rotary_dim / 2);
    }
    scaling.context = a.context;
    if (a.beta_fast != 0) scaling.beta_fast = a.beta_fast;
    if (a.beta_slow != 0) scaling.beta_slow = a.beta_slow;
    scaling.mscale = a.mscale;
    scaling.mscale_all_dim = a.mscale_all_dim;
    scaling.attention_factor = a.attention_factor;
    ops::build_rope_table(a.cos, a.sin, a.max_position, a.rotary_dim, a.base, scaling);
  });
}

monotile_status monotile_gated_activation(monotile_context* context, const monotile_gated_activation_args* args) {
  return guarded([&] {
    constexpr const char* call = "gated_activation";
    const auto a = read(args, call, "args");
    run_operator(context, ops::GatedActivationArgs{view_of(call, "y", a.y), view_of(call, "gate", a.gate),
                                                   view_of(call, "up", a.up),
                                                   choice(call, "activation", a.activation, ops::Activation::relu2)});
  });
}

monotile_status monotile_softmax(monotile_context* context, const monotile_softmax_args* args) {
  return guarded([&] {
    constexpr const char* call = "softmax";
    const auto a = read(args, call, "args", offsetof(monotile_softmax_args, mask));
    run_operator(context, ops::SoftmaxArgs{view_of(call, "y", a.y), view_of(call, "x", a.x), a.scale,
                                           choice(call, "log", a.log, 1) != 0, view_of(call, "mask", a.mask)});
  });
}

monotile_status monotile_embedding(monotile_context* context, const monotile_embedding_args* args) {
  return guarded([&] {
    constexpr const char* call = "embedding";
    const auto a = read(args, call, "args");
    run_operator(context, ops::EmbeddingArgs{view_of(call, "y", a.y), view_of(call, "table", a.table),
                                             view_of(call, "ids", a.ids), view_of(call, "status", a.status), a.scale});
  });
}

monotile_status monotile_kv_append(monotile_context* context, const monotile_kv_append_args* args) {
  return guarded([&] {
    constexpr const char* call = "kv_append";
    const auto a = read(args, call, "args", offsetof(monotile_kv_append_args, key_scale));
    run_operator(context,
                 ops::KvAppendArgs{view_of(call, "key_cache", a.key_cache), view_of(call, "value_cache", a.value_cache),
                                   view_of(call, "k", a.k), view_of(call, "v", a.v), view_of(call, "slots", a.slots),
                                   view_of(call, "status", a.status), view_of(call, "key_scale", a.key_scale),
                                   view_of(call, "value_scale", a.value_scale)});
  });
}

monotile_status monotile_attention(monotile_context* context, const monotile_attention_args* args) {
  return guarded([&] {
    constexpr const char* call = "attention";
    const auto a = read(args, call, "args", offsetof(monotile_attention_args, prefix_length));
    ops::AttentionArgs result;
    result.out = view_of(call, "out", a.out);
    result.q = view_of(call, "q", a.q);
    result.key_cache = view_of(call, "key_cache", a.key_cache);
    result.value_cache = view_of(call, "value_cache", a.value_cache);
    result.block_table = view_of(call, "block_table", a.block_table);
    result.kv_start = view_of(call, "kv_start", a.kv_start);
    result.q_start = view_of(call, "q_start", a.q_start);
    result.kv_length = view_of(call, "kv_length", a.kv_length);
    result.log_sum_exp = view_of(call, "log_sum_exp", a.log_sum_exp);
    result.status = view_of(call, "status", a.status);
    result.scale = a.scale;
    result.softcap = a.softcap;
    result.window = a.window;
    result.causal = choice(call, "causal", a.causal, 1) != 0;
    result.max_query = a.max_query;
    result.max_kv_length = a.max_kv_length;
    result.prefix_length = view_of(call, "prefix_length", a.prefix_length);
    result.key_ranges = view_of(call, "key_ranges", a.key_ranges);
    result.alibi_slopes = view_of(call, "alibi_slopes", a.alibi_slopes);
    result.relative_bias = view_of(call, "relative_bias", a.relative_bias);
    result.sinks = view_of(call, "sinks", a.sinks);
    result.tree_mask = view_of(call, "tree_mask", a.tree_mask);
    result.key_scale = view_of(call, "key_scale", a.key_scale);
    result.value_scale = view_of(call, "value_scale", a.value_scale);
    result.q_scale = view_of(call, "q_scale", a.q_scale);
    run_operator(context, result);
  });
}

monotile_status monotile_merge_states(monotile_context* context, const monotile_merge_states_args* args) {
  return guarded([&] {
    constexpr const char* call = "merge_states";
    const auto a = read(args, call, "args");
    run_operator(context, ops::MergeStatesArgs{view_of(call, "out", a.out), view_of(call, "a", a.a),
                                               view_of(call, "b", a.b), view_of(call, "log_sum_exp_a", a.log_sum_exp_a),
                                               view_of(call, "log_sum_exp_b", a.log_sum_exp_b),
                                               view_of(call, "log_sum_exp", a.log_sum_exp)});
  });
}

monotile_status monotile_gemm(monotile_context* context, const monotile_gemm_args* args) {
  return guarded([&] {
    constexpr const char* call = "gemm";
    const auto a = read(args, call, "args", offsetof(monotile_gemm_args, a_scale));
    ops::GemmArgs result{view_of(call, "c", a.c), view_of(call, "a", a.a), view_of(call, "b", a.b),
                         view_of(call, "bias", a.bias), view_of(call, "residual", a.residual)};
    result.cast = choice(call, "cast", a.cast, ops::ProductCast::tf32);
    result.form = choice(call, "form", a.form, ops::ProductForm::tn);
    result.a_scale = view_of(call, "a_scale", a.a_scale);
    result.b_scale = view_of(call, "b_scale", a.b_scale);
    result.gate = view_of(call, "gate", a.gate);
    constexpr ops::Activation kEpilogues[] = {ops::Activation::identity, ops::Activation::silu, ops::Activation::gelu_tanh};
    result.activation = kEpilogues[choice(call, "epilogue", a.epilogue, 2)];
    run_operator(context, result);
  });
}

monotile_status monotile_mlp(monotile_context* context, const monotile_mlp_args* args) {
  return guarded([&] {
    constexpr const char* call = "mlp";
    const auto a = read(args, call, "args");
    ops::MlpArgs result;
    result.y = view_of(call, "y", a.y);
    result.x = view_of(call, "x", a.x);
    result.gate = view_of(call, "gate", a.gate);
    result.up = view_of(call, "up", a.up);
    result.down = view_of(call, "down", a.down);
    result.gate_bias = view_of(call, "gate_bias", a.gate_bias);
    result.up_bias = view_of(call, "up_bias", a.up_bias);
    result.down_bias = view_of(call, "down_bias", a.down_bias);
    result.residual = view_of(call, "residual", a.residual);
    result.hidden = view_of(call, "hidden", a.hidden);
    result.spare = view_of(call, "spare", a.spare);
    result.activation = choice(call, "activation", a.activation, ops::Activation::relu2);
    const auto cast = choice(call, "cast", a.cast, ops::ProductCast::tf32);
    if (a.choose_cast == 0) result.cast = cast;
    ops::mlp(*present(context, call, "context").context, result);
    context->last_implementation = call;
  });
}

monotile_status monotile_argmax(monotile_context* context, const monotile_argmax_args* args) {
  return guarded([&] {
    constexpr const char* call = "argmax";
    const auto a = read(args, call, "args");
    run_operator(context, ops::ArgmaxArgs{view_of(call, "ids", a.ids), view_of(call, "logits", a.logits),
                                          view_of(call, "status", a.status)});
  });
}

monotile_status monotile_sample(monotile_context* context, const monotile_sample_args* args) {
  return guarded([&] {
    constexpr const char* call = "sample";
    const auto a = read(args, call, "args", offsetof(monotile_sample_args, penalties));
    ops::SampleArgs s{view_of(call, "ids", a.ids),
                      view_of(call, "logits", a.logits),
                      view_of(call, "temperature", a.temperature),
                      view_of(call, "top_k", a.top_k),
                      view_of(call, "top_p", a.top_p),
                      view_of(call, "min_p", a.min_p),
                      view_of(call, "seeds", a.seeds),
                      view_of(call, "positions", a.positions),
                      view_of(call, "status", a.status),
                      {}};
    if (a.penalties != nullptr) s.penalties = penalties_of(a.penalties, call, "penalties");
    run_operator(context, s);
  });
}

monotile_status monotile_moe_router(monotile_context* context, const monotile_moe_router_args* args) {
  return guarded([&] { run_operator(context, router_of(args, "moe_router", "args")); });
}

int64_t monotile_moe_align_capacity(int64_t pairs, int64_t experts, int64_t block) {
  return ops::moe_align_capacity(pairs, experts, std::max<int64_t>(block, 1));
}

monotile_status monotile_moe_align(monotile_context* context, const monotile_moe_align_args* args) {
  return guarded([&] { run_operator(context, align_of(args, "moe_align", "args")); });
}

monotile_status monotile_moe_dispatch(monotile_context* context, const monotile_moe_dispatch_args* args) {
  return guarded([&] {
    constexpr const char* call = "moe_dispatch";
    const auto a = read(args, call, "args");
    run_operator(context, ops::DispatchArgs{view_of(call, "y", a.y), view_of(call, "x", a.x),
                                            view_of(call, "positions", a.positions)});
  });
}

monotile_status monotile_moe_permute(monotile_context* context, const monotile_moe_permute_args* args) {
  return guarded([&] {
    constexpr const char* call = "moe_permute";
    const auto a = read(args, call, "args");
    run_operator(context, ops::PermuteArgs{view_of(call, "y", a.y), view_of(call, "x", a.x),
                                           view_of(call, "sorted", a.sorted), view_of(call, "end", a.end), a.top_k});
  });
}

monotile_status monotile_moe_combine(monotile_context* context, const monotile_moe_combine_args* args) {
  return guarded([&] {
    constexpr const char* call = "moe_combine";
    const auto a = read(args, call, "args");
    run_operator(context,
                 ops::CombineArgs{view_of(call, "y", a.y), view_of(call, "x", a.x), view_of(call, "weights", a.weights),
                                  view_of(call, "positions", a.positions), view_of(call, "addend", a.addend)});
  });
}

monotile_status monotile_moe_route(monotile_context* context, const monotile_moe_route_args* args) {
  return guarded([&] {
    constexpr const char* call = "moe_route";
    const auto a = read(args, call, "args");
    run_operator(context, ops::RouteArgs{router_of(a.router, call, "router"), align_of(a.align, call, "align"),
                                         view_of(call, "y", a.y), view_of(call, "x", a.x)});
  });
}

monotile_status monotile_top_k(monotile_context* context, const monotile_top_k_args* args) {
  return guarded([&] {
    constexpr const char* call = "top_k";
    const auto a = read(args, call, "args");
    run_operator(context, ops::TopKArgs{view_of(call, "values", a.values), view_of(call, "ids", a.ids),
                                        view_of(call, "logits", a.logits), view_of(call, "status", a.status)});
  });
}

monotile_status monotile_apply_penalties(monotile_context* context, const monotile_penalties_args* args) {
  return guarded([&] { run_operator(context, penalties_of(args, "apply_penalties", "args")); });
}

monotile_status monotile_logprobs(monotile_context* context, const monotile_logprobs_args* args) {
  return guarded([&] {
    constexpr const char* call = "logprobs";
    const auto a = read(args, call, "args");
    run_operator(context,
                 ops::LogprobsArgs{view_of(call, "logprobs", a.logprobs), view_of(call, "tokens", a.tokens),
                                   view_of(call, "top_logprobs", a.top_logprobs), view_of(call, "top_ids", a.top_ids),
                                   view_of(call, "logits", a.logits), view_of(call, "status", a.status)});
  });
}

monotile_status monotile_speculative_verify(monotile_context* context, const monotile_verify_args* args) {
  return guarded([&] {
    constexpr const char* call = "speculative_verify";
    const auto a = read(args, call, "args");
    run_operator(
        context,
        ops::VerifyArgs{view_of(call, "tokens", a.tokens), view_of(call, "accepted", a.accepted),
                        view_of(call, "target_probs", a.target_probs), view_of(call, "draft_probs", a.draft_probs),
                        view_of(call, "draft_tokens", a.draft_tokens), view_of(call, "seeds", a.seeds),
                        view_of(call, "positions", a.positions), view_of(call, "status", a.status)});
  });
}

monotile_status monotile_layer_norm(monotile_context* context, const monotile_layer_norm_args* args) {
  return guarded([&] {
    constexpr const char* call = "layer_norm";
    const auto a = read(args, call, "args");
    run_operator(context, ops::LayerNormArgs{view_of(call, "y", a.y), view_of(call, "residual", a.residual),
                                             view_of(call, "x", a.x), view_of(call, "gamma", a.gamma),
                                             view_of(call, "beta", a.beta), a.eps, a.gamma_offset});
  });
}

monotile_status monotile_rms_norm_quantise(monotile_context* context, const monotile_rms_norm_quantise_args* args) {
  return guarded([&] {
    constexpr const char* call = "rms_norm_quantise";
    const auto a = read(args, call, "args");
    run_operator(context, ops::RmsNormQuantiseArgs{view_of(call, "codes", a.codes), view_of(call, "scales", a.scales),
                                                   view_of(call, "y", a.y), view_of(call, "residual", a.residual),
                                                   view_of(call, "x", a.x), view_of(call, "gamma", a.gamma),
                                                   view_of(call, "beta", a.beta), a.eps, a.gamma_offset,
                                                   choice(call, "given_scales", a.given_scales, 1) != 0});
  });
}

monotile_status monotile_quantise(monotile_context* context, const monotile_quantise_args* args) {
  return guarded([&] {
    constexpr const char* call = "quantise";
    const auto a = read(args, call, "args");
    run_operator(context,
                 ops::QuantiseArgs{view_of(call, "codes", a.codes), view_of(call, "scales", a.scales),
                                   view_of(call, "zero_points", a.zero_points), view_of(call, "x", a.x), a.block_rows,
                                   a.block_cols, choice(call, "given_scales", a.given_scales, 1) != 0});
  });
}

monotile_status monotile_dequantise(monotile_context* context, const monotile_quantise_args* args) {
  return guarded([&] {
    constexpr const char* call = "dequantise";
    const auto a = read(args, call, "args");
    run_operator(context, ops::DequantiseArgs{view_of(call, "x", a.x), view_of(call, "codes", a.codes),
                                              view_of(call, "scales", a.scales),
                                              view_of(call, "zero_points", a.zero_points), a.block_rows, a.block_cols});
  });
}

monotile_status monotile_gated_quantise(monotile_context* context, const monotile_gated_quantise_args* args) {
  return guarded([&] {
    constexpr const char* call = "gated_quantise";
    const auto a = read(args, call, "args");
    run_operator(context, ops::GatedQuantiseArgs{view_of(call, "codes", a.codes), view_of(call, "scales", a.scales),
                                                 view_of(call, "gate", a.gate), view_of(call, "up", a.up),
                                                 choice(call, "activation", a.activation, ops::Activation::relu2),
                                                 a.block_cols, choice(call, "given_scales", a.given_scales, 1) != 0});
  });
}

monotile_status monotile_bias_activation(monotile_context* context, const monotile_bias_activation_args* args) {
  return guarded([&] {
    constexpr const char* call = "bias_activation";
    const auto a = read(args, call, "args");
    run_operator(context, ops::BiasActivationArgs{view_of(call, "y", a.y), view_of(call, "x", a.x),
                                                  view_of(call, "bias", a.bias), view_of(call, "residual", a.residual),
                                                  choice(call, "activation", a.activation, ops::Activation::identity)});
  });
}

monotile_status monotile_norm_rope_append(monotile_context* context, const monotile_norm_rope_append_args* args) {
  return guarded([&] {
    constexpr const char* call = "norm_rope_append";
    const auto a = read(args, call, "args");
    run_operator(context, ops::NormRopeAppendArgs{view_of(call, "q_out", a.q_out),
                                                  view_of(call, "k_out", a.k_out),
                                                  view_of(call, "q", a.q),
                                                  view_of(call, "k", a.k),
                                                  view_of(call, "v", a.v),
                                                  view_of(call, "q_gamma", a.q_gamma),
                                                  view_of(call, "k_gamma", a.k_gamma),
                                                  view_of(call, "positions", a.positions),
                                                  view_of(call, "cos", a.cos),
                                                  view_of(call, "sin", a.sin),
                                                  view_of(call, "key_cache", a.key_cache),
                                                  view_of(call, "value_cache", a.value_cache),
                                                  view_of(call, "slots", a.slots),
                                                  view_of(call, "key_scale", a.key_scale),
                                                  view_of(call, "value_scale", a.value_scale),
                                                  view_of(call, "status", a.status),
                                                  a.eps,
                                                  a.gamma_offset,
                                                  a.rotary_dim,
                                                  choice(call, "interleaved", a.interleaved, 1) != 0});
  });
}

monotile_status monotile_copy_blocks(monotile_context* context, const monotile_copy_blocks_args* args) {
  return guarded([&] {
    constexpr const char* call = "copy_blocks";
    const auto a = read(args, call, "args");
    run_operator(context, ops::CopyBlocksArgs{view_of(call, "key_cache", a.key_cache),
                                              view_of(call, "value_cache", a.value_cache),
                                              view_of(call, "pairs", a.pairs), view_of(call, "status", a.status)});
  });
}

monotile_status monotile_kv_gather(monotile_context* context, const monotile_kv_gather_args* args) {
  return guarded([&] {
    constexpr const char* call = "kv_gather";
    const auto a = read(args, call, "args");
    run_operator(context, ops::KvGatherArgs{
                              view_of(call, "k_out", a.k_out), view_of(call, "v_out", a.v_out),
                              view_of(call, "key_cache", a.key_cache), view_of(call, "value_cache", a.value_cache),
                              view_of(call, "slots", a.slots), view_of(call, "status", a.status),
                              view_of(call, "key_scale", a.key_scale), view_of(call, "value_scale", a.value_scale)});
  });
}

monotile_status monotile_gather_rows(monotile_context* context, const monotile_gather_rows_args* args) {
  return guarded([&] {
    constexpr const char* call = "gather_rows";
    const auto a = read(args, call, "args");
    run_operator(context, ops::GatherRowsArgs{view_of(call, "y", a.y), view_of(call, "x", a.x),
                                              view_of(call, "ids", a.ids), view_of(call, "status", a.status)});
  });
}

monotile_status monotile_swap_blocks(monotile_context* context, const monotile_tensor* to, const monotile_tensor* from,
                                     const monotile_tensor* pairs) {
  return guarded([&] {
    constexpr const char* call = "swap_blocks";
    ops::swap_blocks(*present(context, call, "context").context, view_of(call, "to", to), view_of(call, "from", from),
                     view_of(call, "pairs", pairs));
  });
}
