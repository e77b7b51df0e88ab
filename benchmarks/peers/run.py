#!/usr/bin/env python3
"""What users would pick instead, measured beside Monotile: same shapes, same method, one process, one table.

    python3 benchmarks/peers/run.py --library build/cuda/lib/libmonotile_c.so --json ops.json --out merged.json

Peers: torch eager, torch.compile, SDPA (cuDNN, FlashAttention-2), FlexAttention, Triton kernels of our own writing, and
FlagGems, Liger, FlashInfer where they can be imported. --json names a result of `monotile bench ops --json`: its shapes are
taken, and the rows measured here are added to it (column "peer"; ours through the C ABI in column "c_abi").

Method, the same as the C++ harness: calls over rotating buffer sets recorded in a CUDA graph, the L2 flushed and a spin
queued before each replay, events around the replay, medians of up to 100. All implementations of one shape are sampled in
turns, in an order that is shuffled each time, so that a drift of the clocks hits all of them. Outputs are compared with an
fp32 computation before anything is timed.
"""

import argparse
import json
import random
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import triton_kernels
from monotile_c import (ActivationArgs, ArgmaxArgs, AttentionArgs, EmbeddingArgs, GemmArgs, Monotile, RmsNormArgs, RopeArgs, SoftmaxArgs)

JIT = ("torch.compile", "flex_attention")
DEVICE = "cuda"


def optional(module):
    try:
        return __import__(module)
    except Exception as error:  # noqa: BLE001: broken installations raise anything
        print(f"{module}: not importable ({type(error).__name__})", flush=True)
        return None


# ---- shapes: each builder makes one buffer set and returns {implementation: call}, the expected output, and where ours lies


def norm(dims, dtype, ours, fused, jit):
    rows, cols = dims
    x = torch.empty(rows, cols, device=DEVICE).uniform_(-1, 1).to(dtype)
    r = torch.empty(rows, cols, device=DEVICE).uniform_(-1, 1).to(dtype)
    g = torch.empty(cols, device=DEVICE).uniform_(0.5, 1.5).to(dtype)
    y = torch.empty_like(x)
    eps = 1e-6

    def eager():
        h = x + r if fused else x
        return F.rms_norm(h, (cols,), g, eps), h

    def expected():
        h = (x.float() + r.float()).to(dtype).float() if fused else x.float()
        return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps) * g.float()

    def result_of(call):
        keep = r.clone()
        out = call()
        out = y.clone() if out is None else (out[0] if isinstance(out, tuple) else out)
        r.copy_(keep)
        return out

    calls = {"torch eager": eager}
    if jit:
        compiled = jit(lambda x, r: (F.rms_norm(x + r, (cols,), g, eps), x + r) if fused else F.rms_norm(x, (cols,), g, eps))
        calls["torch.compile"] = lambda: compiled(x, r)
    if fused:
        calls["triton"] = lambda: triton_kernels.add_rms_norm(x, r, g, y, eps)
        calls["monotile"] = ours.call("add_rms_norm", RmsNormArgs, y=y, residual=r, x=x, gamma=g, eps=eps)
        if GEMS:
            calls["flag_gems"] = lambda: GEMS.fused_add_rms_norm(x, r, [cols], g, eps)
        if FLASHINFER:
            scratch = x.clone()

            def flashinfer():
                FLASHINFER.norm.fused_add_rmsnorm(scratch, r, g, eps)
                return None

            calls["flashinfer"] = flashinfer
    else:
        calls["triton"] = lambda: triton_kernels.rms_norm(x, g, y, eps)
        calls["monotile"] = ours.call("rms_norm", RmsNormArgs, y=y, x=x, gamma=g, eps=eps)
        if LIGER:
            from liger_kernel.ops.rms_norm import rms_norm_forward

            calls["liger"] = lambda: rms_norm_forward(x, g, eps, 0.0, "llama", False)[0]
    return calls, expected, result_of


def rope(dims, dtype, ours, jit):
    tokens, heads, kv_heads, dim = dims
    q = torch.empty(tokens, heads, dim, device=DEVICE).uniform_(-1, 1).to(dtype)
    k = torch.empty(tokens, kv_heads, dim, device=DEVICE).uniform_(-1, 1).to(dtype)
    positions = (torch.arange(tokens, device=DEVICE) % 2048).to(torch.int32)
    angle = torch.arange(2048, device=DEVICE, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, dim, 2, device=DEVICE, dtype=torch.float64) / dim)[None]
    cos, sin = angle.cos().float(), angle.sin().float()
    wide_cos, wide_sin = (torch.cat((t, t), -1).to(dtype)[positions.long()][:, None] for t in (cos, sin))

    def rotated(x):
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)

    def eager(q=q, k=k):
        return q * wide_cos + rotated(q) * wide_sin, k * wide_cos + rotated(k) * wide_sin

    def expected():
        c, s = (torch.cat((t, t), -1)[positions.long()][:, None] for t in (cos, sin))
        return q.float() * c + rotated(q.float()) * s

    def result_of(call):
        keep = q.clone(), k.clone()
        out = call()
        out = q.clone() if out is None else out[0]
        q.copy_(keep[0])
        k.copy_(keep[1])
        return out

    calls = {"torch eager": eager, "triton": lambda: triton_kernels.rope(q, k, positions, cos, sin),
             "monotile": ours.call("rope", RopeArgs, q_out=q, k_out=k, q=q, k=k, positions=positions, cos=cos, sin=sin)}
    if jit:
        compiled = jit(eager)
        calls["torch.compile"] = lambda: compiled(q, k)
    if GEMS:
        half_cos, half_sin = cos.to(dtype), sin.to(dtype)
        calls["flag_gems"] = lambda: GEMS.apply_rotary_pos_emb(q, k, half_cos, half_sin, positions)
    return calls, expected, result_of


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
    return calls, lambda: F.silu(gate.float()) * up.float(), simple(y)


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
    return calls, lambda: torch.softmax(x.float(), -1), simple(y)


def gemm(dims, dtype, ours, jit):
    m, n, k = dims
    a = torch.empty(m, k, device=DEVICE, dtype=dtype).uniform_(-1, 1)
    b = torch.empty(n, k, device=DEVICE, dtype=dtype).uniform_(-1, 1)
    c = torch.empty(m, n, device=DEVICE, dtype=dtype)
    calls = {"torch (cuBLAS)": lambda: torch.mm(a, b.t(), out=c), "monotile": ours.call("gemm", GemmArgs, c=c, a=a, b=b)}
    rows = slice(0, min(m, 64))

    def expected():
        return a[rows].double() @ b.double().t() if b.numel() < 1 << 27 else (a[rows].float() @ b.float().t())

    def result_of(call):
        c.fill_(float("nan"))
        call()
        return c[rows].clone()

    return calls, expected, result_of


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
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def sdpa(backend):
        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(qt, k, v, is_causal=causal and not decode, enable_gqa=heads != kv_heads)

        return call

    starts = torch.arange(0, batch * queries + 1, queries, device=DEVICE, dtype=torch.int32)
    lengths = torch.full((batch,), keys, device=DEVICE, dtype=torch.int32)
    flat_q, flat_out = q.reshape(batch * queries, heads, dim), out.reshape(batch * queries, heads, dim)
    calls = {"cuDNN (SDPA)": sdpa(SDPBackend.CUDNN_ATTENTION), "FlashAttention-2 (SDPA)": sdpa(SDPBackend.FLASH_ATTENTION),
             "monotile": ours.call("attention", AttentionArgs, out=flat_out, q=flat_q, key_cache=cache[0], value_cache=cache[1], block_table=table, q_start=starts,
                                   kv_length=lengths, max_query=queries, causal=int(causal))}
    if jit and not decode:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        compiled = torch.compile(flex_attention, dynamic=False)
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, keys, keys, device=DEVICE) if causal else None
        calls["flex_attention"] = lambda: compiled(qt, k, v, block_mask=mask, enable_gqa=heads != kv_heads)

    def expected():
        return F.scaled_dot_product_attention(qt[:1, :1].float(), k[:1, :1].float(), v[:1, :1].float(), is_causal=causal and not decode)

    def result_of(call):
        result = call()
        result = out.transpose(1, 2) if result is None else result
        return result[:1, :1].clone()

    return calls, expected, result_of


def embedding(dims, dtype, ours, jit):
    tokens, vocabulary, cols = dims
    table = torch.empty(vocabulary, cols, device=DEVICE, dtype=dtype).uniform_(-1, 1)
    ids = torch.randint(0, vocabulary, (tokens,), device=DEVICE, dtype=torch.int32)
    y = torch.empty(tokens, cols, device=DEVICE, dtype=dtype)
    return ({"torch eager": lambda: F.embedding(ids, table), "monotile": ours.call("embedding", EmbeddingArgs, y=y, table=table, ids=ids, scale=1.0)},
            lambda: table[ids.long()].float(), simple(y))


def argmax(dims, dtype, ours, jit):
    x = torch.empty(*dims, device=DEVICE).uniform_(-8, 8).to(dtype)
    ids = torch.empty(dims[0], device=DEVICE, dtype=torch.int32)
    return {"torch eager": lambda: torch.argmax(x, -1), "monotile": ours.call("argmax", ArgmaxArgs, ids=ids, logits=x)}, None, simple(ids)


BUILDERS = {
    "add_rms_norm": lambda d, t, o, j: norm(d, t, o, True, j), "rms_norm": lambda d, t, o, j: norm(d, t, o, False, j), "rope": rope, "silu_mul": silu_mul,
    "softmax": softmax, "gemm": gemm, "embedding": embedding, "argmax": argmax,
    "attention_causal": lambda d, t, o, j: attention(d, t, o, j, True), "attention_full": lambda d, t, o, j: attention(d, t, o, j, False),
    "attention_decode": lambda d, t, o, j: attention(d, t, o, j, True, True),
}
TORCH_DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


# ---- measuring


class Recorded:
    """Calls over all buffer sets in one graph; the time of one call is a sample."""

    def __init__(self, calls):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for call in calls[:2]:
                call()
                call()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.graph, self.count, self.samples, self.keep = torch.cuda.CUDAGraph(), len(calls), [], []
        with torch.cuda.graph(self.graph):
            for call in calls:
                self.keep.append(call())
        self.keep = []
        self.graph.replay()
        torch.cuda.synchronize()


class Meter:
    def __init__(self):
        self.l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.waste = torch.empty(2 * self.l2, dtype=torch.uint8, device=DEVICE)
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def sample(self, recorded):
        self.waste.zero_()
        torch.cuda._sleep(60_000)
        self.begin.record()
        recorded.graph.replay()
        ahead = not self.begin.query()
        self.end.record()
        self.end.synchronize()
        if ahead:
            recorded.samples.append(1e3 * self.begin.elapsed_time(self.end) / recorded.count)

    def all(self, recorded, budget):
        """In turns, shuffled, up to 100 samples of each."""
        start, live = time.perf_counter(), list(recorded.values())
        for turn in range(100):
            random.shuffle(live)
            for one in live:
                self.sample(one)
            if turn >= 9 and time.perf_counter() - start > budget * len(live):
                break

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


def measure(row, ours, meter, jit, budget):
    """Rows of all peers for the shape of `row`."""
    dims, dtype = [int(d) for d in row["shape"].split("x")], TORCH_DTYPES[row["dtype"]]
    builder = BUILDERS[row["op"]]
    nodes = 50 if row["us"]["median"] < 20 else max(1, min(50, int(1000 / row["us"]["median"])))
    sets = int(min(50, max(2, 4 * meter.l2 // row["bytes"] + 1)))
    nodes = min(nodes, sets) if sets * row["bytes"] < 2 * meter.l2 else nodes
    compile_function = (lambda f: torch.compile(f, dynamic=False)) if jit else None
    built = [builder(dims, dtype, ours, compile_function) for _ in range(sets)]
    recorded, failures, errors, hosts, implementations = {}, {}, {}, {}, {}
    for name in built[0][0]:
        calls = [b[0][name] for b in built]
        try:
            result = built[0][2](calls[0])
            if built[0][1] is not None and name != "flashinfer":
                want = built[0][1]()
                errors[name] = ((result.double() - want.double()).norm() / want.double().norm()).item()
                if not errors[name] < 2e-2:
                    raise ValueError(f"relative error {errors[name]:.3g}")
            recorded[name] = Recorded([calls[i % sets] for i in range(nodes)])
            implementations[name] = ours.implementation() if name == "monotile" else name
            if row["us"]["median"] < 30:
                hosts[name] = meter.host_us(calls[0])
        except Exception as error:  # noqa: BLE001: a peer that cannot do it is a row too
            failures[name] = f"{type(error).__name__}: {str(error)[:160]}"
    meter.all(recorded, budget)
    rows = []
    for name in built[0][0]:
        new = {key: row[key] for key in ("op", "shape", "dtype", "model", "phase", "calls", "bytes", "flops")}
        ours_here = name == "monotile"
        new.update(column="c_abi" if ours_here else "peer", implementation=f"{implementations.get(name, '')} by the C ABI" if ours_here else name)
        if name in failures or not recorded[name].samples:
            new.update(status="failed", note=failures.get(name, "no sample was ahead of the device"), us={"median": 0, "p10": 0, "p90": 0, "n": 0})
        else:
            new.update(status="ok", note="", us=spread(recorded[name].samples), method=f"graph of {nodes}, cold", relative_error=errors.get(name))
            if name in hosts:
                new["host_call_us"] = spread(hosts[name])
        rows.append(new)
        us = new["us"]["median"]
        print(f"  {row['op']:16s} {row['shape']:22s} {name:24s} " + (f"{us:10.2f} us {row['bytes'] / us * 1e-3:7.0f} GB/s {row['flops'] / us * 1e-6:8.1f} TFLOP/s" if us else new["note"]),
              flush=True)
    return rows


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libmonotile_c.so of a CUDA build")
    parser.add_argument("--json", required=True, help="result of monotile bench ops --json")
    parser.add_argument("--out", required=True, help="the same with the peers' rows")
    parser.add_argument("--op", default="", help="only operators whose name holds this")
    parser.add_argument("--jit", type=int, default=15, help="shapes for which torch.compile and other compilers are run")
    parser.add_argument("--seconds", type=float, default=180, help="stop after this time")
    parser.add_argument("--budget", type=float, default=0.06, help="seconds of samples per implementation")
    parser.add_argument("--everything", action="store_true", help="the steps of models too")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    start = time.perf_counter()
    with open(arguments.json, encoding="utf-8") as file:
        result = json.load(file)
    ours, meter = Monotile(arguments.library), Meter()
    import triton

    result["environment"]["peers"] = {"torch": torch.__version__, "triton": triton.__version__, "cudnn": torch.backends.cudnn.version(), "cuda": torch.version.cuda}
    jits = 0
    for row in shapes_of(result, arguments.everything):
        if arguments.op not in row["op"]:
            continue
        if time.perf_counter() - start > arguments.seconds:
            result.setdefault("notes", []).append("peers: stopped by --seconds; later shapes have none")
            break
        jit = jits < arguments.jit and row["op"] in ("add_rms_norm", "rope", "silu_mul", "softmax", "attention_causal", "attention_full")
        jits += jit
        try:
            result["rows"] += measure(row, ours, meter, jit, arguments.budget)
        except torch.OutOfMemoryError as error:
            print(f"  {row['op']} {row['shape']}: {error}", flush=True)
        torch.cuda.empty_cache()
    # Rows of one work stand together.
    order = {}
    for row in result["rows"]:
        order.setdefault((row["op"], row["shape"], row["dtype"], row["phase"], row["model"]), len(order))
    result["rows"].sort(key=lambda r: order[(r["op"], r["shape"], r["dtype"], r["phase"], r["model"])])
    result["seconds"] += time.perf_counter() - start
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    print(f"{arguments.out}: {len(result['rows'])} rows, peers took {time.perf_counter() - start:.0f} s", flush=True)


GEMS = LIGER = FLASHINFER = None
if __name__ == "__main__":
    GEMS, LIGER, FLASHINFER = optional("flag_gems"), optional("liger_kernel"), optional("flashinfer")
    sys.exit(main())
