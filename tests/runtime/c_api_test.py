"""The C interface through ctypes: layouts, every operator against plain Python, and refused calls.

Needs only the standard library. MONOTILE_C_LIBRARY is the path of the shared library.
"""

import ctypes as C
import math
import os
import random
import threading
import unittest

LIBRARY = C.CDLL(os.environ["MONOTILE_C_LIBRARY"])
OK, INVALID, UNSUPPORTED, OUT_OF_MEMORY, NOT_FOUND = 0, 1, 2, 3, 6
F32, I32, I64 = 1, 7, 8
CPU, CUDA, EMULATED = 1, 2, 5
NAN = float("nan")


class Tensor(C.Structure):
    _fields_ = [("size", C.c_size_t), ("data", C.c_void_p), ("dtype", C.c_int32), ("device_kind", C.c_int32),
                ("device_index", C.c_int32), ("rank", C.c_int32), ("extents", C.c_int64 * 8), ("strides", C.c_int64 * 8)]


class DeviceInfo(C.Structure):
    _fields_ = [("size", C.c_size_t), ("kind", C.c_int32), ("index", C.c_int32), ("name", C.c_char_p),
                ("architecture", C.c_char_p), ("path", C.c_char_p), ("driver", C.c_char_p), ("units", C.c_int32),
                ("wave", C.c_int32), ("memory_bytes", C.c_uint64), ("l2_bytes", C.c_uint64), ("shared_bytes", C.c_uint64)]


def args_type(name, tensors, rest=()):
    fields = [("size", C.c_size_t)] + [(t, C.POINTER(Tensor)) for t in tensors.split()] + list(rest)
    return type(name, (C.Structure,), {"_fields_": fields})


f32, i32, i64 = C.c_float, C.c_int32, C.c_int64
RmsNorm = args_type("RmsNorm", "y residual x gamma beta", [("eps", f32), ("gamma_offset", f32)])
Rope = args_type("Rope", "q_out k_out q k positions cos sin status", [("rotary_dim", i32), ("interleaved", i32)])
Gated = args_type("Gated", "y gate up", [("activation", i32)])
Softmax = args_type("Softmax", "y x", [("scale", f32), ("log", i32), ("mask", C.POINTER(Tensor))])
Embedding = args_type("Embedding", "y table ids status", [("scale", f32)])
KvAppend = args_type("KvAppend", "key_cache value_cache k v slots status key_scale value_scale")
Quantise = args_type("Quantise", "codes scales zero_points x", [("block_rows", i64), ("block_cols", i64), ("given_scales", i32)])
LayerNorm = args_type("LayerNorm", "y residual x gamma beta", [("eps", f32), ("gamma_offset", f32)])
GatherRows = args_type("GatherRows", "y x ids status")
Attention = args_type("Attention", "out q key_cache value_cache block_table kv_start q_start kv_length log_sum_exp status",
                      [("scale", f32), ("softcap", f32), ("window", i64), ("max_query", i64), ("max_kv_length", i64), ("causal", i32)])
# With the members that came later; callers that were compiled before them give the smaller size.
AttentionScores = args_type("AttentionScores", "out q key_cache value_cache block_table kv_start q_start kv_length log_sum_exp status",
                            Attention._fields_[11:] + [(name, C.POINTER(Tensor)) for name in
                                                       ("prefix_length", "key_ranges", "alibi_slopes", "relative_bias", "sinks")])
AttentionTree = type("AttentionTree", (C.Structure,), {"_fields_": [*AttentionScores._fields_, ("tree_mask", C.POINTER(Tensor))]})
MergeStates = args_type("MergeStates", "out a b log_sum_exp_a log_sum_exp_b log_sum_exp")
Gemm = args_type("Gemm", "c a b bias residual", [("cast", i32)])
# With the members that came later.
GemmEpilogue = args_type("GemmEpilogue", "c a b bias residual", [("cast", i32), ("a_scale", C.POINTER(Tensor)), ("b_scale", C.POINTER(Tensor)), ("form", i32),
                                                                 ("gate", C.POINTER(Tensor)), ("epilogue", i32)])
Mlp = args_type("Mlp", "y x gate up down gate_bias up_bias down_bias residual hidden spare", [("activation", i32), ("choose_cast", i32), ("cast", i32)])
Argmax = args_type("Argmax", "ids logits status")
Penalties = args_type("Penalties", "logits history history_length prompt_length repetition presence frequency bias_ids bias")
Sample = args_type("Sample", "ids logits temperature top_k top_p min_p seeds positions status", [("penalties", C.POINTER(Penalties))])
Router = args_type("Router", "weights experts logits bias status",
                   [("score", i32), ("renormalise", i32), ("scale", f32), ("groups", i32), ("kept_groups", i32), ("group_sum", i32)])
Align = args_type("Align", "sorted positions offsets counts block_experts experts", [("block", i64), ("first_expert", i32)])
Dispatch = args_type("Dispatch", "y x positions")
Permute = args_type("Permute", "y x sorted end", [("top_k", i64)])
Combine = args_type("Combine", "y x weights positions addend")
Route = args_type("Route", "", [("router", C.POINTER(Router)), ("align", C.POINTER(Align)), ("y", C.POINTER(Tensor)), ("x", C.POINTER(Tensor))])
TopK = args_type("TopK", "values ids logits status")
Logprobs = args_type("Logprobs", "logprobs tokens top_logprobs top_ids logits status")
Verify = args_type("Verify", "tokens accepted target_probs draft_probs draft_tokens seeds positions status")


class RopeTable(C.Structure):
    _fields_ = [("size", C.c_size_t), ("cos", C.POINTER(f32)), ("sin", C.POINTER(f32)), ("max_position", i64), ("rotary_dim", i32),
                ("scaling", i32), ("base", C.c_double), ("factor", C.c_double), ("low_freq_factor", C.c_double),
                ("high_freq_factor", C.c_double), ("original_context", C.c_double), ("frequency_divisors", C.POINTER(f32))]


for function in ("version", "last_error", "status_name", "absent_backends", "context_last_implementation"):
    getattr(LIBRARY, "monotile_" + function).restype = C.c_char_p
LIBRARY.monotile_context_last_implementation.argtypes = [C.c_void_p]
LIBRARY.monotile_context_destroy.argtypes = [C.c_void_p]
LIBRARY.monotile_buffer_data.argtypes = [C.c_void_p]
LIBRARY.monotile_buffer_data.restype = C.c_void_p
LIBRARY.monotile_buffer_bytes.argtypes = [C.c_void_p]
LIBRARY.monotile_buffer_bytes.restype = C.c_size_t
LIBRARY.monotile_buffer_destroy.argtypes = [C.c_void_p]
LIBRARY.monotile_buffer_create.argtypes = [i32, i32, C.c_size_t, C.POINTER(C.c_void_p)]
for function in ("copy_to_device", "copy_to_host", "copy_on_device"):
    getattr(LIBRARY, "monotile_" + function).argtypes = [C.c_void_p, C.c_void_p, C.c_void_p, C.c_size_t]
LIBRARY.monotile_fill_bytes.argtypes = [C.c_void_p, C.c_void_p, i32, C.c_size_t]
LIBRARY.monotile_synchronize.argtypes = [C.c_void_p]
LIBRARY.monotile_context_set_tier.argtypes = [C.c_void_p, C.c_char_p]
LIBRARY.monotile_context_reserve_workspace.argtypes = [C.c_void_p, C.c_size_t]
LIBRARY.monotile_storage_bytes.argtypes = [i32, i64, C.POINTER(i64)]


def last_error():
    return LIBRARY.monotile_last_error().decode()


class Array:
    """Host memory and its packed view."""

    def __init__(self, values, extents, dtype=F32, device=(CPU, 0)):
        kind = {F32: f32, I32: i32, I64: i64}[dtype]
        self.memory = (kind * max(len(values), 1))(*values)
        self.tensor = Tensor(size=C.sizeof(Tensor), data=C.addressof(self.memory), dtype=dtype, device_kind=device[0],
                             device_index=device[1], rank=len(extents))
        step = 1
        for axis in reversed(range(len(extents))):
            self.tensor.extents[axis], self.tensor.strides[axis] = extents[axis], step
            step *= extents[axis]

    def list(self):
        return list(self.memory)


class Operators(unittest.TestCase):
    """Every operator on the CPU; subclasses take other devices."""

    device = (CPU, 0)

    def setUp(self):
        self.context = C.c_void_p()
        status = LIBRARY.monotile_context_create(*self.device, C.byref(self.context))
        self.assertEqual(status, OK, last_error())
        self.random = random.Random(7)

    def tearDown(self):
        LIBRARY.monotile_context_destroy(self.context)

    def array(self, values, extents, dtype=F32):
        return Array(values, extents, dtype, self.device)

    def uniform(self, *extents):
        return self.array([self.random.uniform(-2, 2) for _ in range(math.prod(extents))], extents)

    def output(self, *extents, dtype=F32):
        return self.array([NAN if dtype == F32 else -77] * math.prod(extents), extents, dtype)

    def run_operator(self, name, kind, **given):
        members = {k: C.pointer(v.tensor) if isinstance(v, Array) else v for k, v in given.items()}
        args = kind(size=C.sizeof(kind), **members)
        return getattr(LIBRARY, "monotile_" + name)(self.context, C.byref(args))

    def ok(self, name, kind, **given):
        self.assertEqual(self.run_operator(name, kind, **given), OK, last_error())
        self.assertEqual(LIBRARY.monotile_synchronize(self.context), OK, last_error())
        self.assertNotEqual(LIBRARY.monotile_context_last_implementation(self.context), b"")

    def refused(self, status, fragments, name, kind, **given):
        self.assertEqual(self.run_operator(name, kind, **given), status)
        for fragment in fragments:
            self.assertIn(fragment, last_error())

    def close(self, got, expected, tolerance=1e-5):
        self.assertEqual(len(got), len(expected))
        for i, (a, b) in enumerate(zip(got, expected)):
            self.assertLessEqual(abs(a - b), tolerance * (1 + abs(b)), f"element {i}: {a}, expected {b}")  # false for NaN

    def test_rms_norm(self):
        rows, cols, eps = 3, 37, 1e-3
        x, residual, gamma, beta, y = self.uniform(rows, cols), self.uniform(rows, cols), self.uniform(cols), self.uniform(cols), self.output(rows, cols)

        def expected(h):
            result = []
            for r in range(rows):
                row = h[r * cols:(r + 1) * cols]
                inverse = 1 / math.sqrt(sum(v * v for v in row) / cols + eps)
                result += [v * inverse * (g + 1) + b for v, g, b in zip(row, gamma.list(), beta.list())]
            return result

        self.ok("rms_norm", RmsNorm, y=y, x=x, gamma=gamma, beta=beta, eps=eps, gamma_offset=1)
        self.close(y.list(), expected(x.list()))
        total = [a + b for a, b in zip(x.list(), residual.list())]
        self.ok("add_rms_norm", RmsNorm, y=y, residual=residual, x=x, gamma=gamma, beta=beta, eps=eps, gamma_offset=1)
        self.close(residual.list(), total, 1e-6)
        self.close(y.list(), expected(total))

    def test_rope(self):
        tokens, heads, dim, positions = 3, 2, 8, [0, 5, 2]
        cos, sin = self.output(6, dim // 2), self.output(6, dim // 2)
        table = RopeTable(size=C.sizeof(RopeTable), cos=cos.memory, sin=sin.memory, max_position=6, rotary_dim=dim, base=1000.0, factor=1.0,
                          low_freq_factor=1.0, high_freq_factor=4.0, original_context=8192.0)
        self.assertEqual(LIBRARY.monotile_rope_table(C.byref(table)), OK, last_error())
        self.close(cos.list(), [math.cos(p * 1000.0 ** (-2 * i / dim)) for p in range(6) for i in range(dim // 2)], 1e-6)
        q, out = self.uniform(tokens, heads, dim), self.output(tokens, heads, dim)
        self.ok("rope", Rope, q_out=out, q=q, positions=self.array(positions, [tokens], I32), cos=cos, sin=sin)
        expected, half, v = [0.0] * len(q.list()), dim // 2, q.list()
        for t in range(tokens):
            for h in range(heads):
                for i in range(half):
                    at, angle = (t * heads + h) * dim + i, positions[t] * 1000.0 ** (-2 * i / dim)
                    expected[at] = v[at] * math.cos(angle) - v[at + half] * math.sin(angle)
                    expected[at + half] = v[at + half] * math.cos(angle) + v[at] * math.sin(angle)
        self.close(out.list(), expected)

    def test_rope_table_refuses(self):
        table = RopeTable(size=C.sizeof(RopeTable), max_position=6, rotary_dim=8, base=1000.0, factor=1.0)
        self.assertEqual(LIBRARY.monotile_rope_table(C.byref(table)), INVALID)
        self.assertIn("cos", last_error())

    def test_gated_activation(self):
        gate, up = self.uniform(2, 19), self.uniform(2, 19)
        acts = [lambda g: g / (1 + math.exp(-g)),
                lambda g: 0.5 * g * (1 + math.tanh(math.sqrt(2 / math.pi) * (g + 0.044715 * g ** 3))),
                lambda g: 0.5 * g * (1 + math.erf(g / math.sqrt(2)))]
        for activation, act in enumerate(acts):
            y = self.output(2, 19)
            self.ok("gated_activation", Gated, y=y, gate=gate, up=up, activation=activation)
            self.close(y.list(), [act(g) * u for g, u in zip(gate.list(), up.list())])
        self.refused(INVALID, ["gated_activation", "activation: 4"], "gated_activation", Gated, y=y, gate=gate, up=up, activation=4)

    def test_softmax(self):
        x, y = self.uniform(3, 11), self.output(3, 11)
        for log in (0, 1):
            self.ok("softmax", Softmax, y=y, x=x, scale=0.5, log=log)
            expected = []
            for r in range(3):
                row = [math.exp(0.5 * v) for v in x.list()[r * 11:(r + 1) * 11]]
                expected += [math.log(v / sum(row)) if log else v / sum(row) for v in row]
            self.close(y.list(), expected)

    def test_callers_of_the_first_version(self):
        class First(C.Structure):
            _fields_ = Softmax._fields_[:-1]

        x, y = self.uniform(1, 4), self.output(1, 4)
        args = First(size=C.sizeof(First), y=C.pointer(y.tensor), x=C.pointer(x.tensor), scale=1.0)
        self.assertEqual(LIBRARY.monotile_softmax(self.context, C.byref(args)), OK, last_error())
        self.assertAlmostEqual(sum(y.list()), 1.0, 5)

    def test_quantise_and_back(self):
        x, y = self.uniform(3, 64), self.output(3, 64)
        codes, scales = self.array([0] * (3 * 64 // 4), [3 * 64 // 4], I32), self.output(3, 1)
        codes.tensor.dtype, codes.tensor.rank = 5, 2  # the same bytes as int8 [3, 64]
        codes.tensor.extents[0], codes.tensor.extents[1], codes.tensor.strides[0], codes.tensor.strides[1] = 3, 64, 64, 1
        self.ok("quantise", Quantise, codes=codes, scales=scales, x=x, block_rows=1)
        self.ok("dequantise", Quantise, codes=codes, scales=scales, x=y, block_rows=1)
        for r in range(3):
            row = x.list()[r * 64:(r + 1) * 64]
            scale = max(abs(v) for v in row) / 127
            self.assertAlmostEqual(scales.list()[r], scale, 6)
            for a, b in zip(row, y.list()[r * 64:(r + 1) * 64]):
                self.assertLessEqual(abs(a - b), scale * 0.501)

    def test_layer_norm_and_gather_rows(self):
        x, y, gamma, rows = self.uniform(3, 8), self.output(3, 8), self.uniform(8), self.output(2, 8)
        self.ok("layer_norm", LayerNorm, y=y, x=x, gamma=gamma, eps=1e-5)
        expected = []
        for r in range(3):
            row = x.list()[r * 8:(r + 1) * 8]
            mean = sum(row) / 8
            scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / 8 + 1e-5)
            expected += [(v - mean) * scale * g for v, g in zip(row, gamma.list())]
        self.close(y.list(), expected)
        self.ok("gather_rows", GatherRows, y=rows, x=x, ids=self.array([2, 0], [2], I32))
        self.assertEqual(rows.list(), x.list()[16:24] + x.list()[:8])

    def test_embedding(self):
        table, y = self.uniform(5, 7), self.output(3, 7)
        self.ok("embedding", Embedding, y=y, table=table, ids=self.array([4, 0, 3], [3], I64), scale=2.0)
        self.close(y.list(), [2 * v for i in (4, 0, 3) for v in table.list()[i * 7:(i + 1) * 7]], 1e-6)

    def test_gemm(self):
        m, n, k = 3, 5, 17
        a, b, bias, c = self.uniform(m, k), self.uniform(n, k), self.uniform(n), self.output(m, n)
        self.ok("gemm", Gemm, c=c, a=a, b=b, bias=bias)
        self.close(c.list(), [sum(a.list()[i * k + t] * b.list()[j * k + t] for t in range(k)) + bias.list()[j] for i in range(m) for j in range(n)])

    def test_gemm_with_a_gate_and_mlp(self):
        m, f, n, k = 3, 6, 5, 17
        x, gate, up, down, residual = self.uniform(m, k), self.uniform(f, k), self.uniform(f, k), self.uniform(n, f), self.uniform(m, n)
        silu = lambda v: v / (1 + math.exp(-v))
        dot = lambda a, i, b, j, d: sum(a.list()[i * d + t] * b.list()[j * d + t] for t in range(d))
        hidden, spare, y = self.output(m, f), self.output(m, f), self.output(m, n)
        gates = [dot(x, i, gate, j, k) for i in range(m) for j in range(f)]
        products = [silu(gates[i * f + j]) * dot(x, i, up, j, k) for i in range(m) for j in range(f)]
        g = self.array(gates, [m, f])
        c = self.output(m, f)
        self.ok("gemm", GemmEpilogue, c=c, a=x, b=up, gate=g, epilogue=1)
        self.close(c.list(), products, 1e-5)
        self.ok("mlp", Mlp, y=y, x=x, gate=gate, up=up, down=down, residual=residual, hidden=hidden, spare=spare)
        wanted = [sum(products[i * f + t] * down.list()[j * f + t] for t in range(f)) + residual.list()[i * n + j] for i in range(m) for j in range(n)]
        self.close(y.list(), wanted, 1e-4)

    def test_kv_append_and_attention(self):
        tokens, heads, dim, page = 5, 2, 8, 4
        k, v, q = self.uniform(tokens, 1, dim), self.uniform(tokens, 1, dim), self.uniform(1, heads, dim)
        keys, values, out, lse = self.output(3, 1, page, dim), self.output(3, 1, page, dim), self.output(1, heads, dim), self.output(1, heads)
        table = [2, 0]
        slots = [table[t // page] * page + t % page for t in range(tokens)]
        self.ok("kv_append", KvAppend, key_cache=keys, value_cache=values, k=k, v=v, slots=self.array(slots, [tokens], I32))
        self.close(keys.list()[8 * dim:12 * dim], k.list()[:4 * dim], 0)
        self.assertTrue(math.isnan(keys.list()[1 * dim]))
        self.ok("attention", Attention, out=out, q=q, key_cache=keys, value_cache=values, block_table=self.array(table, [1, 2], I32),
                q_start=self.array([0, 1], [2], I32), kv_length=self.array([tokens], [1], I32), log_sum_exp=lse, max_query=1, causal=1)
        expected, expected_lse = [], []
        for h in range(heads):
            scores = [sum(q.list()[h * dim + d] * k.list()[t * dim + d] for d in range(dim)) / math.sqrt(dim) for t in range(tokens)]
            weights = [math.exp(s) for s in scores]
            expected += [sum(w * v.list()[t * dim + d] for t, w in enumerate(weights)) / sum(weights) for d in range(dim)]
            expected_lse.append(math.log(sum(weights)))
        self.close(out.list(), expected)
        self.close(lse.list(), expected_lse)

    def test_merge_states(self):
        tokens, heads, dim = 2, 2, 8
        a, b, out = self.uniform(tokens, heads, dim), self.uniform(tokens, heads, dim), self.output(tokens, heads, dim)
        lse_a, lse_b, lse = self.uniform(tokens, heads), self.uniform(tokens, heads), self.output(tokens, heads)
        self.ok("merge_states", MergeStates, out=out, a=a, b=b, log_sum_exp_a=lse_a, log_sum_exp_b=lse_b, log_sum_exp=lse)
        weights = [(math.exp(x), math.exp(y)) for x, y in zip(lse_a.list(), lse_b.list())]
        self.close(lse.list(), [math.log(u + v) for u, v in weights])
        self.close(out.list(), [(u * a.list()[r * dim + d] + v * b.list()[r * dim + d]) / (u + v) for r, (u, v) in enumerate(weights) for d in range(dim)])

    def test_attention_of_drafted_tokens(self):
        if self.device[0] != CPU:
            self.skipTest("needs 16-bit queries on GPUs")
        tokens, dim, drafts = 6, 8, 3
        k, v, q = self.uniform(tokens, 1, dim), self.uniform(tokens, 1, dim), self.uniform(drafts, 1, dim)
        out = self.output(drafts, 1, dim)
        self.ok("attention", AttentionTree, out=out, q=q, key_cache=k, value_cache=v, kv_start=self.array([0], [1], I32),
                q_start=self.array([0, drafts], [2], I32), kv_length=self.array([tokens], [1], I32), max_query=drafts, causal=1,
                tree_mask=self.array([0, 1, 1], [drafts, 1], I32))
        expected = []
        for i in range(drafts):
            seen = {0, 1, 2, 3, 3 + i}
            weights = {t: math.exp(sum(q.list()[i * dim + d] * k.list()[t * dim + d] for d in range(dim)) / math.sqrt(dim)) for t in seen}
            expected += [sum(w * v.list()[t * dim + d] for t, w in weights.items()) / sum(weights.values()) for d in range(dim)]
        self.close(out.list(), expected)

    def test_attention_with_changed_scores(self):
        if self.device[0] != CPU:
            self.skipTest("needs 16-bit queries on GPUs")
        tokens, heads, dim = 6, 2, 8
        k, v, q = self.uniform(tokens, 1, dim), self.uniform(tokens, 1, dim), self.uniform(1, heads, dim)
        slopes, sinks, bias = [-0.5, 0.25], [0.3, -1.0], [[0.1, -0.2, 0.3], [0.4, 0.5, -0.6]]
        out, lse = self.output(1, heads, dim), self.output(1, heads)
        ranges = self.array([n for _ in range(tokens) for n in (1, tokens)], [1, tokens, 2], I32)
        self.ok("attention", AttentionScores, out=out, q=q, key_cache=k, value_cache=v, kv_start=self.array([0], [1], I32),
                q_start=self.array([0, 1], [2], I32), kv_length=self.array([tokens], [1], I32), log_sum_exp=lse, max_query=1, causal=1,
                alibi_slopes=self.array(slopes, [heads]), sinks=self.array(sinks, [heads]), relative_bias=self.array(sum(bias, []), [heads, 3]),
                key_ranges=ranges, prefix_length=self.array([0], [1], I32))
        expected, expected_lse = [], []
        for h in range(heads):
            weights = {}
            for t in range(1, tokens):
                distance = t - (tokens - 1)
                score = sum(q.list()[h * dim + d] * k.list()[t * dim + d] for d in range(dim)) / math.sqrt(dim)
                weights[t] = math.exp(score + slopes[h] * distance + bias[h][max(-1, min(1, distance)) + 1])
            total = sum(weights.values()) + math.exp(sinks[h])
            expected += [sum(w * v.list()[t * dim + d] for t, w in weights.items()) / total for d in range(dim)]
            expected_lse.append(math.log(total))
        self.close(out.list(), expected)
        self.close(lse.list(), expected_lse)

    def test_argmax_and_sample(self):
        logits = self.array([0.0, 3.0, NAN, 3.0] + [NAN] * 4 + [-1.0, -2.0, 5.0, 4.5], [3, 4])
        ids, status = self.output(3, dtype=I32), self.output(3, dtype=I32)
        self.ok("argmax", Argmax, ids=ids, logits=logits, status=status)
        self.assertEqual(ids.list(), [1, 0, 2])
        self.assertEqual(status.list(), [0, 2, 0])
        logits = self.uniform(2, 9)
        seeds, positions = self.array([1, 2], [2], I64), self.array([10, 11], [2], I64)
        draws = []
        for _ in range(2):
            ids = self.output(2, dtype=I32)
            self.ok("sample", Sample, ids=ids, logits=logits, temperature=self.array([1.0, 0.0], [2]), seeds=seeds, positions=positions)
            draws.append(ids.list())
        self.assertEqual(draws[0], draws[1])
        self.assertTrue(0 <= draws[0][0] < 9)
        second = logits.list()[9:]
        self.assertEqual(draws[0][1], second.index(max(second)))

    def test_moe_router(self):
        logits = self.array([0.0, 1.0, 3.0, 2.0, NAN, 1.0, 1.0, 1.0], [2, 4])
        weights, experts, status = self.output(2, 2), self.output(2, 2, dtype=I32), self.output(2, dtype=I32)
        self.ok("moe_router", Router, weights=weights, experts=experts, logits=logits, status=status, renormalise=1, scale=2.0, groups=1,
                kept_groups=1, group_sum=1)
        self.assertEqual(experts.list(), [2, 3, 0, 1])
        self.assertEqual(status.list(), [0, 3])
        e = math.exp(-1.0)
        self.close(weights.list(), [2 / (1 + e), 2 * e / (1 + e), 1.0, 1.0])
        self.refused(INVALID, ["moe_router", "group_sum"], "moe_router", Router, weights=weights, experts=experts, logits=logits, groups=1)

    def test_moe_align_dispatch_permute_and_combine(self):
        LIBRARY.monotile_moe_align_capacity.restype = i64
        capacity = LIBRARY.monotile_moe_align_capacity(i64(4), i64(3), i64(2))
        self.assertEqual(capacity, 6)
        experts = self.array([2, 0, 2, 2], [2, 2], I32)
        sorted_, positions = self.output(capacity, dtype=I32), self.output(2, 2, dtype=I32)
        offsets, counts = self.output(4, dtype=I32), self.output(3, dtype=I32)
        self.ok("moe_align", Align, sorted=sorted_, positions=positions, offsets=offsets, counts=counts, experts=experts, block=2)
        self.assertEqual(sorted_.list(), [1, 4, 0, 2, 3, 4])
        self.assertEqual(positions.list(), [2, 0, 3, 4])
        self.assertEqual(offsets.list(), [0, 2, 2, 6])
        self.assertEqual(counts.list(), [1, 0, 3])
        x, y, back = self.array([1.0, 2.0, 3.0, 4.0], [2, 2]), self.output(capacity, 2), self.output(2, 2)
        self.ok("moe_permute", Permute, y=y, x=x, sorted=sorted_, top_k=2)
        self.assertEqual(y.list(), [1.0, 2.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0, 0.0, 0.0])
        self.ok("moe_dispatch", Dispatch, y=y, x=x, positions=positions)
        self.ok("moe_combine", Combine, y=back, x=y, weights=self.array([0.5, 0.25, 1.0, 2.0], [2, 2]), positions=positions)
        self.assertEqual(back.list(), [0.75, 1.5, 9.0, 12.0])

    def test_moe_route(self):
        logits, x = self.array([0.0, 1.0, 3.0, 2.0, 0.0, 0.0], [2, 3]), self.array([1.0, 2.0], [2, 1])
        weights, experts, positions = self.output(2, 1), self.output(2, 1, dtype=I32), self.output(2, 1, dtype=I32)
        sorted_, offsets, counts, y = self.output(2, dtype=I32), self.output(4, dtype=I32), self.output(3, dtype=I32), self.output(2, 1)
        router = Router(size=C.sizeof(Router), weights=C.pointer(weights.tensor), experts=C.pointer(experts.tensor),
                        logits=C.pointer(logits.tensor), renormalise=1, scale=1.0, groups=1, kept_groups=1, group_sum=1)
        align = Align(size=C.sizeof(Align), sorted=C.pointer(sorted_.tensor), positions=C.pointer(positions.tensor),
                      offsets=C.pointer(offsets.tensor), counts=C.pointer(counts.tensor), block=1)
        self.ok("moe_route", Route, router=C.pointer(router), align=C.pointer(align), y=y, x=x)
        self.assertEqual(experts.list() + positions.list() + y.list(), [2, 0, 1, 0, 2.0, 1.0])

    def test_top_k_logprobs_and_penalties(self):
        logits = self.array([1.0, 4.0, 4.0, 2.0], [1, 4])
        values, ids = self.output(1, 3), self.output(1, 3, dtype=I32)
        self.ok("top_k", TopK, values=values, ids=ids, logits=logits)
        self.assertEqual(values.list(), [4.0, 4.0, 2.0])
        self.assertEqual(ids.list(), [1, 2, 3])
        scores, tokens = self.output(1, 2), self.array([0, 9], [1, 2], I32)
        self.ok("logprobs", Logprobs, logprobs=scores, tokens=tokens, logits=logits)
        self.close(scores.list()[:1], [1.0 - math.log(sum(math.exp(v) for v in (1, 4, 4, 2)))])
        self.assertEqual(scores.list()[1], -math.inf)
        history, repetition = self.array([1], [1, 1], I32), self.array([2.0], [1])
        penalties = Penalties(size=C.sizeof(Penalties), history=C.pointer(history.tensor), repetition=C.pointer(repetition.tensor))
        ids = self.output(1, dtype=I32)
        self.ok("sample", Sample, ids=ids, logits=logits, temperature=self.array([0.0], [1]), penalties=C.pointer(penalties))
        self.assertEqual(ids.list(), [2])
        self.assertEqual(logits.list(), [1.0, 2.0, 4.0, 2.0])
        self.ok("apply_penalties", Penalties, logits=logits, history=history, repetition=repetition)
        self.assertEqual(logits.list(), [1.0, 1.0, 4.0, 2.0])

    def test_speculative_verify(self):
        target = self.array([0.0, 1.0, 0.0, 0.0, 0.0, 1.0], [1, 2, 3])
        tokens, accepted = self.output(1, 2, dtype=I32), self.output(1, dtype=I32)
        self.ok("speculative_verify", Verify, tokens=tokens, accepted=accepted, target_probs=target, draft_tokens=self.array([1], [1, 1], I32))
        self.assertEqual(tokens.list() + accepted.list(), [1, 2, 1])
        self.ok("speculative_verify", Verify, tokens=tokens, accepted=accepted, target_probs=target, draft_tokens=self.array([0], [1, 1], I32))
        self.assertEqual(tokens.list() + accepted.list(), [1, -1, 0])

    def test_refused_calls_name_operator_and_argument(self):
        x, gamma, y = self.uniform(2, 4), self.uniform(5), self.output(2, 4)
        self.refused(INVALID, ["rms_norm", "gamma", "allowed"], "rms_norm", RmsNorm, y=y, x=x, gamma=gamma, eps=1e-6)
        self.refused(INVALID, ["rms_norm", "residual"], "rms_norm", RmsNorm, y=y, x=x, residual=x, gamma=gamma, eps=1e-6)
        self.refused(INVALID, ["add_rms_norm", "residual: null"], "add_rms_norm", RmsNorm, y=y, x=x, gamma=gamma, eps=1e-6)
        self.assertTrue(all(math.isnan(v) for v in y.list()))
        for member, value, fragment in (("rank", 9, "rank"), ("rank", 0, "rank"), ("dtype", 99, "dtype"), ("dtype", 0, "dtype"), ("size", 8, "size"),
                                        ("size", 0, "size"), ("size", 1 << 40, "size"), ("device_kind", 77, "device kind"), ("data", None, "null")):
            bad = self.uniform(2, 4)
            setattr(bad.tensor, member, value)
            self.refused(INVALID, ["softmax", "x", fragment], "softmax", Softmax, y=y, x=bad, scale=1.0)
        bad = self.uniform(2, 4)
        bad.tensor.extents[0] = -1
        self.refused(INVALID, ["softmax", "-1"], "softmax", Softmax, y=y, x=bad, scale=1.0)
        self.assertEqual(LIBRARY.monotile_softmax(self.context, None), INVALID)
        self.assertEqual(LIBRARY.monotile_softmax(None, C.byref(Softmax(size=C.sizeof(Softmax)))), INVALID)

    def test_newer_callers(self):
        class Newer(C.Structure):
            _fields_ = Softmax._fields_ + [("future", C.c_int64)]

        x, y = self.uniform(1, 4), self.output(1, 4)
        args = Newer(size=C.sizeof(Newer), y=C.pointer(y.tensor), x=C.pointer(x.tensor), scale=1.0)
        self.assertEqual(LIBRARY.monotile_softmax(self.context, C.byref(args)), OK, last_error())
        args.future = 1
        self.assertEqual(LIBRARY.monotile_softmax(self.context, C.byref(args)), UNSUPPORTED)
        self.assertIn("ABI version", last_error())

    def test_tiers(self):
        x, y = self.uniform(1, 4), self.output(1, 4)
        self.assertEqual(LIBRARY.monotile_context_set_tier(self.context, b"reference"), OK)
        self.ok("softmax", Softmax, y=y, x=x, scale=1.0)
        self.assertIn(b"reference", LIBRARY.monotile_context_last_implementation(self.context))
        self.assertEqual(LIBRARY.monotile_context_set_tier(self.context, b"best"), INVALID)
        self.assertIn('"best"', last_error())

    def test_memory(self):
        buffer = C.c_void_p()
        self.assertEqual(LIBRARY.monotile_buffer_create(*self.device, 100, C.byref(buffer)), OK)
        data = LIBRARY.monotile_buffer_data(buffer)
        self.assertEqual(data % 256, 0)
        self.assertEqual(LIBRARY.monotile_buffer_bytes(buffer), 100)
        source, back = (C.c_uint8 * 100)(*range(100)), (C.c_uint8 * 100)()
        self.assertEqual(LIBRARY.monotile_copy_to_device(self.context, data, source, 100), OK)
        self.assertEqual(LIBRARY.monotile_fill_bytes(self.context, data + 50, 7, 10), OK)
        self.assertEqual(LIBRARY.monotile_copy_to_host(self.context, back, data, 100), OK)
        self.assertEqual(LIBRARY.monotile_synchronize(self.context), OK)
        self.assertEqual(list(back), list(range(50)) + [7] * 10 + list(range(60, 100)))
        self.assertEqual(LIBRARY.monotile_copy_to_host(self.context, None, data, 100), INVALID)
        LIBRARY.monotile_buffer_destroy(buffer)
        self.assertEqual(LIBRARY.monotile_buffer_create(*self.device, 1 << 60, C.byref(buffer)), OUT_OF_MEMORY)
        self.assertEqual(LIBRARY.monotile_context_reserve_workspace(self.context, 1 << 60), OUT_OF_MEMORY)
        self.assertEqual(LIBRARY.monotile_context_reserve_workspace(self.context, 1 << 20), OK)


class EmulatedOperators(Operators):
    device = (EMULATED, 32)


class Library(unittest.TestCase):
    def test_versions(self):
        self.assertEqual(LIBRARY.monotile_abi_version(), 1)
        self.assertRegex(LIBRARY.monotile_version().decode(), r"^\d+\.\d+\.\d+$")
        self.assertEqual(LIBRARY.monotile_status_name(INVALID), b"invalid_argument")
        self.assertEqual(LIBRARY.monotile_status_name(99), b"unknown")

    def test_devices(self):
        count = i32()
        self.assertEqual(LIBRARY.monotile_device_count(C.byref(count)), OK)
        self.assertGreaterEqual(count.value, 3)
        info = DeviceInfo(size=C.sizeof(DeviceInfo))
        self.assertEqual(LIBRARY.monotile_device_at(0, C.byref(info)), OK)
        self.assertEqual((info.kind, info.index, info.size), (CPU, 0, C.sizeof(DeviceInfo)))
        self.assertIn(info.path, (b"cpu_amx", b"cpu_avx512", b"cpu_avx2", b"cpu_plain"))
        self.assertGreater(info.memory_bytes, 1 << 28)
        older = DeviceInfo(size=DeviceInfo.name.offset, units=-5)
        self.assertEqual(LIBRARY.monotile_device_at(0, C.byref(older)), OK)
        self.assertEqual((older.kind, older.name, older.units), (CPU, None, -5))  # nothing past `size` is written
        self.assertEqual(LIBRARY.monotile_device_at(count.value, C.byref(info)), INVALID)
        self.assertEqual(LIBRARY.monotile_device_at(-1, C.byref(info)), INVALID)
        self.assertIsInstance(LIBRARY.monotile_absent_backends(), bytes)

    def test_missing_device(self):
        context = C.c_void_p()
        self.assertEqual(LIBRARY.monotile_context_create(CUDA, 4000, C.byref(context)), NOT_FOUND)
        self.assertIn("cuda:4000", last_error())
        self.assertIn("cpu", last_error())
        self.assertEqual(LIBRARY.monotile_context_create(CPU, 1 << 20, C.byref(context)), INVALID)
        LIBRARY.monotile_context_destroy(None)

    def test_errors_belong_to_threads(self):
        self.assertEqual(LIBRARY.monotile_set_cpu_threads(0), INVALID)
        here, seen = last_error(), []
        thread = threading.Thread(target=lambda: (seen.append(last_error()), LIBRARY.monotile_device_count(None)))
        thread.start()
        thread.join()
        self.assertEqual(seen, [""])
        self.assertEqual(last_error(), here)

    def test_packed_views_and_sizes(self):
        tensor, extents = Tensor(), (i64 * 3)(2, 3, 4)
        self.assertEqual(LIBRARY.monotile_tensor_packed(C.byref(tensor), None, F32, CPU, 0, 3, extents), OK)
        self.assertEqual((tensor.size, tensor.rank, list(tensor.strides[:3])), (C.sizeof(Tensor), 3, [12, 4, 1]))
        self.assertEqual(LIBRARY.monotile_tensor_packed(C.byref(tensor), None, F32, CPU, 0, 9, extents), INVALID)
        huge = (i64 * 2)(1 << 40, 1 << 40)
        self.assertEqual(LIBRARY.monotile_tensor_packed(C.byref(tensor), None, F32, CPU, 0, 2, huge), INVALID)
        bytes_out = i64()
        self.assertEqual(LIBRARY.monotile_storage_bytes(35, 512, C.byref(bytes_out)), OK)
        self.assertEqual(bytes_out.value, 288)
        self.assertEqual(LIBRARY.monotile_storage_bytes(35, 500, C.byref(bytes_out)), INVALID)
        self.assertEqual(LIBRARY.monotile_storage_bytes(F32, 1 << 62, C.byref(bytes_out)), INVALID)


if __name__ == "__main__":
    unittest.main()
