"""Biases that read queries and keys: what each adds written out, gradients, memory, a step of decoding."""

import math

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from posenc import T5, CoPE, DeBERTa, Encoding, Mask, Shaw, TransformerXL, attention
from posenc.positions import arange, packed
from support import reference
from support.attending import same_gradients
from support.memory import peak_bytes

H, K, D, C = 4, 2, 6, 12


def made(name: str) -> Encoding:
    encodings = {
        "shaw": lambda: Shaw(D, H, behind=5, ahead=2, std=1.0),
        "transformer-xl": lambda: TransformerXL(C, H, D),
        "transformer-xl, sines first": lambda: TransformerXL(C, H, D, order="block"),
        "deberta": lambda: DeBERTa(D, H, buckets=8, max_distance=20, std=1.0),
        "cope": lambda: CoPE(D, H, positions=5, std=1.0),
    }
    return encodings[name]().double()


def given(T: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, and k and v with half as many heads."""
    q, k, v = (torch.randn(2, heads, T, D, dtype=torch.float64, requires_grad=True) for heads in (H, K, K))
    return q, k, v


def written_out(e: Encoding, q: Tensor, k: Tensor, seen: Tensor, p: Tensor) -> Tensor:
    """The bias of one head at a time and one pair at a time, from its formula; p are positions ``(T,)``."""
    T, bias = q.shape[2], []
    k = k.repeat_interleave(H // K, dim=1)
    for h in range(H):
        for i in range(T):
            gates = ((q[:, h, i : i + 1] * k[:, h]).sum(-1) / math.sqrt(D)).sigmoid() * seen[i]
            for j in range(T):
                bias.append(pair(e, h, q[:, h, i], k[:, h, j], int(p[i] - p[j]), gates[:, j:].sum(-1)))
    return torch.stack(bias, dim=-1).unflatten(-1, (H, T, T))


def pair(e: Encoding, h: int, q: Tensor, k: Tensor, n: int, counted: Tensor) -> Tensor:
    """What is added to q·k/√D where the query stands n after the key."""
    if isinstance(e, Shaw):
        return q @ e.weight[min(max(-n, -5), 2) + 5] / math.sqrt(D)
    if isinstance(e, TransformerXL):
        theta = 10_000.0 ** (-torch.arange(C // 2, dtype=torch.float64) / (C // 2))
        wave = torch.stack(((n * theta).sin(), (n * theta).cos()), dim=0 if e.order == "block" else -1).flatten()
        return (k @ e.u[h] + (q + e.v[h]) @ (e.weight @ wave).view(H, D)[h]) / math.sqrt(D)
    if isinstance(e, DeBERTa):
        m = 4
        size = (
            n
            if abs(n) <= m
            else math.copysign(math.ceil(math.log(abs(n) / m) / math.log(19 / m) * (m - 1) - 1e-9) + m, n)
        )
        row = min(max(int(size) + 8, 0), 15)
        keys, queries = (table.view(16, H, D)[row, h] for table in (e.keys, e.queries))
        return (q @ keys + k @ queries) / math.sqrt(D)
    at = counted.clamp(max=4)
    low = at.floor().long().clamp(max=3)
    rows = [(q * e.weight[low + step]).sum(-1) for step in (0, 1)]
    return rows[0] + (at - low) * (rows[1] - rows[0])


@pytest.mark.parametrize("how", ["whole", "packed", "two-sided"])
@pytest.mark.parametrize("name", ["shaw", "transformer-xl", "transformer-xl, sines first", "deberta", "cope"])
def test_values_and_gradients_are_those_of_the_formula(name: str, how: str) -> None:
    T, e = 10, made(name)
    q, k, v = given(T)
    causal = how != "two-sided"
    at, mask, seen = arange(T), Mask(causal=causal), reference.visible(T, T, causal=causal)
    if how == "packed":
        at, segments = packed([3, 7])
        mask, seen = Mask(causal=True, q_segments=segments), seen & (segments == segments[:, None])
    y = attention(q, k, v, e.at(at, dtype=torch.float64), mask)
    want = reference.attention(q, k, v, written_out(e, q, k, seen, at), seen)
    torch.testing.assert_close(y, want, rtol=0, atol=1e-12)
    same_gradients(y, want, [q, k, v, *e.parameters()], 1e-11)


LEARNED = (
    Shaw(D, H, behind=5, ahead=2),
    TransformerXL(C, H, D),
    DeBERTa(D, H, buckets=8, max_distance=20),
    CoPE(D, H, positions=5),
    T5(H),
)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("encoding", LEARNED, ids=lambda encoding: encoding.name)
def test_memory_grows_linearly(encoding: Encoding) -> None:
    """Twice the length takes about twice the memory, training included; T×S of anything would take four times.

    In blocks an eighth as tall as usual, so that an eighth of the length still has many.
    """

    def step(length: int) -> int:
        q, k, v = (x.requires_grad_() for x in torch.randn(3, 1, H, length, D))

        def train() -> Tensor:
            loss = attention(q, k, v, encoding.at(arange(length)), causal=True).square().mean()
            return torch.autograd.grad(loss, [q, *encoding.parameters()])[0]

        return peak_bytes(train)

    assert step(256) < 2.3 * step(128)


def test_a_token_that_meets_a_cache_maps_no_table_of_distances() -> None:
    """W times the sinusoids of all distances is C·D products a key and head; a token needs C + D of them."""
    length, encoding = 512, TransformerXL(32, 4, 8)
    q, k = torch.randn(1, 4, 1, 8), torch.randn(1, 4, length, 8)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        attention(q, k, k, encoding.at(arange(1, offset=length - 1), arange(length)), causal=True)
    assert counted.get_total_flops() < 4 * length * 4 * (32 + 2 * 8)


def test_a_vector_that_far_offsets_share_is_multiplied_once() -> None:
    """Of 511 offsets in a block of 256 tokens, eight have vectors of their own."""
    length, encoding = 256, Shaw(D, H, behind=5, ahead=2)
    q, k, _ = given(length)
    bias = encoding.at(arange(length)).bias.meeting(q.float(), k.float(), 1.0)
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        bias.rows(0, length, length)
    assert counted.get_total_flops() == 2 * 2 * H * length * D * (5 + 1 + 2)
