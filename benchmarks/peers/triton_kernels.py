"""Triton kernels of our own writing, as a careful user would write them: the peers of the portable tier."""

import triton
import triton.language as tl


@triton.jit
def add_rms_norm_kernel(x, residual, gamma, y, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    col = tl.arange(0, BLOCK)
    inside = col < cols
    h = tl.load(x + row + col, mask=inside, other=0.0).to(tl.float32)
    h += tl.load(residual + row + col, mask=inside, other=0.0).to(tl.float32)
    h = h.to(residual.dtype.element_ty)
    tl.store(residual + row + col, h, mask=inside)
    h = h.to(tl.float32)
    scale = tl.rsqrt(tl.sum(h * h, 0) / cols + eps)
    g = tl.load(gamma + col, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row + col, (h * scale * g).to(y.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm_kernel(x, gamma, y, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    col = tl.arange(0, BLOCK)
    inside = col < cols
    h = tl.load(x + row + col, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(h * h, 0) / cols + eps)
    g = tl.load(gamma + col, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row + col, (h * scale * g).to(y.dtype.element_ty), mask=inside)


@triton.jit
def silu_mul_kernel(gate, up, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    g = tl.load(gate + at, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at, (g * tl.sigmoid(g) * u).to(y.dtype.element_ty), mask=inside)


@triton.jit
def softmax_kernel(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * cols
    col = tl.arange(0, BLOCK)
    inside = col < cols
    v = tl.load(x + row + col, mask=inside, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row + col, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=inside)


@triton.jit
def rope_kernel(x, positions, cos, sin, heads, HALF: tl.constexpr, HEADS: tl.constexpr):
    """One program per token: all heads, half-split pairs, in place."""
    token = tl.program_id(0).to(tl.int64)
    pair = tl.arange(0, HALF)[None, :]
    head = tl.arange(0, HEADS)[:, None]
    inside = head < heads
    angle = tl.load(positions + token).to(tl.int64) * HALF + pair
    c, s = tl.load(cos + angle), tl.load(sin + angle)
    at = (token * heads + head) * (2 * HALF) + pair
    a = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(x + at + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(x + at, (a * c - b * s).to(x.dtype.element_ty), mask=inside)
    tl.store(x + at + HALF, (b * c + a * s).to(x.dtype.element_ty), mask=inside)


def warps_for(cols):
    return 4 if cols <= 2048 else 8 if cols <= 8192 else 16


def add_rms_norm(x, residual, gamma, y, eps=1e-6):
    cols = x.shape[-1]
    add_rms_norm_kernel[(x.shape[0],)](x, residual, gamma, y, cols, eps, BLOCK=triton.next_power_of_2(cols), num_warps=warps_for(cols))


def rms_norm(x, gamma, y, eps=1e-6):
    cols = x.shape[-1]
    rms_norm_kernel[(x.shape[0],)](x, gamma, y, cols, eps, BLOCK=triton.next_power_of_2(cols), num_warps=warps_for(cols))


def silu_mul(gate, up, y):
    silu_mul_kernel[(triton.cdiv(gate.numel(), 2048),)](gate, up, y, gate.numel(), BLOCK=2048, num_warps=8)


def softmax(x, y):
    cols = x.shape[-1]
    softmax_kernel[(x.shape[0],)](x, y, cols, BLOCK=triton.next_power_of_2(cols), num_warps=min(32, 2 * warps_for(cols)))


def rope(q, k, positions, cos, sin):
    for x in (q, k):
        tokens, heads, dim = x.shape
        rope_kernel[(tokens,)](x, positions, cos, sin, heads, HALF=dim // 2, HEADS=triton.next_power_of_2(heads), num_warps=8)
