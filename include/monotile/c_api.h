/* The C interface of Monotile. Pure C99; every symbol starts with monotile_. Calls are thread-safe, a context belongs to
 * one thread at a time.
 *
 * Growth without breaking: every struct starts with `size`, which the caller sets to sizeof of the struct as it was
 * compiled (the *_INIT macros do). Later versions append members only; a library reads and writes no byte past `size`.
 * A change that cannot be made so raises MONOTILE_ABI_VERSION; compare it with monotile_abi_version() after loading the
 * library at run time.
 *
 * Errors: every fallible call returns a status; monotile_last_error() then gives the text, which names the operator or
 * part, the argument, what was given and what is allowed. */
#ifndef MONOTILE_C_API_H
#define MONOTILE_C_API_H

#include <stddef.h>
#include <stdint.h>

#if defined(MONOTILE_BUILDING_C_API)
#define MONOTILE_API __attribute__((visibility("default")))
#else
#define MONOTILE_API
#endif

#define MONOTILE_ABI_VERSION 1
#define MONOTILE_MAX_RANK 8

#ifdef __cplusplus
extern "C" {
#endif

typedef enum monotile_status {
  MONOTILE_OK = 0,
  MONOTILE_INVALID_ARGUMENT = 1, /* wrong shape, dtype, stride, device, null pointer or option */
  MONOTILE_UNSUPPORTED = 2,      /* legal, but no implementation here can do it */
  MONOTILE_OUT_OF_MEMORY = 3,
  MONOTILE_DEVICE_ERROR = 4, /* a driver or runtime call failed */
  MONOTILE_BAD_FILE = 5,
  MONOTILE_NOT_FOUND = 6, /* a file, device or operator does not exist */
  MONOTILE_INTERNAL = 7   /* a defect in the library */
} monotile_status;

typedef enum monotile_dtype {
  MONOTILE_NONE = 0,
  MONOTILE_F32 = 1,
  MONOTILE_F16 = 2,
  MONOTILE_BF16 = 3,
  MONOTILE_F64 = 4,
  MONOTILE_I8 = 5,
  MONOTILE_U8 = 6,
  MONOTILE_I32 = 7,
  MONOTILE_I64 = 8,
  MONOTILE_F8_E4M3 = 9, /* OCP 8-bit floats */
  MONOTILE_F8_E5M2 = 10,
  MONOTILE_Q4_0 = 32, /* GGUF block types: extents count elements */
  MONOTILE_Q5_0 = 33,
  MONOTILE_Q8_0 = 34,
  MONOTILE_Q4_K = 35,
  MONOTILE_Q6_K = 36
} monotile_dtype;

typedef enum monotile_device_kind {
  MONOTILE_CPU = 1,
  MONOTILE_CUDA = 2,
  MONOTILE_HIP = 3,
  MONOTILE_OPENCL = 4,
  MONOTILE_EMULATED = 5 /* index 32 or 64: the wave width; host memory */
} monotile_device_kind;

/* Codes that operators write to their optional status views (int32, one per row). argmax, sample and moe_router write every
 * row; the others only set the words of bad rows, so clear the view before. */
typedef enum monotile_row_status {
  MONOTILE_ROW_OK = 0,
  MONOTILE_ROW_INDEX_CLAMPED = 1,
  MONOTILE_ROW_NO_VALID_TOKEN = 2,
  MONOTILE_ROW_HAS_NAN = 3
} monotile_row_status;

/* ---- library ---- */

MONOTILE_API int32_t monotile_abi_version(void);
MONOTILE_API const char* monotile_version(void);
/* Text of this thread's last failed call, "" if none failed; valid until the next failing call of the thread. */
MONOTILE_API const char* monotile_last_error(void);
/* "invalid_argument", ...; "unknown" for other values. */
MONOTILE_API const char* monotile_status_name(int32_t status);

/* ---- devices ---- */

typedef struct monotile_device_info {
  size_t size;
  int32_t kind; /* monotile_device_kind */
  int32_t index;
  const char* name;         /* texts live as long as the library */
  const char* architecture; /* "sm_90a", "avx2", ... */
  const char* path;         /* code path in use: "cuda_sm90", "cpu_avx2", ... */
  const char* driver;       /* versions, or "" */
  int32_t units;            /* multiprocessors or CPU threads */
  int32_t wave;             /* lanes that run in lockstep */
  uint64_t memory_bytes;
  uint64_t l2_bytes;
  uint64_t shared_bytes;
} monotile_device_info;
#define MONOTILE_DEVICE_INFO_INIT \
  { sizeof(monotile_device_info), 0, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0 }

MONOTILE_API monotile_status monotile_device_count(int32_t* count);
/* The device at `position`, 0 <= position < count. `info->size` is set by the caller. */
MONOTILE_API monotile_status monotile_device_at(int32_t position, monotile_device_info* info);
/* Lines that say why a backend is absent, one per line; valid until this thread calls it again. */
MONOTILE_API const char* monotile_absent_backends(void);
MONOTILE_API monotile_status monotile_cpu_threads(int32_t* threads);
/* Call while no work runs. 1 to 1024. */
MONOTILE_API monotile_status monotile_set_cpu_threads(int32_t threads);

/* ---- contexts: a stream, a tier policy and a workspace ---- */

typedef struct monotile_context monotile_context;

/* With a stream of its own. */
MONOTILE_API monotile_status monotile_context_create(int32_t device_kind, int32_t device_index,
                                                     monotile_context** context);
/* On the caller's stream (cudaStream_t; null on CPU and emulated devices), which must outlive the context. */
MONOTILE_API monotile_status monotile_context_create_on_stream(int32_t device_kind, int32_t device_index,
                                                               void* native_stream, monotile_context** context);
/* Null is fine. Work that was queued still runs. */
MONOTILE_API void monotile_context_destroy(monotile_context* context);
/* The stream that work goes to: cudaStream_t, or null on the CPU. */
MONOTILE_API monotile_status monotile_context_native_stream(monotile_context* context, void** native_stream);
/* "reference", "portable", "tuned", "vendor", each with an optional "+" (lower tiers may stand in), or "auto". */
MONOTILE_API monotile_status monotile_context_set_tier(monotile_context* context, const char* tier);
/* Device memory for operators, so that none is allocated later (inside a captured graph, say). */
MONOTILE_API monotile_status monotile_context_reserve_workspace(monotile_context* context, size_t bytes);
/* Name of the implementation that the last successful operator call on this context used, "" before the first. Valid
 * until the next call. */
MONOTILE_API const char* monotile_context_last_implementation(const monotile_context* context);
/* Waits for all work of the context's stream. */
MONOTILE_API monotile_status monotile_synchronize(monotile_context* context);

/* ---- memory ---- */

typedef struct monotile_buffer monotile_buffer;

/* 256-byte aligned memory of a device; 0 bytes give a buffer whose data is null. */
MONOTILE_API monotile_status monotile_buffer_create(int32_t device_kind, int32_t device_index, size_t bytes,
                                                    monotile_buffer** buffer);
MONOTILE_API void* monotile_buffer_data(const monotile_buffer* buffer);
MONOTILE_API size_t monotile_buffer_bytes(const monotile_buffer* buffer);
/* Null is fine. No queued work may still use the memory. */
MONOTILE_API void monotile_buffer_destroy(monotile_buffer* buffer);

/* In stream order. With pageable host memory the host may use or reuse it once the call is back (to_host: after
 * monotile_synchronize). */
MONOTILE_API monotile_status monotile_copy_to_device(monotile_context* context, void* device_destination,
                                                     const void* host_source, size_t bytes);
MONOTILE_API monotile_status monotile_copy_to_host(monotile_context* context, void* host_destination,
                                                   const void* device_source, size_t bytes);
MONOTILE_API monotile_status monotile_copy_on_device(monotile_context* context, void* destination, const void* source,
                                                     size_t bytes);
MONOTILE_API monotile_status monotile_fill_bytes(monotile_context* context, void* destination, int32_t value,
                                                 size_t bytes);

/* Bytes of `elements` consecutive elements (block types: whole blocks). */
MONOTILE_API monotile_status monotile_storage_bytes(int32_t dtype, int64_t elements, int64_t* bytes);

/* ---- tensors: views of memory that the caller owns ---- */

typedef struct monotile_tensor {
  size_t size;
  void* data;
  int32_t dtype;       /* monotile_dtype */
  int32_t device_kind; /* monotile_device_kind */
  int32_t device_index;
  int32_t rank; /* 1 to 8 */
  int64_t extents[MONOTILE_MAX_RANK];
  int64_t strides[MONOTILE_MAX_RANK]; /* in elements */
} monotile_tensor;

/* Fills `tensor` with a packed row-major view. */
MONOTILE_API monotile_status monotile_tensor_packed(monotile_tensor* tensor, void* data, int32_t dtype,
                                                    int32_t device_kind, int32_t device_index, int32_t rank,
                                                    const int64_t* extents);

/* ---- operators ----
 * Shapes, dtypes, casts and sources: the header of the family under monotile/ops. A null tensor is an absent optional
 * one. Work is queued on the context's stream; nothing waits. */

typedef struct monotile_rms_norm_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* residual; /* add_rms_norm only: updated in place */
  const monotile_tensor* x;
  const monotile_tensor* gamma;
  const monotile_tensor* beta; /* optional */
  float eps;
  float gamma_offset;
} monotile_rms_norm_args;
#define MONOTILE_RMS_NORM_ARGS_INIT \
  { sizeof(monotile_rms_norm_args), NULL, NULL, NULL, NULL, NULL, 1e-6f, 0.0f }
/* y = x / sqrt(mean(x^2) + eps) * (gamma + gamma_offset) + beta; `residual` must be null. */
MONOTILE_API monotile_status monotile_rms_norm(monotile_context* context, const monotile_rms_norm_args* args);
/* The same on residual <- x + residual. */
MONOTILE_API monotile_status monotile_add_rms_norm(monotile_context* context, const monotile_rms_norm_args* args);

typedef struct monotile_rope_args {
  size_t size;
  const monotile_tensor* q_out;
  const monotile_tensor* k_out; /* optional, with k */
  const monotile_tensor* q;
  const monotile_tensor* k; /* optional */
  const monotile_tensor* positions;
  const monotile_tensor* cos;
  const monotile_tensor* sin;
  const monotile_tensor* status; /* optional */
  int32_t rotary_dim;            /* 0: head_dim */
  int32_t interleaved;           /* 0: pairs (i, i + rotary_dim / 2), 1: pairs (2i, 2i + 1) */
} monotile_rope_args;
#define MONOTILE_ROPE_ARGS_INIT \
  { sizeof(monotile_rope_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0 }
MONOTILE_API monotile_status monotile_rope(monotile_context* context, const monotile_rope_args* args);

typedef enum monotile_rope_scaling {
  MONOTILE_ROPE_UNSCALED = 0,
  MONOTILE_ROPE_LINEAR = 1,
  MONOTILE_ROPE_LLAMA3 = 2,
  MONOTILE_ROPE_NTK = 3,
  MONOTILE_ROPE_DYNAMIC_NTK = 4,
  MONOTILE_ROPE_YARN = 5,
  MONOTILE_ROPE_LONGROPE = 6
} monotile_rope_scaling;
typedef struct monotile_rope_table_args {
  size_t size;
  float* cos; /* host memory, [max_position, rotary_dim / 2], packed */
  float* sin;
  int64_t max_position;
  int32_t rotary_dim;
  int32_t scaling; /* monotile_rope_scaling */
  double base;
  double factor;
  double low_freq_factor;
  double high_freq_factor;
  double original_context;
  const float* frequency_divisors; /* optional, rotary_dim / 2 values */
  const float* long_divisors;      /* longrope: those beyond original_context */
  double context;   /* dynamic NTK, longrope: tokens that the table is for; 0: original_context x factor */
  double beta_fast; /* this and the next four: yarn (attention_factor: longrope too); 0: not given */
  double beta_slow;
  double mscale;
  double mscale_all_dim;
  double attention_factor;
} monotile_rope_table_args;
#define MONOTILE_ROPE_TABLE_ARGS_INIT                                                                                 \
  {                                                                                                                   \
    sizeof(monotile_rope_table_args), NULL, NULL, 0, 0, 0, 10000.0, 1.0, 1.0, 4.0, 8192.0, NULL, NULL, 0.0, 0.0, 0.0, \
        0.0, 0.0, 0.0                                                                                                 \
  }
/* Fills the two tables on the host. */
MONOTILE_API monotile_status monotile_rope_table(const monotile_rope_table_args* args);

typedef enum monotile_activation {
  MONOTILE_SILU = 0,
  MONOTILE_GELU_TANH = 1,
  MONOTILE_GELU_ERF = 2,
  MONOTILE_RELU2 = 3,
  MONOTILE_IDENTITY = 4 /* bias_activation only */
} monotile_activation;
typedef struct monotile_gated_activation_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* gate;
  const monotile_tensor* up;
  int32_t activation; /* monotile_activation */
} monotile_gated_activation_args;
#define MONOTILE_GATED_ACTIVATION_ARGS_INIT \
  { sizeof(monotile_gated_activation_args), NULL, NULL, NULL, 0 }
/* y = act(gate) * up: silu_mul and gelu_mul. */
MONOTILE_API monotile_status monotile_gated_activation(monotile_context* context,
                                                       const monotile_gated_activation_args* args);

typedef struct monotile_softmax_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* x;
  float scale;
  int32_t log;                 /* 1: the logarithm */
  const monotile_tensor* mask; /* optional */
} monotile_softmax_args;
#define MONOTILE_SOFTMAX_ARGS_INIT \
  { sizeof(monotile_softmax_args), NULL, NULL, 1.0f, 0, NULL }
MONOTILE_API monotile_status monotile_softmax(monotile_context* context, const monotile_softmax_args* args);

typedef struct monotile_embedding_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* table;
  const monotile_tensor* ids;
  const monotile_tensor* status; /* optional */
  float scale;
} monotile_embedding_args;
#define MONOTILE_EMBEDDING_ARGS_INIT \
  { sizeof(monotile_embedding_args), NULL, NULL, NULL, NULL, 1.0f }
MONOTILE_API monotile_status monotile_embedding(monotile_context* context, const monotile_embedding_args* args);

typedef struct monotile_kv_append_args {
  size_t size;
  const monotile_tensor* key_cache;
  const monotile_tensor* value_cache;
  const monotile_tensor* k;
  const monotile_tensor* v;
  const monotile_tensor* slots;
  const monotile_tensor* status;      /* optional */
  const monotile_tensor* key_scale;   /* caches of codes */
  const monotile_tensor* value_scale; /* caches of codes */
} monotile_kv_append_args;
#define MONOTILE_KV_APPEND_ARGS_INIT \
  { sizeof(monotile_kv_append_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_kv_append(monotile_context* context, const monotile_kv_append_args* args);

typedef struct monotile_attention_args {
  size_t size;
  const monotile_tensor* out;
  const monotile_tensor* q;
  const monotile_tensor* key_cache;
  const monotile_tensor* value_cache;
  const monotile_tensor* block_table; /* paged only */
  const monotile_tensor* kv_start;    /* dense only */
  const monotile_tensor* q_start;
  const monotile_tensor* kv_length;
  const monotile_tensor* log_sum_exp; /* optional */
  const monotile_tensor* status;      /* optional */
  float scale;                        /* 0: 1 / sqrt(dim_qk) */
  float softcap;                      /* 0: off */
  int64_t window;                     /* 0: off */
  int64_t max_query;
  int64_t max_kv_length; /* 0: from the table or the dense rows */
  int32_t causal;
  const monotile_tensor* prefix_length; /* optional: [sequences] i32, keys before it are seen by all queries */
  const monotile_tensor* key_ranges;    /* optional: [sequences, max_kv_length or more, 2] i32, first and end of the keys of a position */
  const monotile_tensor* alibi_slopes;  /* optional: [heads] f32 */
  const monotile_tensor* relative_bias; /* optional: [heads, 2r + 1] f32 */
  const monotile_tensor* sinks;         /* optional: [heads] f32 */
  const monotile_tensor* tree_mask;     /* optional: [tokens, words] i32, ancestors of drafted tokens (attention_verify in ops/attention.hpp) */
  const monotile_tensor* key_scale;     /* caches of codes */
  const monotile_tensor* value_scale;   /* caches of codes */
  const monotile_tensor* q_scale;       /* queries of codes */
} monotile_attention_args;
#define MONOTILE_ATTENTION_ARGS_INIT                                                                                  \
  {                                                                                                                   \
    sizeof(monotile_attention_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0.0f, 0.0f, 0, 1, 0, \
        1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                                                       \
  }
MONOTILE_API monotile_status monotile_attention(monotile_context* context, const monotile_attention_args* args);

typedef struct monotile_merge_states_args {
  size_t size;
  const monotile_tensor* out;
  const monotile_tensor* a;
  const monotile_tensor* b;
  const monotile_tensor* log_sum_exp_a;
  const monotile_tensor* log_sum_exp_b;
  const monotile_tensor* log_sum_exp; /* optional */
} monotile_merge_states_args;
#define MONOTILE_MERGE_STATES_ARGS_INIT \
  { sizeof(monotile_merge_states_args), NULL, NULL, NULL, NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_merge_states(monotile_context* context, const monotile_merge_states_args* args);

typedef enum monotile_product_cast {
  MONOTILE_CAST_NONE = 0,
  MONOTILE_CAST_INT8_BLOCK = 1,
  MONOTILE_CAST_BF16 = 2,
  MONOTILE_CAST_TF32 = 3
} monotile_product_cast;
/* How a and b are stored: a [m, k] or (TN) [k, m]; b (NT) [n, k] or [k, n]. */
typedef enum monotile_product_form {
  MONOTILE_FORM_NT = 0,
  MONOTILE_FORM_NN = 1,
  MONOTILE_FORM_TN = 2
} monotile_product_form;
/* Applied to a gate, or to the product and its bias, before the residual is added. */
typedef enum monotile_product_epilogue {
  MONOTILE_EPILOGUE_NONE = 0,
  MONOTILE_EPILOGUE_SILU = 1,
  MONOTILE_EPILOGUE_GELU_TANH = 2
} monotile_product_epilogue;
typedef struct monotile_gemm_args {
  size_t size;
  const monotile_tensor* c;
  const monotile_tensor* a;
  const monotile_tensor* b;
  const monotile_tensor* bias;     /* optional */
  const monotile_tensor* residual; /* optional, may be c */
  int32_t cast;                    /* monotile_product_cast */
  const monotile_tensor* a_scale;  /* optional, with int8 or fp8 operands: [1] or [m] */
  const monotile_tensor* b_scale;  /* optional, with int8 or fp8 operands: [1] or [n] */
  int32_t form;                    /* monotile_product_form */
  const monotile_tensor* gate;     /* optional, with an epilogue, may be c */
  int32_t epilogue;                /* monotile_product_epilogue */
} monotile_gemm_args;
#define MONOTILE_GEMM_ARGS_INIT \
  { sizeof(monotile_gemm_args), NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0 }
/* c = a b^T + bias + residual, or epilogue(a b^T + bias) + residual, or epilogue(gate) * (a b^T + bias) + residual; rank 3: a batch of products */
MONOTILE_API monotile_status monotile_gemm(monotile_context* context, const monotile_gemm_args* args);

typedef struct monotile_argmax_args {
  size_t size;
  const monotile_tensor* ids;
  const monotile_tensor* logits;
  const monotile_tensor* status; /* optional */
} monotile_argmax_args;
#define MONOTILE_ARGMAX_ARGS_INIT \
  { sizeof(monotile_argmax_args), NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_argmax(monotile_context* context, const monotile_argmax_args* args);

typedef struct monotile_sample_args {
  size_t size;
  const monotile_tensor* ids;
  const monotile_tensor* logits;
  const monotile_tensor* temperature; /* this and the next three: optional */
  const monotile_tensor* top_k;
  const monotile_tensor* top_p;
  const monotile_tensor* min_p;
  const monotile_tensor* seeds;
  const monotile_tensor* positions;
  const monotile_tensor* status;                   /* optional */
  const struct monotile_penalties_args* penalties; /* optional; its `logits` must be null */
} monotile_sample_args;
#define MONOTILE_SAMPLE_ARGS_INIT \
  { sizeof(monotile_sample_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_sample(monotile_context* context, const monotile_sample_args* args);

typedef enum monotile_router_score { MONOTILE_ROUTER_SOFTMAX = 0, MONOTILE_ROUTER_SIGMOID = 1 } monotile_router_score;
typedef struct monotile_moe_router_args {
  size_t size;
  const monotile_tensor* weights;
  const monotile_tensor* experts;
  const monotile_tensor* logits;
  const monotile_tensor* bias;   /* optional */
  const monotile_tensor* status; /* optional */
  int32_t score;                 /* monotile_router_score */
  int32_t renormalise;
  float scale;
  int32_t groups; /* 1: no groups */
  int32_t kept_groups;
  int32_t group_sum; /* 1 or 2 */
} monotile_moe_router_args;
#define MONOTILE_MOE_ROUTER_ARGS_INIT \
  { sizeof(monotile_moe_router_args), NULL, NULL, NULL, NULL, NULL, 0, 0, 1.0f, 1, 1, 1 }
MONOTILE_API monotile_status monotile_moe_router(monotile_context* context, const monotile_moe_router_args* args);

typedef struct monotile_layer_norm_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* residual; /* optional: updated in place */
  const monotile_tensor* x;
  const monotile_tensor* gamma;
  const monotile_tensor* beta; /* optional */
  float eps;
  float gamma_offset;
} monotile_layer_norm_args;
#define MONOTILE_LAYER_NORM_ARGS_INIT \
  { sizeof(monotile_layer_norm_args), NULL, NULL, NULL, NULL, NULL, 1e-5f, 0.0f }
MONOTILE_API monotile_status monotile_layer_norm(monotile_context* context, const monotile_layer_norm_args* args);

typedef struct monotile_rms_norm_quantise_args {
  size_t size;
  const monotile_tensor* codes;
  const monotile_tensor* scales;
  const monotile_tensor* y;        /* optional */
  const monotile_tensor* residual; /* optional: updated in place */
  const monotile_tensor* x;
  const monotile_tensor* gamma;
  const monotile_tensor* beta; /* optional */
  float eps;
  float gamma_offset;
  int32_t given_scales; /* 1: scales are read */
} monotile_rms_norm_quantise_args;
#define MONOTILE_RMS_NORM_QUANTISE_ARGS_INIT \
  { sizeof(monotile_rms_norm_quantise_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1e-6f, 0.0f, 0 }
MONOTILE_API monotile_status monotile_rms_norm_quantise(monotile_context* context,
                                                        const monotile_rms_norm_quantise_args* args);

typedef struct monotile_quantise_args {
  size_t size;
  const monotile_tensor* codes;
  const monotile_tensor* scales;
  const monotile_tensor* zero_points; /* int4, optional */
  const monotile_tensor* x;           /* dequantise: the output */
  int64_t block_rows;                 /* 0: all rows */
  int64_t block_cols;                 /* 0: all columns */
  int32_t given_scales;               /* quantise: 1: scales are read */
} monotile_quantise_args;
#define MONOTILE_QUANTISE_ARGS_INIT \
  { sizeof(monotile_quantise_args), NULL, NULL, NULL, NULL, 1, 0, 0 }
MONOTILE_API monotile_status monotile_quantise(monotile_context* context, const monotile_quantise_args* args);
/* x = codes times scales; GGUF blocks without scales. */
MONOTILE_API monotile_status monotile_dequantise(monotile_context* context, const monotile_quantise_args* args);

typedef struct monotile_gated_quantise_args {
  size_t size;
  const monotile_tensor* codes;
  const monotile_tensor* scales;
  const monotile_tensor* gate;
  const monotile_tensor* up;
  int64_t block_cols;   /* 0: one scale a row */
  int32_t activation;   /* monotile_activation */
  int32_t given_scales; /* 1: scales are read */
} monotile_gated_quantise_args;
#define MONOTILE_GATED_QUANTISE_ARGS_INIT \
  { sizeof(monotile_gated_quantise_args), NULL, NULL, NULL, NULL, 0, 0, 0 }
MONOTILE_API monotile_status monotile_gated_quantise(monotile_context* context,
                                                     const monotile_gated_quantise_args* args);

typedef struct monotile_bias_activation_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* x;
  const monotile_tensor* bias;     /* optional */
  const monotile_tensor* residual; /* optional */
  int32_t activation;              /* monotile_activation */
} monotile_bias_activation_args;
#define MONOTILE_BIAS_ACTIVATION_ARGS_INIT \
  { sizeof(monotile_bias_activation_args), NULL, NULL, NULL, NULL, 0 }
MONOTILE_API monotile_status monotile_bias_activation(monotile_context* context,
                                                      const monotile_bias_activation_args* args);

typedef struct monotile_norm_rope_append_args {
  size_t size;
  const monotile_tensor* q_out;
  const monotile_tensor* k_out; /* optional */
  const monotile_tensor* q;
  const monotile_tensor* k;
  const monotile_tensor* v;
  const monotile_tensor* q_gamma; /* optional, with k_gamma */
  const monotile_tensor* k_gamma;
  const monotile_tensor* positions;
  const monotile_tensor* cos;
  const monotile_tensor* sin;
  const monotile_tensor* key_cache;
  const monotile_tensor* value_cache;
  const monotile_tensor* slots;
  const monotile_tensor* key_scale;   /* caches of codes */
  const monotile_tensor* value_scale; /* caches of codes */
  const monotile_tensor* status;      /* optional */
  float eps;
  float gamma_offset;
  int32_t rotary_dim; /* 0: head_dim */
  int32_t interleaved;
} monotile_norm_rope_append_args;
#define MONOTILE_NORM_ROPE_APPEND_ARGS_INIT                                                                         \
  {                                                                                                                 \
    sizeof(monotile_norm_rope_append_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL, 1e-6f, 0.0f, 0, 0                                                                   \
  }
MONOTILE_API monotile_status monotile_norm_rope_append(monotile_context* context,
                                                       const monotile_norm_rope_append_args* args);

typedef struct monotile_copy_blocks_args {
  size_t size;
  const monotile_tensor* key_cache;
  const monotile_tensor* value_cache; /* optional */
  const monotile_tensor* pairs;
  const monotile_tensor* status; /* optional */
} monotile_copy_blocks_args;
#define MONOTILE_COPY_BLOCKS_ARGS_INIT \
  { sizeof(monotile_copy_blocks_args), NULL, NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_copy_blocks(monotile_context* context, const monotile_copy_blocks_args* args);
/* Between caches on two devices; `pairs` in host memory. */
MONOTILE_API monotile_status monotile_swap_blocks(monotile_context* context, const monotile_tensor* to,
                                                  const monotile_tensor* from, const monotile_tensor* pairs);

typedef struct monotile_kv_gather_args {
  size_t size;
  const monotile_tensor* k_out;
  const monotile_tensor* v_out;
  const monotile_tensor* key_cache;
  const monotile_tensor* value_cache;
  const monotile_tensor* slots;
  const monotile_tensor* status;      /* optional */
  const monotile_tensor* key_scale;   /* caches of codes */
  const monotile_tensor* value_scale; /* caches of codes */
} monotile_kv_gather_args;
#define MONOTILE_KV_GATHER_ARGS_INIT \
  { sizeof(monotile_kv_gather_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_kv_gather(monotile_context* context, const monotile_kv_gather_args* args);

typedef struct monotile_gather_rows_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* x;
  const monotile_tensor* ids;
  const monotile_tensor* status; /* optional */
} monotile_gather_rows_args;
#define MONOTILE_GATHER_ROWS_ARGS_INIT \
  { sizeof(monotile_gather_rows_args), NULL, NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_gather_rows(monotile_context* context, const monotile_gather_rows_args* args);

/* Sorts (token, rank) pairs by expert. `sorted` holds monotile_moe_align_capacity entries or more. */
MONOTILE_API int64_t monotile_moe_align_capacity(int64_t pairs, int64_t experts, int64_t block);
typedef struct monotile_moe_align_args {
  size_t size;
  const monotile_tensor* sorted;
  const monotile_tensor* positions;
  const monotile_tensor* offsets;
  const monotile_tensor* counts;
  const monotile_tensor* block_experts; /* optional */
  const monotile_tensor* experts;
  int64_t block;
  int32_t first_expert;
} monotile_moe_align_args;
#define MONOTILE_MOE_ALIGN_ARGS_INIT \
  { sizeof(monotile_moe_align_args), NULL, NULL, NULL, NULL, NULL, NULL, 1, 0 }
MONOTILE_API monotile_status monotile_moe_align(monotile_context* context, const monotile_moe_align_args* args);

typedef struct monotile_moe_dispatch_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* x;
  const monotile_tensor* positions;
} monotile_moe_dispatch_args;
#define MONOTILE_MOE_DISPATCH_ARGS_INIT \
  { sizeof(monotile_moe_dispatch_args), NULL, NULL, NULL }
/* y[positions[t, j]] = x[t] */
MONOTILE_API monotile_status monotile_moe_dispatch(monotile_context* context, const monotile_moe_dispatch_args* args);

typedef struct monotile_moe_permute_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* x;
  const monotile_tensor* sorted;
  const monotile_tensor* end; /* optional */
  int64_t top_k;
} monotile_moe_permute_args;
#define MONOTILE_MOE_PERMUTE_ARGS_INIT \
  { sizeof(monotile_moe_permute_args), NULL, NULL, NULL, NULL, 1 }
/* y[i] = x[sorted[i] / top_k] */
MONOTILE_API monotile_status monotile_moe_permute(monotile_context* context, const monotile_moe_permute_args* args);

typedef struct monotile_moe_combine_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* x;
  const monotile_tensor* weights;
  const monotile_tensor* positions;
  const monotile_tensor* addend; /* optional, may be y */
} monotile_moe_combine_args;
#define MONOTILE_MOE_COMBINE_ARGS_INIT \
  { sizeof(monotile_moe_combine_args), NULL, NULL, NULL, NULL, NULL }
/* y[t] = addend[t] + sum over j of weights[t, j] * x[positions[t, j]] */
MONOTILE_API monotile_status monotile_moe_combine(monotile_context* context, const monotile_moe_combine_args* args);

typedef struct monotile_moe_route_args {
  size_t size;
  const monotile_moe_router_args* router;
  const monotile_moe_align_args* align; /* its `experts` must be null: the router's are meant */
  const monotile_tensor* y;             /* with x: optional */
  const monotile_tensor* x;
} monotile_moe_route_args;
#define MONOTILE_MOE_ROUTE_ARGS_INIT \
  { sizeof(monotile_moe_route_args), NULL, NULL, NULL, NULL }
/* moe_router, moe_align and moe_dispatch in one call. */
MONOTILE_API monotile_status monotile_moe_route(monotile_context* context, const monotile_moe_route_args* args);

typedef struct monotile_top_k_args {
  size_t size;
  const monotile_tensor* values;
  const monotile_tensor* ids;
  const monotile_tensor* logits;
  const monotile_tensor* status; /* optional */
} monotile_top_k_args;
#define MONOTILE_TOP_K_ARGS_INIT \
  { sizeof(monotile_top_k_args), NULL, NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_top_k(monotile_context* context, const monotile_top_k_args* args);

typedef struct monotile_penalties_args {
  size_t size;
  const monotile_tensor* logits;  /* changed in place */
  const monotile_tensor* history; /* this and all below: optional */
  const monotile_tensor* history_length;
  const monotile_tensor* prompt_length;
  const monotile_tensor* repetition;
  const monotile_tensor* presence;
  const monotile_tensor* frequency;
  const monotile_tensor* bias_ids; /* with bias */
  const monotile_tensor* bias;
} monotile_penalties_args;
#define MONOTILE_PENALTIES_ARGS_INIT \
  { sizeof(monotile_penalties_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_apply_penalties(monotile_context* context, const monotile_penalties_args* args);

typedef struct monotile_logprobs_args {
  size_t size;
  const monotile_tensor* logprobs; /* with tokens: optional */
  const monotile_tensor* tokens;
  const monotile_tensor* top_logprobs; /* with top_ids: optional */
  const monotile_tensor* top_ids;
  const monotile_tensor* logits;
  const monotile_tensor* status; /* optional */
} monotile_logprobs_args;
#define MONOTILE_LOGPROBS_ARGS_INIT \
  { sizeof(monotile_logprobs_args), NULL, NULL, NULL, NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_logprobs(monotile_context* context, const monotile_logprobs_args* args);

typedef struct monotile_verify_args {
  size_t size;
  const monotile_tensor* tokens;
  const monotile_tensor* accepted;
  const monotile_tensor* target_probs;
  const monotile_tensor* draft_probs; /* optional */
  const monotile_tensor* draft_tokens;
  const monotile_tensor* seeds;     /* optional */
  const monotile_tensor* positions; /* optional */
  const monotile_tensor* status;    /* optional */
} monotile_verify_args;
#define MONOTILE_VERIFY_ARGS_INIT \
  { sizeof(monotile_verify_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL }
MONOTILE_API monotile_status monotile_speculative_verify(monotile_context* context, const monotile_verify_args* args);

typedef struct monotile_mlp_args {
  size_t size;
  const monotile_tensor* y;
  const monotile_tensor* x;
  const monotile_tensor* gate;
  const monotile_tensor* up;
  const monotile_tensor* down;
  const monotile_tensor* gate_bias; /* this and the next two: optional */
  const monotile_tensor* up_bias;
  const monotile_tensor* down_bias;
  const monotile_tensor* residual; /* optional, may be y */
  const monotile_tensor* hidden;   /* scratch: [rows of x, rows of gate], dtype of x */
  const monotile_tensor* spare;    /* scratch of the same shape */
  int32_t activation;              /* monotile_activation, not identity */
  int32_t choose_cast;             /* nonzero: the suggested cast of each product; else the next member */
  int32_t cast;                    /* monotile_product_cast */
} monotile_mlp_args;
#define MONOTILE_MLP_ARGS_INIT \
  { sizeof(monotile_mlp_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 0 }
/* y = (activation(x gate^T + gate_bias) * (x up^T + up_bias)) down^T + down_bias + residual */
MONOTILE_API monotile_status monotile_mlp(monotile_context* context, const monotile_mlp_args* args);

#ifdef __cplusplus
}
#endif

#endif /* MONOTILE_C_API_H */
