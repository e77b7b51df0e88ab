"""llama.cpp as an oracle: a thin layer over the low-level interface of llama-cpp-python.

Everything that could make the oracle less plain is switched off: no flash attention, fp32 KV cache, no repacked weights,
no GPU. What cannot be switched off: llama.cpp rounds activations to the partner type of the weights before each matrix
product (8-bit blocks for quantised weights, fp16 for F16, bf16 for BF16) and looks GELU up in an fp16 table. For the
demo model the first of these moves the logits by 3 to 7 percent, so goldens are taken from an F32 copy of the same
weights (`write_f32_copy`), for which nothing is rounded.
"""

import ctypes
import hashlib
import os

import llama_cpp
import numpy as np

_GGML_TYPE_F32 = 0
_FLASH_ATTENTION_DISABLED = 0
_last_error = []


@llama_cpp.llama_log_callback
def _on_log(level, text, _):
    if level in (3, 4):  # warnings and errors; the rest would drown the output
        _last_error.append(text.decode(errors="replace").strip())


llama_cpp.llama_log_set(_on_log, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def library_versions():
    """Exact versions of the oracle, for the head of a golden file."""
    versions = {"llama-cpp-python": llama_cpp.__version__, "numpy": np.__version__}
    for name in ("ggml_version", "ggml_commit"):
        try:
            function = getattr(llama_cpp.llama_cpp._lib, name)
        except AttributeError:
            continue
        function.restype = ctypes.c_char_p
        versions[name] = function().decode()
    versions["system_info"] = llama_cpp.llama_print_system_info().decode().strip(" |")
    return versions


def _kv_overrides(overrides):
    """`overrides`: {metadata key: int or float}. The array ends with an empty key."""
    array = (llama_cpp.llama_model_kv_override * (len(overrides) + 1))()
    for entry, (key, value) in zip(array, overrides.items()):
        entry.key = key.encode()
        if isinstance(value, int):
            entry.tag = llama_cpp.LLAMA_KV_OVERRIDE_TYPE_INT
            entry.value.val_i64 = value
        else:
            entry.tag = llama_cpp.LLAMA_KV_OVERRIDE_TYPE_FLOAT
            entry.value.val_f64 = value
    return array


def quantize(source, target, file_type, tensor_type=None):
    """Rewrites `source` with llama.cpp's quantiser. `file_type` is a number of llama_ftype; with `tensor_type` (a number
    of ggml_type) every matrix, embeddings and output included, gets that type."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.nthread = 2
    params.ftype = file_type
    params.allow_requantize = True
    if tensor_type is not None:
        params.pure = True
        params.token_embedding_type = tensor_type
        params.output_tensor_type = tensor_type
    partial = f"{target}.tmp"
    if llama_cpp.llama_model_quantize(str(source).encode(), partial.encode(), ctypes.byref(params)) != 0:
        raise RuntimeError(f"llama.cpp cannot convert {source}: {' / '.join(_last_error[-3:])}")
    os.replace(partial, target)


def write_f32_copy(source, target):
    """Writes `source` with every tensor expanded to F32: the same weights, so no rounding of activations is needed."""
    quantize(source, target, 0)


class Oracle:
    """One loaded model with one context. `plain=False` keeps llama.cpp's own defaults, for speed comparisons."""

    def __init__(self, path, n_ctx=2048, threads=2, plain=True, overrides=None):
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        if plain:
            model_params.use_extra_bufts = False
        self._overrides = _kv_overrides(overrides or {})
        if overrides:
            model_params.kv_overrides = self._overrides
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), model_params)
        if not self.model:
            raise RuntimeError(f"llama.cpp cannot load {path}: {' / '.join(_last_error[-3:])}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_threads = threads
        params.n_threads_batch = threads
        if plain:
            params.flash_attn_type = _FLASH_ATTENTION_DISABLED
            params.type_k = _GGML_TYPE_F32
            params.type_v = _GGML_TYPE_F32
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError(f"llama.cpp cannot make a context: {' / '.join(_last_error[-3:])}")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.batch_size = params.n_batch

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def tokenize(self, text, add_bos, parse_special):
        data = text if isinstance(text, bytes) else text.encode()
        capacity = len(data) + 8
        tokens = (llama_cpp.llama_token * capacity)()
        count = llama_cpp.llama_tokenize(self.vocab, data, len(data), tokens, capacity, add_bos, parse_special)
        if count < 0:
            raise RuntimeError(f"tokenize needs {-count} tokens")
        return list(tokens[:count])

    def detokenize(self, ids, remove_special=False, unparse_special=True):
        """Bytes of the whole sequence; a leading space that the tokenizer put in is taken out again."""
        tokens = (llama_cpp.llama_token * max(len(ids), 1))(*ids)
        capacity = 64 + 64 * len(ids)
        buffer = ctypes.create_string_buffer(capacity)
        count = llama_cpp.llama_detokenize(self.vocab, tokens, len(ids), buffer, capacity, remove_special,
                                           unparse_special)
        if count < 0:
            raise RuntimeError(f"detokenize needs {-count} bytes")
        return buffer.raw[:count]

    def piece(self, token):
        buffer = ctypes.create_string_buffer(512)
        count = llama_cpp.llama_token_to_piece(self.vocab, token, buffer, 512, 0, True)
        return buffer.raw[:count]

    def reset(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def decode(self, ids):
        """Appends `ids` to the sequence; logits of the last one are then available."""
        for start in range(0, len(ids), self.batch_size):
            part = ids[start:start + self.batch_size]
            tokens = (llama_cpp.llama_token * len(part))(*part)
            status = llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(tokens, len(part)))
            if status != 0:
                raise RuntimeError(f"llama_decode returned {status}: {' / '.join(_last_error[-3:])}")

    def logits(self):
        """Logits after the last token, float32 [vocab_size], a copy."""
        pointer = llama_cpp.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(pointer, shape=(self.vocab_size,)).copy()

    def greedy(self, prompt_ids, steps):
        """Greedy continuation: a list of (best id, best logit, second id, second logit), one per step."""
        self.reset()
        self.decode(prompt_ids)
        result = []
        for step in range(steps):
            result.append(best_two(self.logits()))
            if step + 1 < steps:
                self.decode([result[-1][0]])
        return result

    def teacher_forced(self, prompt_ids, forced_ids):
        """Best two after the prompt and after each forced token but the last."""
        self.reset()
        self.decode(prompt_ids)
        result = []
        for index in range(len(forced_ids)):
            result.append(best_two(self.logits()))
            if index + 1 < len(forced_ids):
                self.decode([forced_ids[index]])
        return result

    def last_logits(self, prompt_ids):
        self.reset()
        self.decode(prompt_ids)
        return self.logits()


def best_two(logits):
    """(best id, its logit, second id, its logit); of equal logits the smaller id is the better."""
    best = int(np.argmax(logits))
    best_value = float(logits[best])
    logits[best] = -np.inf
    second = int(np.argmax(logits))
    second_value = float(logits[second])
    logits[best] = best_value
    return best, best_value, second, second_value


def apply_chat_template(name, messages, add_generation_prompt):
    """Renders with one of the templates that are built into llama.cpp, e.g. "gemma"."""
    array = (llama_cpp.llama_chat_message * len(messages))()
    keep = []
    for entry, message in zip(array, messages):
        keep += [message["role"].encode(), message["content"].encode()]
        entry.role, entry.content = keep[-2], keep[-1]
    capacity = 4096 + 2 * sum(len(data) for data in keep)
    buffer = ctypes.create_string_buffer(capacity)
    count = llama_cpp.llama_chat_apply_template(name.encode(), array, len(messages), add_generation_prompt, buffer,
                                                capacity)
    if count < 0 or count > capacity:
        raise RuntimeError(f"chat template '{name}' failed with {count}")
    return buffer.raw[:count].decode()
