#!/usr/bin/env python3
"""What users would pick instead, measured beside Monotile: same shapes, same method, one process, one table.

    python3 benchmarks/peers/run.py --library build/cuda/lib/libmonotile_c.so --json ops.json --out merged.json

Peers: torch eager, torch.compile, SDPA (cuDNN, FlashAttention-2), FlexAttention, Triton kernels of our own writing, and
FlagGems, Liger, FlashInfer where they can be imported. --json names a result of `monotile bench ops --json`: its shapes are
taken, and the rows measured here are added to it (column "peer"; ours through the C ABI in column "c_abi").

Method, the same as the C++ harness: calls over rotating buffer sets recorded in a CUDA graph, the L2 flushed and a spin
queued before each replay, events around the replay, medians of up to 100. All implementations of one shape are sampled in
turns, in an order that is shuffled each time, so that a drift of the clocks hits all of them. What cannot be recorded, or not
be queued ahead of the device, is issued behind a spin; the row's method says so, and why. Outputs are compared with an fp32
computation before anything is timed; tensors that calls change in place are put back before each of them and each turn.

--earlier names the earlier figures (earlier.json): their shapes and compiled peers are measured too, and every peer also as
triton.testing.do_bench does, which is how they were taken ("launched_us"); where a product or attention is not where it was,
also right after a second and a half of products at full power ("launched_warm_us"). compare.py sets one beside the other.

    python3 benchmarks/peers/run.py --check --library build/cpu/lib/libmonotile_c.so

compares every builder's outputs on the CPU, ours and torch eager, at small shapes, and times nothing.
"""

import argparse
import json
import random
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print(__doc__)
    sys.exit("PyTorch is not installed for this Python: python3 -m pip install torch (Debian: python3-torch, for --check)")

try:
    import triton_kernels
except ImportError:  # --check needs none
    triton_kernels = None
from monotile_c import (ActivationArgs, ArgmaxArgs, AttentionArgs, BiasActivationArgs, CombineArgs, CopyBlocksArgs, DispatchArgs, EmbeddingArgs, GatedQuantiseArgs,
                        GatherRowsArgs, GemmArgs, KvAppendArgs, LayerNormArgs, LogprobsArgs, Monotile, QuantiseArgs, RmsNormArgs, RmsNormQuantiseArgs, RopeArgs, RouterArgs,
                        SampleArgs, SoftmaxArgs, TopKArgs)

DEVICE = "cuda"
E4M3 = getattr(torch, "float8_e4m3fn", None)


# Older versions of torch, which are enough for --check, have no RMSNorm.
rms_norm = getattr(F, "rms_norm", None) or (lambda x, shape, g, eps: (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps) * g.float()).to(x.dtype))


def optional(module):
    try:
        return __import__(module)
    except Exception as error:  # noqa: BLE001: broken installations raise anything
        print(f"{module}: not importable ({type(error).__name__})", flush=True)
        return None


# ---- shapes: each builder makes one buffer set


class BufferSet:
    """Calls by implementation, what their output should be (or None), and how a call's output is read.

    `changed` are tensors that calls read and write: they are put back to what they were, so that no call sees what another left.
    """

    def __init__(self, calls, expected, result_of, changed=()):
        self.calls, self.expected, self.result_of = calls, expected, result_of
        self.changed = [(tensor, tensor.clone()) for tensor in changed]

    def restore(self):
        for tensor, first in self.changed:
            tensor.copy_(first)

    def result(self, name):
        self.restore()
        result = self.result_of(self.calls[name])
        self.restore()
        return result


def dims_text(dims):
    return "x".join(str(d) for d in dims)


def error_of(result, want):
    return ((result.double() - want.double()).norm() / want.double().norm()).item()


def norm(dims, dtype, ours, fused, jit):
    rows, cols = dims
    x = torch.empty(rows, cols, device=DEVICE).uniform_(-1, 1).to(dtype)
    r = torch.empty(rows, cols, device=DEVICE).uniform_(-1, 1).to(dtype)
    g = torch.empty(cols, device=DEVICE).uniform_(0.5, 1.5).to(dtype)
    y = torch.empty_like(x)
    eps = 1e-6

    def eager():
        h = x + r if fused else x
        return rms_norm(h, (cols,), g, eps), h

    def expected():
        h = (x.float() + r.float()).to(dtype).float() if fused else x.float()
        return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * g.float()

    def result_of(call):
        out = call()
        return (y if out is None else out[0] if isinstance(out, tuple) else out).clone()

    calls = {"torch eager": eager}
    if jit:
        compiled = jit(lambda x, r, g: (rms_norm(x + r, (cols,), g, eps), x + r) if fused else rms_norm(x, (cols,), g, eps))
        calls["torch.compile"] = lambda: compiled(x, r, g)
    if fused:
        calls["triton"] = lambda: triton_kernels.add_rms_norm(x, r, g, y, eps)
        calls["monotile"] = ours.call("add_rms_norm", RmsNormArgs, y=y, residual=r, x=x, gamma=g, eps=eps)
        # These two write the norm over x, and x + residual over the residual.
        if GEMS:
            calls["flag_gems"] = lambda: GEMS.fused_add_rms_norm(x, r, [cols], g, eps)
        if FLASHINFER:
            def flashinfer():
                FLASHINFER.norm.fused_add_rmsnorm(x, r, g, eps)
                return x

            calls["flashinfer"] = flashinfer
    else:
        calls["triton"] = lambda: triton_kernels.rms_norm(x, g, y, eps)
        calls["monotile"] = ours.call("rms_norm", RmsNormArgs, y=y, x=x, gamma=g, eps=eps)
        if LIGER:
            from liger_kernel.ops.rms_norm import rms_norm_forward

            calls["liger"] = lambda: rms_norm_forward(x, g, eps, 0.0, "llama", False)[0]
    return BufferSet(calls, expected, result_of, changed=(x, r) if fused else ())


def rope(dims, dtype, ours, jit):
    tokens, heads, kv_heads, dim = dims
    q = torch.empty(tokens, heads, dim, device=DEVICE).uniform_(-1, 1).to(dtype)
    k = torch.empty(tokens, kv_heads, dim, device=DEVICE).uniform_(-1, 1).to(dtype)
    positions = (torch.arange(tokens, device=DEVICE) % 2048).to(torch.int32)
    angle = torch.arange(2048, device=DEVICE, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, dim, 2, device=DEVICE, dtype=torch.float64) / dim)[None]
    cos, sin = angle.cos().float(), angle.sin().float()
    wide_cos, wide_sin = (torch.cat((t, t), -1).to(dtype)[positions.long()][:, None] for t in (cos, sin))
    if tokens % 2048 == 0:  # whole sequences share one table of angles, as callers of torch have it
        q_torch, k_torch = (x.view(-1, 2048, *x.shape[1:]) for x in (q, k))
        wide_cos, wide_sin = wide_cos[None, :2048], wide_sin[None, :2048]
    else:
        q_torch, k_torch = q, k

    def rotated(x):
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)

    def chain(q, k, cos, sin):
        return q * cos + rotated(q) * sin, k * cos + rotated(k) * sin

    def expected():
        c, s = (torch.cat((t, t), -1)[positions.long()][:, None] for t in (cos, sin))
        return q.float() * c + rotated(q.float()) * s

    def result_of(call):
        out = call()
        return (q if out is None else out[0].view_as(q)).clone()

    calls = {"torch eager": lambda: chain(q_torch, k_torch, wide_cos, wide_sin), "triton": lambda: triton_kernels.rope(q, k, positions, cos, sin),
             "monotile": ours.call("rope", RopeArgs, q_out=q, k_out=k, q=q, k=k, positions=positions, cos=cos, sin=sin)}
    if jit:
        compiled = jit(chain)
        calls["torch.compile"] = lambda: compiled(q_torch, k_torch, wide_cos, wide_sin)
    if GEMS:
        half_cos, half_sin = cos.to(dtype), sin.to(dtype)
        calls["flag_gems"] = lambda: GEMS.apply_rotary_pos_emb(q, k, half_cos, half_sin, positions)
    return BufferSet(calls, expected, result_of, changed=(q, k))


def simple(result=None):
    def result_of(call):
        out = call()
        return (result if out is None else out).clone()

    return result_of


def silu_mul(dims, dtype, ours, jit):
    gate = torch.empty(*dims, device=DEVICE).uniform_(-4, 4).to(dtype)
    up = torch.empty(*dims, device=DEVICE).uniform_(-1, 1).to(dtype)
    y = torch.empty_like(gate)
    calls = {"torch eager": lambda: F.silu(gate) * up, "triton": lambda: triton_kernels.silu_mul(gate, up, y),
             "monotile": ours.call("gated_activation", ActivationArgs, y=y, gate=gate, up=up)}
    if jit:
        compiled = jit(lambda g, u: F.silu(g) * u)
        calls["torch.compile"] = lambda: compiled(gate, up)
    if GEMS:
        calls["flag_gems"] = lambda: GEMS.silu_and_mul(gate, up)
    if LIGER:
        from liger_kernel.ops.swiglu import swiglu_forward

        calls["liger"] = lambda: swiglu_forward(gate, up)[2]
    return BufferSet(calls, lambda: F.silu(gate.float()) * up.float(), simple(y))


def softmax(dims, dtype, ours, jit):
    x = torch.empty(*dims, device=DEVICE).uniform_(-4, 4).to(dtype)
    y = torch.empty_like(x)
    calls = {"torch eager": lambda: torch.softmax(x, -1), "triton": lambda: triton_kernels.softmax(x, y),
             "monotile": ours.call("softmax", SoftmaxArgs, y=y, x=x, scale=1.0)}
    if jit:
        compiled = jit(lambda x: torch.softmax(x, -1))
        calls["torch.compile"] = lambda: compiled(x)
    if GEMS:
        from flag_gems.ops import softmax as gems_softmax

        calls["flag_gems"] = lambda: gems_softmax(x, -1)
    return BufferSet(calls, lambda: torch.softmax(x.float(), -1), simple(y))


def gemm(dims, dtype, ours, jit):
    m, n, k = dims
    a = torch.empty(m, k, device=DEVICE, dtype=dtype).uniform_(-1, 1)
    b = torch.empty(n, k, device=DEVICE, dtype=dtype).uniform_(-1, 1)
    c = torch.empty(m, n, device=DEVICE, dtype=dtype)
    calls = {"torch (cuBLAS)": lambda: torch.mm(a, b.t(), out=c), "monotile": ours.call("gemm", GemmArgs, c=c, a=a, b=b)}
    if GEMS and ("gemm", dims_text(dims), "flag_gems") in WANTED:  # tunes itself for a minute
        from flag_gems.ops import mm as gems_mm

        calls["flag_gems"] = lambda: gems_mm(a, b.t())
    rows = slice(0, min(m, 64))

    def expected():
        return a[rows].double() @ b.double().t() if b.numel() < 1 << 27 else (a[rows].float() @ b.float().t())

    def result_of(call):
        c.fill_(float("nan"))
        out = call()
        return (c if out is None else out)[rows].clone()

    return BufferSet(calls, expected, result_of)


def gemm_fp8(dims, dtype, ours, jit):
    """8-bit operands, with one scale (cuBLAS alone) and with a scale per row of both; sums as the instructions keep them, and exact ones as ours are."""
    m, n, k = dims
    a, b = (uniform(shape, torch.bfloat16).to(E4M3) for shape in ((m, k), (n, k)))
    one, per_row, per_col = torch.ones((), device=DEVICE), torch.ones(m, 1, device=DEVICE), torch.ones(1, n, device=DEVICE)

    def scaled(scale_a, scale_b, fast=True):
        return lambda: torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast)

    rows = slice(0, min(m, 64))
    c = torch.empty(m, n, device=DEVICE, dtype=torch.bfloat16)
    calls = {"torch (cuBLAS)": scaled(one, one), "torch (cuBLAS), row-wise": scaled(per_row, per_col),
             "torch (cuBLAS), row-wise, exact sums": scaled(per_row, per_col, fast=False),
             "monotile": ours.call("gemm", GemmArgs, c=c, a=a, b=b, a_scale=per_row.reshape(m), b_scale=per_col.reshape(n))}

    def result_of(call):
        c.fill_(float("nan"))
        out = call()
        return (c if out is None else out)[rows].clone()

    return BufferSet(calls, lambda: a[rows].float() @ b.float().t(), result_of)


def gemm_int8(dims, dtype, ours, jit):
    """int8 operands, int32 sums as they are."""
    m, n, k = dims
    a, b = (torch.randint(-128, 128, shape, device=DEVICE, dtype=torch.int8) for shape in ((m, k), (n, k)))
    rows = slice(0, min(m, 64))
    c = torch.empty(m, n, device=DEVICE, dtype=torch.int32)
    calls = {"torch (cuBLAS)": lambda: torch._int_mm(a, b.t()), "monotile": ours.call("gemm", GemmArgs, c=c, a=a, b=b)}

    def result_of(call):
        c.fill_(-1)
        out = call()
        return (c if out is None else out)[rows].clone()

    return BufferSet(calls, lambda: a[rows].double() @ b.double().t(), result_of)


def attention(dims, dtype, ours, jit, causal=True, decode=False):
    batch, keys, heads, kv_heads, dim = dims
    queries = 1 if decode else keys
    page = 16
    q = torch.empty(batch, queries, heads, dim, device=DEVICE, dtype=dtype).uniform_(-1, 1)
    cache = [torch.empty(batch * keys // page, kv_heads, page, dim, device=DEVICE, dtype=dtype).uniform_(-1, 1) for _ in range(2)]
    table = torch.arange(batch * keys // page, device=DEVICE, dtype=torch.int32).reshape(batch, keys // page)
    out = torch.empty_like(q)
    # The peers get the same keys and values packed as they like them.
    k, v = (c.reshape(batch, keys // page, kv_heads, page, dim).transpose(1, 2).reshape(batch, kv_heads, keys, dim).contiguous() for c in cache)
    qt = q.transpose(1, 2).contiguous()

    def sdpa(backend):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def call():
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return F.scaled_dot_product_attention(qt, k, v, is_causal=causal and not decode, enable_gqa=heads != kv_heads)

        return call

    starts = torch.arange(0, batch * queries + 1, queries, device=DEVICE, dtype=torch.int32)
    lengths = torch.full((batch,), keys, device=DEVICE, dtype=torch.int32)
    flat_q, flat_out = q.reshape(batch * queries, heads, dim), out.reshape(batch * queries, heads, dim)
    peers = {} if DEVICE == "cpu" else {"cuDNN (SDPA)": sdpa("CUDNN_ATTENTION"), "FlashAttention-2 (SDPA)": sdpa("FLASH_ATTENTION")}
    calls = {**peers,
             "monotile": ours.call("attention", AttentionArgs, out=flat_out, q=flat_q, key_cache=cache[0], value_cache=cache[1], block_table=table, q_start=starts,
                                   kv_length=lengths, max_query=queries, causal=int(causal))}
    if not decode:
        # Prefill is compared on rows that are packed for everyone; pages are a row of their own.
        calls["monotile paged"] = calls.pop("monotile")
        dense = [c.transpose(1, 2).reshape(batch * keys, kv_heads, dim).contiguous() for c in (k, v)]
        first = torch.arange(0, batch * keys, keys, device=DEVICE, dtype=torch.int32)
        calls["monotile"] = ours.call("attention", AttentionArgs, out=flat_out, q=flat_q, key_cache=dense[0], value_cache=dense[1], kv_start=first, q_start=starts,
                                      kv_length=lengths, max_query=queries, max_kv_length=keys, causal=int(causal))
    if GEMS and heads == kv_heads and (f"attention_{'causal' if causal else 'full'}", dims_text(dims), "flag_gems") in WANTED:
        from flag_gems.ops import scaled_dot_product_attention as gems_sdpa

        calls["flag_gems"] = lambda: gems_sdpa(qt, k, v, None, 0.0, causal)
    if jit and not decode:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        compiled = torch.compile(flex_attention, dynamic=False)
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, keys, keys, device=DEVICE) if causal else None
        calls["flex_attention"] = lambda: compiled(qt, k, v, block_mask=mask, enable_gqa=heads != kv_heads)

    def expected():
        one_q, one_k, one_v = (t[:1, :1].float() for t in (qt, k, v))
        scores = one_q @ one_k.transpose(-1, -2) * dim**-0.5
        if causal and not decode:
            scores = scores.masked_fill(torch.ones(keys, keys, device=DEVICE, dtype=torch.bool).triu(1), -float("inf"))
        return torch.softmax(scores, -1) @ one_v

    def result_of(call):
        result = call()
        result = out.transpose(1, 2) if result is None else result
        return result[:1, :1].clone()

    return BufferSet(calls, expected, result_of)


def masked_attention(dims, dtype, ours, jit, kind):
    """Causal with a window of a quarter of the keys (1,024 at most), a soft-cap of 30, or ALiBi, beside FlexAttention."""
    batch, keys, heads, kv_heads, dim = dims
    window, cap = min(1024, keys // 4), 30.0
    qt, k, v = (uniform((batch, h, keys, dim), dtype) for h in (heads, kv_heads, kv_heads))
    flat_q, *dense = (t.transpose(1, 2).reshape(batch * keys, -1, dim).contiguous() for t in (qt, k, v))
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], device=DEVICE)
    out = torch.empty_like(flat_q)
    starts = torch.arange(0, batch * keys + 1, keys, device=DEVICE, dtype=torch.int32)
    lengths = torch.full((batch,), keys, device=DEVICE, dtype=torch.int32)
    of_kind = {"window": {"window": window}, "softcap": {"softcap": cap}, "alibi": {"alibi_slopes": slopes}}[kind]
    calls = {"monotile": ours.call("attention", AttentionArgs, out=out, q=flat_q, key_cache=dense[0], value_cache=dense[1], kv_start=starts[:-1], q_start=starts,
                                   kv_length=lengths, max_query=keys, max_kv_length=keys, causal=1, **of_kind)}

    def seen(b, h, i, j):
        return (i >= j) & (i - j < window) if kind == "window" else i >= j

    def score(s, b, h, i, j):
        return cap * torch.tanh(s / cap) if kind == "softcap" else s + slopes[h] * (j - i)

    if jit:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        compiled = torch.compile(flex_attention, dynamic=False)
        mask = create_block_mask(seen, None, None, keys, keys, device=DEVICE)
        changed = None if kind == "window" else score
        calls["flex_attention"] = lambda: compiled(qt, k, v, score_mod=changed, block_mask=mask, enable_gqa=heads != kv_heads)

    def expected():  # of the last head, whose keys are the last ones
        scores = qt[:1, -1:].float() @ k[:1, -1:].float().transpose(-1, -2) * dim**-0.5
        i, j = torch.arange(keys, device=DEVICE)[:, None], torch.arange(keys, device=DEVICE)[None, :]
        if kind != "window":
            scores = score(scores, 0, heads - 1, i, j)
        return torch.softmax(scores.masked_fill(~seen(0, 0, i, j), -float("inf")), -1) @ v[:1, -1:].float()

    def result_of(call):
        result = call()
        result = out.reshape(batch, keys, heads, dim).transpose(1, 2) if result is None else result
        return result[:1, -1:].clone()

    return BufferSet(calls, expected, result_of)


def masked_rows():
    """Shapes for the masks, which the benchmark's own rows do not have."""
    for kind in ("window", "softcap", "alibi"):
        for batch, keys, heads, kv_heads, dim in ((4, 4096, 32, 8, 128), (1, 16384, 32, 8, 128)):
            window = min(1024, keys // 4) if kind == "window" else keys
            flops = 4 * batch * heads * dim * (window * (window + 1) // 2 + (keys - window) * window)
            yield {"op": f"attention_{kind}", "shape": dims_text((batch, keys, heads, kv_heads, dim)), "dtype": "bf16", "model": "", "phase": "", "calls": 0,
                   "bytes": 4 * batch * keys * dim * (heads + kv_heads), "flops": flops, "us": {"median": flops / 5e8}}


def embedding(dims, dtype, ours, jit):
    tokens, vocabulary, cols = dims
    table = torch.empty(vocabulary, cols, device=DEVICE, dtype=dtype).uniform_(-1, 1)
    ids = torch.randint(0, vocabulary, (tokens,), device=DEVICE, dtype=torch.int32)
    y = torch.empty(tokens, cols, device=DEVICE, dtype=dtype)
    return BufferSet({"torch eager": lambda: F.embedding(ids, table), "monotile": ours.call("embedding", EmbeddingArgs, y=y, table=table, ids=ids, scale=1.0)},
                     lambda: table[ids.long()].float(), simple(y))


def argmax(dims, dtype, ours, jit):
    x = torch.empty(*dims, device=DEVICE).uniform_(-8, 8).to(dtype)
    ids = torch.empty(dims[0], device=DEVICE, dtype=torch.int32)
    return BufferSet({"torch eager": lambda: torch.argmax(x, -1), "monotile": ours.call("argmax", ArgmaxArgs, ids=ids, logits=x)}, None, simple(ids))


def uniform(shape, dtype, low=-1.0, high=1.0):
    return torch.empty(*shape, device=DEVICE).uniform_(low, high).to(dtype)


def layer_norm(dims, dtype, ours, jit):
    x, g, b = uniform(dims, dtype), uniform(dims[1:], dtype, 0.5, 1.5), uniform(dims[1:], dtype)
    y = torch.empty_like(x)
    calls = {"torch eager": lambda: F.layer_norm(x, dims[1:], g, b, 1e-5),
             "monotile": ours.call("layer_norm", LayerNormArgs, y=y, x=x, gamma=g, beta=b, eps=1e-5)}
    if jit:
        compiled = jit(lambda x, g, b: F.layer_norm(x, dims[1:], g, b, 1e-5))
        calls["torch.compile"] = lambda: compiled(x, g, b)
    if GEMS:
        calls["flag_gems"] = lambda: GEMS.layer_norm(x, dims[1:], g, b, 1e-5)[0]
    return BufferSet(calls, lambda: F.layer_norm(x.float(), dims[1:], g.float(), b.float(), 1e-5), simple(y))


def bias_gelu(dims, dtype, ours, jit):
    x, bias, residual = uniform(dims, dtype, -4, 4), uniform(dims[1:], dtype), uniform(dims, dtype)
    y = torch.empty_like(x)

    def chain(x, bias, residual):
        return F.gelu(x + bias, approximate="tanh") + residual

    calls = {"torch eager": lambda: chain(x, bias, residual),
             "monotile": ours.call("bias_activation", BiasActivationArgs, y=y, x=x, bias=bias, residual=residual, activation=1)}
    if jit:
        compiled = jit(chain)
        calls["torch.compile"] = lambda: compiled(x, bias, residual)
    return BufferSet(calls, lambda: chain(x.float(), bias.float(), residual.float()), simple(y))


def codes_of(x, group, largest, kind):
    """Codes and scales as users of torch write them."""
    blocks = x.float().reshape(x.shape[0], -1, group or x.shape[1])
    scale = (blocks.abs().amax(-1, keepdim=True) / largest).clamp(min=2.0**-126)
    codes = blocks / scale
    codes = codes.round().clamp(-128, 127) if kind == torch.int8 else codes.clamp(-largest, largest)
    return codes.reshape(x.shape).to(kind), scale.squeeze(-1)


def quantise(dims, dtype, ours, jit, kind, largest, group=0):
    x = uniform(dims, dtype, -4, 4)
    codes, scales = torch.empty(*dims, device=DEVICE, dtype=kind), torch.empty(dims[0], dims[1] // (group or dims[1]), device=DEVICE)
    calls = {"torch eager": lambda: codes_of(x, group, largest, kind)[0],
             "monotile": ours.call("quantise", QuantiseArgs, codes=codes, scales=scales, x=x, block_rows=1, block_cols=group)}
    if jit:
        compiled = jit(lambda x: codes_of(x, group, largest, kind))
        calls["torch.compile"] = lambda: compiled(x)[0]
    return BufferSet(calls, lambda: codes_of(x, group, largest, kind)[0].float(), simple(codes))


def norm_quantise(dims, dtype, ours, jit):
    x, residual, g = uniform(dims, dtype), uniform(dims, dtype), uniform(dims[1:], dtype, 0.5, 1.5)
    codes, scales = torch.empty(*dims, device=DEVICE, dtype=E4M3), torch.empty(dims[0], 1, device=DEVICE)

    def chain(x, residual, g):
        h = x + residual
        f = h.float()
        return codes_of((f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6) * g.float()).to(dtype), 0, 448.0, E4M3)[0], h

    def result_of(call):
        out = call()
        return (codes if out is None else out[0]).clone()

    calls = {"torch eager": lambda: chain(x, residual, g),
             "monotile": ours.call("rms_norm_quantise", RmsNormQuantiseArgs, codes=codes, scales=scales, residual=residual, x=x, gamma=g, eps=1e-6)}
    if jit:
        compiled = jit(chain)
        calls["torch.compile"] = lambda: compiled(x, residual, g)
    return BufferSet(calls, lambda: chain(x, residual, g)[0].float(), result_of, changed=(residual,))


def silu_quantise(dims, dtype, ours, jit):
    gate, up = uniform(dims, dtype, -4, 4), uniform(dims, dtype)
    codes, scales = torch.empty(*dims, device=DEVICE, dtype=E4M3), torch.empty(dims[0], 1, device=DEVICE)

    def chain(gate, up):
        return codes_of((F.silu(gate.float()) * up.float()).to(dtype), 0, 448.0, E4M3)[0]

    calls = {"torch eager": lambda: chain(gate, up), "monotile": ours.call("gated_quantise", GatedQuantiseArgs, codes=codes, scales=scales, gate=gate, up=up)}
    if jit:
        compiled = jit(chain)
        calls["torch.compile"] = lambda: compiled(gate, up)
    return BufferSet(calls, lambda: chain(gate, up).float(), simple(codes))


def gather_rows(dims, dtype, ours, jit):
    x, ids = uniform(dims, dtype), torch.randperm(dims[0], device=DEVICE).to(torch.int32)
    y = torch.empty_like(x)
    return BufferSet({"torch eager": lambda: torch.index_select(x, 0, ids), "monotile": ours.call("gather_rows", GatherRowsArgs, y=y, x=x, ids=ids)},
                     lambda: x[ids.long()].float(), simple(y))


def kv_append(dims, dtype, ours, jit):
    tokens, heads, dim = dims
    page = 16
    k, v = uniform(dims, dtype), uniform(dims, dtype)
    caches = [torch.zeros((tokens + page - 1) // page, page, heads, dim, device=DEVICE, dtype=dtype) for _ in range(2)]
    slots = torch.randperm(tokens, device=DEVICE)
    narrow = slots.to(torch.int32)

    def eager():
        for cache, rows in zip(caches, (k, v)):
            cache.view(-1, heads, dim).index_copy_(0, slots, rows)

    def result_of(call):
        call()
        return caches[1].view(-1, heads, dim)[slots].clone()

    seen = [cache.permute(0, 2, 1, 3) for cache in caches]
    return BufferSet({"torch eager": eager, "monotile": ours.call("kv_append", KvAppendArgs, key_cache=seen[0], value_cache=seen[1], k=k, v=v, slots=narrow)},
                     lambda: v.float(), result_of)


def copy_blocks(dims, dtype, ours, jit):
    blocks, heads, dim = dims
    caches = [uniform((2 * blocks, heads, 16, dim), dtype) for _ in range(2)]
    source, target = torch.randperm(blocks, device=DEVICE), torch.arange(blocks, 2 * blocks, device=DEVICE)
    pairs = torch.stack((source, target), 1).to(torch.int32).contiguous()

    def eager():
        for cache in caches:
            cache.index_copy_(0, target, cache.index_select(0, source))

    def result_of(call):
        caches[1][blocks:] = 0
        call()
        return caches[1][blocks:].clone()

    return BufferSet({"torch eager": eager, "monotile": ours.call("copy_blocks", CopyBlocksArgs, key_cache=caches[0], value_cache=caches[1], pairs=pairs)},
                     lambda: caches[1][source].float(), result_of)


def router(dims, dtype, ours, jit):
    rows, experts, top_k = dims
    logits = uniform((rows, experts), dtype, -4, 4)
    weights, chosen = torch.empty(rows, top_k, device=DEVICE), torch.empty(rows, top_k, device=DEVICE, dtype=torch.int32)

    def chain(x):
        return torch.topk(torch.softmax(x.float(), -1), top_k)

    calls = {"torch eager": lambda: chain(logits)[0],
             "monotile": ours.call("moe_router", RouterArgs, weights=weights, experts=chosen, logits=logits, scale=1.0, groups=1, kept_groups=1, group_sum=1)}
    if jit:
        compiled = jit(chain)
        calls["torch.compile"] = lambda: compiled(logits)[0]
    return BufferSet(calls, lambda: chain(logits)[0], simple(weights))


def places(tokens, top_k):
    return torch.randperm(tokens * top_k, device=DEVICE).reshape(tokens, top_k)


def moe_dispatch(dims, dtype, ours, jit):
    tokens, cols, top_k = dims
    x, at = uniform((tokens, cols), dtype), places(tokens, top_k)
    y, source = torch.empty(tokens * top_k, cols, device=DEVICE, dtype=dtype), torch.argsort(at.flatten()) // top_k
    return BufferSet({"torch eager": lambda: torch.index_select(x, 0, source), "monotile": ours.call("moe_dispatch", DispatchArgs, y=y, x=x, positions=at.to(torch.int32))},
                     lambda: x[source].float(), simple(y))


def moe_combine(dims, dtype, ours, jit):
    tokens, cols, top_k = dims
    x, weights, at = uniform((tokens * top_k, cols), dtype), uniform((tokens, top_k), torch.float32, 0, 1), places(tokens, top_k)
    y = torch.empty(tokens, cols, device=DEVICE, dtype=dtype)

    def chain(x, weights, at):
        return (x[at.flatten()].reshape(tokens, top_k, cols).float() * weights[..., None]).sum(1).to(dtype)

    calls = {"torch eager": lambda: chain(x, weights, at), "monotile": ours.call("moe_combine", CombineArgs, y=y, x=x, weights=weights, positions=at.to(torch.int32))}
    if jit:
        compiled = jit(chain)
        calls["torch.compile"] = lambda: compiled(x, weights, at)
    return BufferSet(calls, lambda: chain(x, weights, at).float(), simple(y))


def top_k(dims, dtype, ours, jit):
    rows, cols, k = dims
    x = uniform((rows, cols), dtype, -8, 8)
    values, ids = torch.empty(rows, k, device=DEVICE), torch.empty(rows, k, device=DEVICE, dtype=torch.int32)
    return BufferSet({"torch eager": lambda: torch.topk(x, k)[0], "monotile": ours.call("top_k", TopKArgs, values=values, ids=ids, logits=x)},
                     lambda: torch.topk(x.float(), k)[0], simple(values))


def logprobs(dims, dtype, ours, jit):
    rows, cols, k = dims
    x, tokens = uniform((rows, cols), dtype, -8, 8), torch.randint(0, cols, (rows, 1), device=DEVICE)
    one, top, ids = (torch.empty(rows, n, device=DEVICE, dtype=t) for n, t in ((1, torch.float32), (k, torch.float32), (k, torch.int32)))

    def chain(x, tokens):
        y = torch.log_softmax(x.float(), -1)
        return torch.cat((y.gather(1, tokens), torch.topk(y, k)[0]), 1)

    def result_of(call):
        out = call()
        return torch.cat((one, top), 1) if out is None else out.clone()

    calls = {"torch eager": lambda: chain(x, tokens),
             "monotile": ours.call("logprobs", LogprobsArgs, logprobs=one, tokens=tokens.to(torch.int32), top_logprobs=top, top_ids=ids, logits=x)}
    if jit:
        compiled = jit(chain)
        calls["torch.compile"] = lambda: compiled(x, tokens)
    return BufferSet(calls, lambda: chain(x, tokens), result_of)


def sample(dims, dtype, ours, jit):
    """Draws differ between generators, so nothing is compared; what torch needs at the least is its sort."""
    rows, cols = dims
    x = uniform((rows, cols), dtype, -8, 8)
    ids = torch.empty(rows, device=DEVICE, dtype=torch.int32)
    temperature, top_p, limit = (torch.full((rows,), value, device=DEVICE) for value in (0.8, 0.95, 50.0))

    def eager():
        values, order = torch.sort(x.float() / temperature[:, None], -1, descending=True)
        values[:, 50:] = -float("inf")
        p = torch.softmax(values, -1)
        p[p.cumsum(-1) - p > 0.95] = 0
        noise = torch.empty_like(p).exponential_()
        return order.gather(1, (p / noise).argmax(-1, keepdim=True))[:, 0]

    calls = {"torch sort": lambda: torch.sort(x, -1, descending=True)[0], "torch eager": eager,
             "monotile": ours.call("sample", SampleArgs, ids=ids, logits=x, temperature=temperature, top_p=top_p, top_k=limit.to(torch.int32))}
    return BufferSet(calls, None, simple(ids))


BUILDERS = {
    "add_rms_norm": lambda d, t, o, j: norm(d, t, o, True, j), "rms_norm": lambda d, t, o, j: norm(d, t, o, False, j), "rope": rope, "silu_mul": silu_mul,
    "softmax": softmax, "gemm": gemm, "gemm_int8": gemm_int8, "embedding": embedding, "argmax": argmax, "layer_norm": layer_norm, "bias_gelu": bias_gelu, "gather_rows": gather_rows,
    "quantise_int8": lambda d, t, o, j: quantise(d, t, o, j, torch.int8, 127.0), "kv_append": kv_append, "copy_blocks": copy_blocks, "moe_router": router,
    "moe_dispatch": moe_dispatch, "moe_combine": moe_combine, "top_k": top_k, "logprobs": logprobs, "sample": sample,
    "attention_causal": lambda d, t, o, j: attention(d, t, o, j, True), "attention_full": lambda d, t, o, j: attention(d, t, o, j, False),
    "attention_decode": lambda d, t, o, j: attention(d, t, o, j, True, True),
    **{f"attention_{kind}": lambda d, t, o, j, kind=kind: masked_attention(d, t, o, j, kind) for kind in ("window", "softcap", "alibi")},
}
if E4M3 is not None:
    BUILDERS.update({"quantise_fp8": lambda d, t, o, j: quantise(d, t, o, j, E4M3, 448.0), "quantise_fp8_groups": lambda d, t, o, j: quantise(d, t, o, j, E4M3, 448.0, 128),
                     "add_rms_norm_quantise": norm_quantise, "silu_mul_quantise": silu_quantise, "gemm_fp8": gemm_fp8})
# Operators for which compiling is worth its seconds.
COMPILED = ("add_rms_norm", "rope", "silu_mul", "softmax", "layer_norm", "bias_gelu", "quantise_fp8", "quantise_fp8_groups", "add_rms_norm_quantise", "silu_mul_quantise",
            "moe_router", "moe_combine", "attention_causal", "attention_full", "attention_window", "attention_softcap", "attention_alibi")
TORCH_DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f8_e4m3": E4M3, "i8": torch.int8}
# Of the earlier figures (--earlier): op, shape and peer, with the TFLOP/s then (0: a memory-bound one).
WANTED = {}


# ---- measuring


class Recorded:
    """Calls over all buffer sets in one graph; the time of one call is a sample."""

    side = None  # one stream for all: a context of ours belongs to a stream and reserves its workspace before anything is recorded

    def __init__(self, calls):
        self.warm_up(calls)
        self.graph, self.count, self.samples, self.keep = torch.cuda.CUDAGraph(), len(calls), [], []
        before = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(self.graph, stream=Recorded.side):
                for call in calls:
                    self.keep.append(call())
        finally:
            torch.cuda.set_stream(before)  # a recording that breaks off leaves its stream behind
        self.keep = []
        self.method = f"graph of {self.count}, cold"
        self.replay()
        torch.cuda.synchronize()

    @classmethod
    def warm_up(cls, calls):
        cls.side = cls.side or torch.cuda.Stream()
        cls.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(cls.side):
            for call in calls[:2]:
                call()
                call()
        torch.cuda.current_stream().wait_stream(cls.side)
        torch.cuda.synchronize()

    def replay(self):
        self.graph.replay()


class Issued:
    """Calls that are issued one by one, behind a spin if the host is quick enough; `reason` says why they are not in a graph."""

    def __init__(self, calls, reason):
        self.calls, self.count, self.samples, self.reason = calls, len(calls), [], reason
        self.method = f"events, {self.count} calls behind a spin, cold ({reason})"

    def replay(self):
        for call in self.calls:
            call()

    def fewer(self):
        self.__init__(self.calls[: self.count // 2], self.reason)

    def host_launched(self):
        """Nothing could be queued ahead: what is timed is the host as well, and the row says it."""
        self.__init__(self.calls[:1], self.reason)
        self.method = f"events around a call, launch gaps included, cold ({self.reason})"


class Meter:
    SPIN, LONGEST_SPIN = 60_000, 15_000_000  # cycles: 30 us to 8 ms

    def __init__(self):
        self.l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.waste = torch.empty(2 * self.l2, dtype=torch.uint8, device=DEVICE)
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def sample(self, one, need_ahead=True):
        """Whether there is one more sample: the calls must be queued before the device comes to the first event. Long graphs take the
        host longer to hand over than short ones, so the spin grows until they are; it stays as long for this implementation."""
        one.spin = getattr(one, "spin", self.SPIN)
        while True:
            self.waste.zero_()
            torch.cuda._sleep(one.spin)
            self.begin.record()
            one.replay()
            ahead = not self.begin.query()
            self.end.record()
            self.end.synchronize()
            if ahead or not need_ahead:
                one.samples.append(1e3 * self.begin.elapsed_time(self.end) / one.count)
                return True
            if one.spin >= self.LONGEST_SPIN:
                return False
            one.spin = min(3 * one.spin, self.LONGEST_SPIN)

    def prepared(self, calls):
        """The calls in a graph that can be queued ahead of the device; else issued one by one."""
        while True:
            try:
                one = Recorded(calls)
            except RuntimeError as error:
                torch.cuda.synchronize()
                reason = f"not recorded: {str(error).splitlines()[0][:80]}"
                break
            if self.sample(one):
                return one
            if len(calls) == 1:
                reason = "a graph of one call is not handed over in time"
                break
            calls = calls[: len(calls) // 2]
        one = Issued(calls, reason)
        while not self.sample(one):
            if one.count == 1:
                one.host_launched()
                break
            one.fewer()
        return one

    def all(self, recorded, sets, budget):
        """In turns, shuffled, up to 100 samples of each."""
        start, live = time.perf_counter(), list(recorded.values())
        for one in live:
            one.samples = []  # those of the preparation were not in turns
        for turn in range(100):
            random.shuffle(live)
            for buffers in sets:
                buffers.restore()
            for one in live:
                self.sample(one, need_ahead="launch gaps" not in one.method)
            if turn >= 9 and time.perf_counter() - start > budget * len(live):
                break

    @staticmethod
    def launched_us(call):
        """As triton.testing.do_bench times a call: 256 MB of zeros, an event, the call, an event, all issued as the host comes to it."""
        from triton.testing import do_bench

        return 1e3 * do_bench(call, warmup=20, rep=60, return_mode="median")

    def launched_warm_us(self, call, seconds=1.5):
        """The same, on a chip that has just multiplied matrices at full power: long products are limited by power, short ones by the clock."""
        a = torch.randn(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            for _ in range(20):
                a @ a
            torch.cuda.synchronize()
        return self.launched_us(call)

    @staticmethod
    def host_us(call):
        batches = []
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(50):
                call()
            batches.append((time.perf_counter() - start) / 50 * 1e6)
        torch.cuda.synchronize()
        return batches


def spread(values):
    values = sorted(values)
    at = lambda share: values[round(share * (len(values) - 1))]  # noqa: E731
    return {"median": statistics.median(values), "p10": at(0.1), "p90": at(0.9), "n": len(values)}


def compile_once():
    """torch.compile for the buffer sets of one shape. They share the compiled function, which takes all tensors as arguments, whatever torch
    would make of one function for each set; the shapes before do not count against the variants that it keeps of a function."""
    torch._dynamo.reset()
    compiled = {}
    return lambda f: compiled.setdefault(f.__code__, torch.compile(f, dynamic=False))


def measure(row, ours, meter, jit, budget, launched=False):
    """Rows of all peers for the shape of `row`."""
    dims, dtype = [int(d) for d in row["shape"].split("x")], TORCH_DTYPES[row["dtype"]]
    nodes = 50 if row["us"]["median"] < 20 else max(1, min(50, int(1000 / row["us"]["median"])))
    count = int(min(50, max(2, 4 * meter.l2 // row["bytes"] + 1)))
    nodes = min(nodes, count) if count * row["bytes"] < 2 * meter.l2 else nodes
    compiler = compile_once() if jit else None
    sets = [BUILDERS[row["op"]](dims, dtype, ours, compiler) for _ in range(count)]
    recorded, failures, errors, hosts, launches, implementations = {}, {}, {}, {}, {}, {}
    want = sets[0].expected() if sets[0].expected else None
    for name in sets[0].calls:
        calls = [buffers.calls[name] for buffers in sets]
        try:
            result = sets[0].result(name)
            if want is not None:
                errors[name] = error_of(result, want)
                if not errors[name] < 2e-2:
                    raise ValueError(f"relative error {errors[name]:.3g}")
            implementations[name] = ours.implementation() if is_ours(name) else name
            recorded[name] = meter.prepared([calls[i % count] for i in range(nodes)])
            if min([row["us"]["median"], *recorded[name].samples]) < 30:  # longer calls hide what issuing them costs
                hosts[name] = meter.host_us(calls[0])
            if launched and not is_ours(name):
                launches[name] = {"launched_us": meter.launched_us(calls[0])}
                then = WANTED.get((row["op"], row["shape"], name))
                if then and abs(row["flops"] / launches[name]["launched_us"] * 1e-6 / then - 1) > 0.05:
                    launches[name]["launched_warm_us"] = meter.launched_warm_us(calls[0])
        except Exception as error:  # noqa: BLE001: a peer that cannot do it is a row too
            recorded.pop(name, None)
            failures[name] = f"{type(error).__name__}: {str(error)[:160]}"
        for buffers in sets:
            buffers.restore()
    del want
    meter.all(recorded, sets, budget)
    rows = []
    for name in sets[0].calls:
        new = {key: row[key] for key in ("op", "shape", "dtype", "model", "phase", "calls", "bytes", "flops")}
        paged = ", paged," if name.endswith(" paged") else ""
        new.update(column="c_abi" if is_ours(name) else "peer", implementation=f"{implementations.get(name, '')}{paged} by the C ABI" if is_ours(name) else name)
        if name in failures or not recorded[name].samples:
            new.update(status="failed", note=failures.get(name, "no sample was ahead of the device"), us={"median": 0, "p10": 0, "p90": 0, "n": 0})
        else:
            new.update(status="ok", note="", us=spread(recorded[name].samples), method=recorded[name].method, relative_error=errors.get(name))
            if name in hosts:
                new["host_call_us"] = spread(hosts[name])
            new.update(launches.get(name, {}))
        rows.append(new)
        us = new["us"]["median"]
        print(f"  {row['op']:16s} {row['shape']:22s} {name:24s} " + (f"{us:10.2f} us {row['bytes'] / us * 1e-3:7.0f} GB/s {row['flops'] / us * 1e-6:8.1f} TFLOP/s"
              + ("" if new["method"].startswith("graph") else "  " + new["method"]) if us else new["note"]), flush=True)
    return rows


def is_ours(name):
    return name.startswith("monotile")


# Inputs and outputs of one element, in elements of the dtype (codes count by the byte): what an operator must move.
POINT_TRAFFIC = {"rms_norm": (2, 0), "add_rms_norm": (4, 0), "layer_norm": (2, 0), "softmax": (2, 0), "silu_mul": (3, 0), "bias_gelu": (3, 0), "quantise_int8": (1, 1),
                 "quantise_fp8": (1, 1), "add_rms_norm_quantise": (3, 1), "silu_mul_quantise": (2, 1), "gather_rows": (2, 0), "argmax": (1, 0)}


def points(count=60):
    """A fixed set: rows 1 to 16,384, columns 128 to 131,072, three dtypes, operators in turns."""
    chosen, seen = random.Random(60), set()
    operators = [op for op in POINT_TRAFFIC if op in BUILDERS]
    while len(seen) < count:
        op = operators[len(seen) % len(operators)]
        rows, cols = chosen.choice((1, 8, 64, 512, 4096, 16384)), chosen.choice((128, 1024, 2880, 4096, 5120, 7168, 14336, 32000, 131072))
        dtype = chosen.choice(("f16", "bf16", "f32"))
        if rows * cols > 1 << 28 or (op, rows, cols, dtype) in seen:
            continue
        seen.add((op, rows, cols, dtype))
        elements, codes = POINT_TRAFFIC[op]
        size = rows * cols * (elements * (4 if dtype == "f32" else 2) + codes)
        # A first guess of the time, for the number of calls in a graph: at 3 TB/s, and 3 us for a launch.
        yield {"op": op, "shape": f"{rows}x{cols}", "dtype": dtype, "model": "", "phase": "", "calls": 0, "bytes": size, "flops": 0, "us": {"median": 3 + size / 3e6}}


def report_points(rows):
    """Ours against the best peer: mean and the worst ten."""
    works = {}
    for row in rows:
        if row["status"] == "ok":
            works.setdefault((row["op"], row["shape"], row["dtype"]), {})["monotile" if row["column"] == "c_abi" else row["implementation"]] = row["us"]["median"]
    ratios = []
    for work, times in works.items():
        ours = times.pop("monotile", None)
        if ours and times:
            best = min(times, key=times.get)
            ratios.append((times[best] / ours, work, ours, best, times[best]))
    ratios.sort()
    if not ratios:
        return {}
    product = statistics.geometric_mean(r[0] for r in ratios)
    print(f"{len(ratios)} points: {sum(r[0] >= 1 for r in ratios)} at least as fast as the best peer, geometric mean {product:.2f} of its speed; the worst ten:")
    for ratio, work, ours, best, peer in ratios[:10]:
        print(f"  {ratio:5.2f}  {' '.join(work):44s} {ours:9.2f} us, {best} {peer:9.2f} us")
    return {"points": len(ratios), "not_slower": sum(r[0] >= 1 for r in ratios), "geometric_mean": product,
            "worst": [{"ratio": r[0], "work": r[1], "us": r[2], "peer": r[3], "peer_us": r[4]} for r in ratios[:10]]}


def shapes_of(result, everything):
    """One portable row per work, in order of first appearance; single shapes before the steps of models."""
    seen, rows = set(), []
    for row in result["rows"]:
        key = (row["op"], row["shape"], row["dtype"])
        if row["op"] not in BUILDERS or key in seen or row["status"] != "ok" or row["column"] != "portable" or (row["phase"] and not everything):
            continue
        seen.add(key)
        rows.append(row)
    return rows


def work_key(row):
    return row["op"], row["shape"], row["dtype"], row["phase"], row["model"]


def earlier_rows(earlier, rows):
    """Shapes that have an earlier figure and are not among `rows`, to be measured as well."""
    here = {(row["op"], row["shape"], row["dtype"]) for row in rows}
    for one in earlier["rows"]:
        key = (one["op"], one["shape"], one["dtype"])
        if key in here or one["op"] not in BUILDERS:
            continue
        here.add(key)
        size, flops = one.get("bytes", 0), one.get("flops", 0)
        # A first guess of the time, for the number of calls in a graph: at 3 TB/s or 500 TFLOP/s.
        yield {"op": one["op"], "shape": one["shape"], "dtype": one["dtype"], "model": "", "phase": "", "calls": 0, "bytes": size, "flops": flops,
               "us": {"median": 3 + max(size / 3e6, flops / 5e8)}}


def check(library):
    """Every builder on the CPU: the number of calls whose output is wrong."""
    global DEVICE
    DEVICE = "cpu"
    ours, wrong = Monotile(library, device="cpu"), 0
    sizes = {"rope": [5, 4, 2, 32], "gemm": [7, 33, 64], "gemm_int8": [17, 24, 64], "embedding": [9, 50, 64], "kv_append": [37, 2, 32], "copy_blocks": [5, 2, 32], "moe_router": [9, 16, 4],
             "moe_dispatch": [9, 64, 3], "moe_combine": [9, 64, 3], "top_k": [3, 1000, 20], "logprobs": [3, 1000, 5]}
    for op, builder in BUILDERS.items():
        if op == "gemm_fp8":  # torch has it for some devices only
            continue
        dims = [2, 32, 4, 2, 32] if op.startswith("attention") else sizes.get(op, [6, 256])
        for dtype in (torch.float32, torch.bfloat16):
            buffers = builder(dims, dtype, ours, None)
            want = buffers.expected() if buffers.expected else None
            for name in buffers.calls:
                if not is_ours(name) and not name.startswith("torch"):
                    continue
                result = buffers.result(name)
                error = error_of(result, want) if want is not None else 0.0
                # Where a 16-bit rounding lies before codes of 8 bits, some move by a step.
                bad = not error < (2e-2 if dtype == torch.bfloat16 else 1e-5)
                wrong += bad
                print(f"  {op:22s} {str(dtype)[6:]:9s} {name:12s} relative error {error:.2g}{'   WRONG' if bad else ''}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libmonotile_c.so of a CUDA build")
    parser.add_argument("--check", action="store_true", help="compare outputs on the CPU and time nothing")
    parser.add_argument("--json", help="result of monotile bench ops --json")
    parser.add_argument("--points", action="store_true", help="a fixed set of 60 shapes instead of those of --json; lists the worst ten")
    parser.add_argument("--out", help="the same with the peers' rows")
    parser.add_argument("--op", default="", help="only operators whose name holds this")
    parser.add_argument("--jit", type=int, default=15, help="shapes for which torch.compile and other compilers are run")
    parser.add_argument("--earlier", help="earlier figures (earlier.json): their shapes too, and every peer also timed as they were")
    parser.add_argument("--seconds", type=float, help="stop after this time (default 180; with --points or --earlier 480)")
    parser.add_argument("--budget", type=float, default=0.06, help="seconds of samples per implementation")
    parser.add_argument("--everything", action="store_true", help="the steps of models too")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    if arguments.check:
        return 1 if check(arguments.library) else 0
    if not arguments.out or not (arguments.json or arguments.points):
        parser.error("--out and one of --json, --points are needed")
    random.seed(0)
    start = time.perf_counter()
    result = {"environment": {}, "rows": [], "seconds": 0}
    if arguments.json:
        with open(arguments.json, encoding="utf-8") as file:
            result = json.load(file)
    if arguments.points:
        result["rows"] = []  # of --json only what was measured of the device itself
    earlier = {"rows": []}
    if arguments.earlier:
        with open(arguments.earlier, encoding="utf-8") as file:
            earlier = json.load(file)
        WANTED.update({(row["op"], row["shape"], row["peer"]): row.get("tflops", 0) for row in earlier["rows"]})
    seconds = arguments.seconds or (480 if arguments.points or arguments.earlier else 180)
    ours, meter = Monotile(arguments.library), Meter()
    import triton

    result["environment"]["peers"] = {"torch": torch.__version__, "triton": triton.__version__, "cudnn": torch.backends.cudnn.version(), "cuda": torch.version.cuda,
                                      "flag_gems": getattr(GEMS, "__version__", "")}
    jits, compiled = 0, []  # one shape of an operator is compiled, and those that have an earlier figure
    work = list(points()) if arguments.points else shapes_of(result, arguments.everything) + list(masked_rows())
    work += earlier_rows(earlier, work)
    if earlier["rows"]:  # what will be compared comes first
        work.sort(key=lambda row: not any((row["op"], row["shape"]) == one[:2] for one in WANTED))
    for row in work:
        if arguments.op not in row["op"]:
            continue
        if time.perf_counter() - start > seconds:
            result.setdefault("notes", []).append("peers: stopped by --seconds; later shapes have none")
            break
        jit = jits < (12 if arguments.points else arguments.jit) and row["op"] in COMPILED and row["op"] not in compiled
        jits += jit
        jit = jit or (row["op"], row["shape"], "torch.compile") in WANTED or (row["op"], row["shape"], "flex_attention") in WANTED
        if jit:
            compiled.append(row["op"])
        try:
            new = measure(row, ours, meter, jit, arguments.budget, launched=bool(earlier["rows"]))
            key = work_key(row)  # of a result that has peers already, what is measured again is replaced
            result["rows"] = [one for one in result["rows"] if one["column"] not in ("peer", "c_abi") or work_key(one) != key] + new
        except Exception as error:  # noqa: BLE001: what one shape cannot do, others can
            print(f"  {row['op']} {row['shape']}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            result.setdefault("notes", []).append(f"peers: {row['op']} {row['shape']} {row['dtype']} could not be measured ({type(error).__name__}: {str(error)[:120]})")
        try:
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
        except RuntimeError as error:
            result.setdefault("notes", []).append(f"peers: stopped, the device failed after {row['op']} {row['shape']} ({str(error)[:120]})")
            break
    if arguments.points:
        result["summary"] = report_points(result["rows"])
    # Rows of one work stand together.
    order = {}
    for row in result["rows"]:
        order.setdefault(work_key(row), len(order))
    result["rows"].sort(key=lambda row: order[work_key(row)])
    result["seconds"] += time.perf_counter() - start
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    print(f"{arguments.out}: {len(result['rows'])} rows, peers took {time.perf_counter() - start:.0f} s", flush=True)


GEMS = LIGER = FLASHINFER = None
if __name__ == "__main__":
    GEMS, LIGER, FLASHINFER = optional("flag_gems"), optional("liger_kernel"), optional("flashinfer")
    sys.exit(main())
