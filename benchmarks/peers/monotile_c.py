"""The operators of libmonotile_c.so on torch tensors, by ctypes: what a Python user would call."""

import ctypes
import os

import torch

DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3, torch.int8: 5, torch.uint8: 6, torch.int32: 7, torch.int64: 8}
for code, name in ((9, "float8_e4m3fn"), (10, "float8_e5m2")):  # older versions of torch have none
    if hasattr(torch, name):
        DTYPES[getattr(torch, name)] = code
KINDS = {"cpu": 1, "cuda": 2}


class CTensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("kind", ctypes.c_int32), ("index", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("extents", ctypes.c_int64 * 8), ("strides", ctypes.c_int64 * 8)]


def _args(name, fields):
    return type(name, (ctypes.Structure,), {"_fields_": [("size", ctypes.c_size_t)] + fields})


def _tensors(*names):
    return [(name, ctypes.POINTER(CTensor)) for name in names]


RmsNormArgs = _args("RmsNormArgs", _tensors("y", "residual", "x", "gamma", "beta") + [("eps", ctypes.c_float), ("gamma_offset", ctypes.c_float)])
RopeArgs = _args("RopeArgs", _tensors("q_out", "k_out", "q", "k", "positions", "cos", "sin", "status") + [("rotary_dim", ctypes.c_int32), ("interleaved", ctypes.c_int32)])
ActivationArgs = _args("ActivationArgs", _tensors("y", "gate", "up") + [("activation", ctypes.c_int32)])
SoftmaxArgs = _args("SoftmaxArgs", _tensors("y", "x") + [("scale", ctypes.c_float), ("log", ctypes.c_int32)])
EmbeddingArgs = _args("EmbeddingArgs", _tensors("y", "table", "ids", "status") + [("scale", ctypes.c_float)])
GemmArgs = _args("GemmArgs", _tensors("c", "a", "b", "bias", "residual") + [("cast", ctypes.c_int32)] + _tensors("a_scale", "b_scale") + [("form", ctypes.c_int32)])
LayerNormArgs = _args("LayerNormArgs", RmsNormArgs._fields_[1:])
RmsNormQuantiseArgs = _args("RmsNormQuantiseArgs", _tensors("codes", "scales", "y", "residual", "x", "gamma", "beta") +
                            [("eps", ctypes.c_float), ("gamma_offset", ctypes.c_float), ("given_scales", ctypes.c_int32)])
QuantiseArgs = _args("QuantiseArgs", _tensors("codes", "scales", "zero_points", "x") +
                     [("block_rows", ctypes.c_int64), ("block_cols", ctypes.c_int64), ("given_scales", ctypes.c_int32)])
GatedQuantiseArgs = _args("GatedQuantiseArgs", _tensors("codes", "scales", "gate", "up") +
                          [("block_cols", ctypes.c_int64), ("activation", ctypes.c_int32), ("given_scales", ctypes.c_int32)])
BiasActivationArgs = _args("BiasActivationArgs", _tensors("y", "x", "bias", "residual") + [("activation", ctypes.c_int32)])
GatherRowsArgs = _args("GatherRowsArgs", _tensors("y", "x", "ids", "status"))
KvAppendArgs = _args("KvAppendArgs", _tensors("key_cache", "value_cache", "k", "v", "slots", "status", "key_scale", "value_scale"))
CopyBlocksArgs = _args("CopyBlocksArgs", _tensors("key_cache", "value_cache", "pairs", "status"))
RouterArgs = _args("RouterArgs", _tensors("weights", "experts", "logits", "bias", "status") +
                   [("score", ctypes.c_int32), ("renormalise", ctypes.c_int32), ("scale", ctypes.c_float), ("groups", ctypes.c_int32), ("kept_groups", ctypes.c_int32),
                    ("group_sum", ctypes.c_int32)])
DispatchArgs = _args("DispatchArgs", _tensors("y", "x", "positions"))
CombineArgs = _args("CombineArgs", _tensors("y", "x", "weights", "positions", "addend"))
TopKArgs = _args("TopKArgs", _tensors("values", "ids", "logits", "status"))
LogprobsArgs = _args("LogprobsArgs", _tensors("logprobs", "tokens", "top_logprobs", "top_ids", "logits", "status"))
SampleArgs = _args("SampleArgs", _tensors("ids", "logits", "temperature", "top_k", "top_p", "min_p", "seeds", "positions", "status") + [("penalties", ctypes.c_void_p)])
ArgmaxArgs = _args("ArgmaxArgs", _tensors("ids", "logits", "status"))
AttentionArgs = _args("AttentionArgs", _tensors("out", "q", "key_cache", "value_cache", "block_table", "kv_start", "q_start", "kv_length", "log_sum_exp", "status") +
                      [("scale", ctypes.c_float), ("softcap", ctypes.c_float), ("window", ctypes.c_int64), ("max_query", ctypes.c_int64),
                       ("max_kv_length", ctypes.c_int64), ("causal", ctypes.c_int32)] +
                      _tensors("prefix_length", "key_ranges", "alibi_slopes", "relative_bias", "sinks"))


class Monotile:
    """Calls on torch's current stream, or on the CPU. `call` prepares the argument struct once and returns a function that only issues."""

    def __init__(self, path, tier=None, device="cuda"):
        self.library = ctypes.CDLL(os.path.abspath(path))
        self.library.monotile_last_error.restype = ctypes.c_char_p
        self.library.monotile_context_last_implementation.restype = ctypes.c_char_p
        self.library.monotile_context_last_implementation.argtypes = [ctypes.c_void_p]
        self.tier = tier
        self.device = device
        self.contexts = {}

    def context(self):
        stream = torch.cuda.current_stream().cuda_stream if self.device == "cuda" else None
        if stream not in self.contexts:
            context = ctypes.c_void_p()
            if self.device == "cuda":
                self.check(self.library.monotile_context_create_on_stream(KINDS["cuda"], torch.cuda.current_device(), ctypes.c_void_p(stream), ctypes.byref(context)))
            else:
                self.check(self.library.monotile_context_create(KINDS["cpu"], 0, ctypes.byref(context)))
            self.check(self.library.monotile_context_reserve_workspace(context, ctypes.c_size_t(256 << 20)))
            if self.tier:
                self.check(self.library.monotile_context_set_tier(context, self.tier.encode()))
            self.contexts[stream] = context
        return self.contexts[stream]

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.library.monotile_last_error().decode())

    @staticmethod
    def tensor(t):
        c = CTensor(ctypes.sizeof(CTensor), t.data_ptr(), DTYPES[t.dtype], KINDS[t.device.type], t.device.index or 0, t.dim())
        for i in range(t.dim()):
            c.extents[i], c.strides[i] = t.shape[i], t.stride(i)
        return ctypes.pointer(c)

    def call(self, function, kind, **fields):
        args = kind(ctypes.sizeof(kind))
        keep = []
        for name, value in fields.items():
            if isinstance(value, torch.Tensor):
                keep.append(value)
                value = self.tensor(value)
            setattr(args, name, value)
        entry, reference = getattr(self.library, "monotile_" + function), ctypes.byref(args)

        def issue(_keep=(args, keep)):
            if entry(self.context(), reference) != 0:
                self.check(1)

        return issue

    def implementation(self):
        return self.library.monotile_context_last_implementation(self.context()).decode()
