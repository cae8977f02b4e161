"""On a GPU: every encoding of the catalogue, rotating, biasing and hiding, held to float64 on the processor.

Skipped where there is none. ``python -m pytest -n 0 tests/test_cuda.py`` needs posenc, torch and pytest.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc
from posenc import Encoding, Mask, attention, explain, positions
from posenc.attend import blocks, ways
from posenc.attend.blocks import ROWS

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    pytest.mark.usefixtures("unchecked", "as_users_run_it"),
    pytest.mark.filterwarnings("default"),  # compilers for GPUs warn of the card's own possibilities
]

WIDTH, HEADS, KEY_HEADS, LENGTH = 128, 4, 2, ROWS + 76
"""More queries than blocks of rows have, so that FlexAttention serves; a length that no block divides."""

WITHIN = {torch.float32: 1e-4, torch.bfloat16: 0.04, torch.float16: 5e-3}
"""Relative to 1 + |exact|. A gradient sums some 400 products of at most 4, and each may lose 2^-24 in float32;
in 16 bits the half dozen roundings of what is stored count for more."""

ROUNDED = {torch.float32: 2e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11}
"""What rotation may lose: one rounding to the type, and in float32 the four of its arithmetic."""

TYPES = pytest.mark.parametrize("dtype", list(WITHIN), ids=lambda dtype: str(dtype).removeprefix("torch."))
PLAIN = [
    name
    for name in posenc.CATALOGUE
    if posenc.encoding(name, width=WIDTH, heads=HEADS, head_dim=32, num_positions=LENGTH).axes == 1
]
MASKS: dict[str, Callable[[torch.device], tuple[Tensor, Mask]]] = {
    "causal": lambda device: (positions.arange(LENGTH, device=device), Mask(causal=True)),
    "both ways": lambda device: (positions.arange(LENGTH, device=device), Mask()),
    "window": lambda device: (positions.arange(LENGTH, device=device), Mask(causal=True, window=60)),
    "left padding": lambda device: padded(device),
    "documents": lambda device: packed(device),
}


@pytest.fixture
def as_users_run_it() -> Iterator[None]:
    """Without deterministic algorithms, which CUDA has not of all that attention calls."""
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(True)


def padded(device: torch.device) -> tuple[Tensor, Mask]:
    seen = torch.arange(LENGTH, device=device) >= torch.tensor([[0], [37]], device=device)
    return positions.left_padded(seen), Mask(causal=True, key_mask=seen)


def packed(device: torch.device) -> tuple[Tensor, Mask]:
    at, segments = positions.packed([50, 100, LENGTH - 150], device=device)
    return at, Mask(causal=True, q_segments=segments)


def made(name: str) -> Encoding:
    """The catalogue's encoding with weights that are drawn, the same whoever asks."""
    torch.manual_seed(0)
    encoding = posenc.encoding(name, width=WIDTH, heads=HEADS, head_dim=32, num_positions=LENGTH)
    for weights in encoding.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    return encoding.requires_grad_(False)


def drawn(dtype: torch.dtype, length: int = LENGTH) -> tuple[Tensor, ...]:
    """x, q, k, v and a gradient, which their type can hold."""
    generator = torch.Generator().manual_seed(1)
    shapes = (2, length, WIDTH), *((2, heads, length, 32) for heads in (HEADS, KEY_HEADS, KEY_HEADS, HEADS))
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


def whole(encoding: Encoding, at: Tensor, mask: Mask, inputs: tuple[Tensor, ...], **settings: Any) -> list[Tensor]:
    """Attention under an encoding, and the gradients of q, k and v."""
    x, q, k, v, grad = inputs
    leaves = [t.clone().requires_grad_() for t in (q, k, v)]
    placed = encoding.at(at).with_content(x)[0]
    y = attention(*placed.rotate(*leaves[:2]), leaves[2], placed, mask, **settings)
    return [y, *torch.autograd.grad(y, leaves, grad)]


def exact(
    name: str, of_mask: Callable[[torch.device], tuple[Tensor, Mask]], inputs: tuple[Tensor, ...], **settings: Any
) -> list[Tensor]:
    """The same on the processor, in float64."""
    return whole(made(name).double(), *of_mask(torch.device("cpu")), tuple(t.double() for t in inputs), **settings)


def assert_near(got: list[Tensor], want: list[Tensor], within: float) -> None:
    """Relative to 1 + |exact|."""
    torch.testing.assert_close([x.double().cpu() for x in got], want, rtol=within, atol=within)


def on_gpu(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(t.cuda() for t in inputs)


@pytest.mark.parametrize(
    ("name", "hides", "dtype"),
    [
        *itertools.product(PLAIN, ["causal"], [torch.float32, torch.bfloat16]),
        *itertools.product([name for name in PLAIN if name != "xpos"], ["causal"], [torch.float16]),  # refused
        *itertools.product(["nope", "rotary", "alibi", "t5", "kerple"], [*MASKS][1:], [torch.float32]),
    ],
    ids=str,
)
def test_attention_under_every_encoding_whatever_hides_keys(name: str, hides: str, dtype: torch.dtype) -> None:
    inputs = drawn(dtype)
    got = whole(made(name).cuda(), *MASKS[hides](torch.device("cuda")), on_gpu(inputs))
    assert_near(got, exact(name, MASKS[hides], inputs), WITHIN[dtype])


@pytest.mark.parametrize("name", ["nope", "alibi", "t5"])
@pytest.mark.parametrize("asked", ["softcap", "sinks", "logsumexp"])
def test_what_torch_does_not_serve(name: str, asked: str) -> None:
    inputs = drawn(torch.float32)[1:]
    settings: dict[str, dict[str, Any]] = {
        "softcap": {"softcap": 2.0},
        "sinks": {"sinks": torch.linspace(-1, 2, HEADS)},
        "logsumexp": {"return_logsumexp": True},
    }

    def run(device: str, dtype: torch.dtype) -> list[Tensor]:
        q, k, v = (t.to(device, dtype) for t in inputs[:3])
        placed = made(name).to(device, dtype).at(positions.arange(LENGTH, device=device))
        given = {n: s.to(device, dtype) if isinstance(s, Tensor) else s for n, s in settings[asked].items()}
        if device == "cuda":
            assert explain(q, k, v, placed, causal=True, **given).backend == "flex"
        y = attention(q, k, v, placed, causal=True, **given)
        return list(y) if isinstance(y, tuple) else [y]

    assert_near(run("cuda", torch.float32), run("cpu", torch.float64), WITHIN[torch.float32])


@TYPES
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "recomputed"])
@pytest.mark.parametrize("name", ["t5", "kerple", "fire", "shaw", "cope"])
def test_what_a_bias_learns(name: str, kept: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of its parameters, with all scores kept and block by block."""
    inputs, (_, mask) = drawn(dtype), MASKS["causal"](torch.device("cpu"))
    if not kept:
        monkeypatch.setattr(ways, "FEW_SCORES", 0)
        monkeypatch.setattr(blocks, "BLOCK_SCORES", 64 * LENGTH * HEADS * 2)
        monkeypatch.setattr(blocks, "TRAINING_ROWS", 64)

    def run(device: str, wide: torch.dtype) -> list[Tensor]:
        encoding, at = made(name).to(device).requires_grad_(), positions.arange(LENGTH, device=device)
        encoding = encoding.double() if device == "cpu" else encoding
        x, q, k, v, grad = (t.to(device, wide) for t in inputs)
        placed = encoding.at(at).with_content(x)[0]
        if device == "cuda":
            assert (explain(q, k, v, placed, mask).backend == "dense") == kept
        y = attention(q, k, v, placed, mask)
        return list(torch.autograd.grad(y, list(encoding.parameters()), grad))

    # Recomputed, the rounding of what comes out enters every row's sum over its 32 channels, and a number that is
    # added to whole rows, such as FIRE's last bias, sums that over all rows as a random walk.
    walk = torch.finfo(dtype).eps / 2 * math.sqrt(2 * LENGTH * 32)
    for got, want in zip(run("cuda", dtype), run("cpu", torch.float64), strict=True):
        assert_near([got], [want], WITHIN[dtype] * (1 + float(want.abs().max())) + walk)


@TYPES
@pytest.mark.parametrize("name", ["rotary", "alibi", "t5", "kerple", "nope"])
def test_a_decoding_step(name: str, dtype: torch.dtype) -> None:
    _, q, k, v, _ = drawn(dtype)

    def run(device: str, wide: torch.dtype | None = None) -> list[Tensor]:
        encoding, at = made(name).to(device), positions.arange(LENGTH, device=device)
        encoding = encoding if wide is None else encoding.double()
        step, keys, values = (t.to(device, wide or dtype) for t in (q[:, :, -1:], k, v))
        turned, _ = encoding.at(at[-1:]).rotate(step, None)
        _, rotated = encoding.at(at).rotate(None, keys)
        return [attention(turned, rotated, values, encoding.at(at[-1:], at), causal=True)]

    assert_near(run("cuda"), run("cpu", torch.float64), WITHIN[dtype])


@TYPES
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.parametrize(
    ("length", "start", "compiled"), [(256, 0, False), (256, 2**31 - 300, False), (2048, 0, True)]
)
def test_rotation_is_exact_at_any_position(
    pairing: str, length: int, start: int, compiled: bool, dtype: torch.dtype
) -> None:
    """As its gradients are, compiled too."""
    _, q, k, _, grad = drawn(dtype, length)

    def run(device: str, wide: torch.dtype) -> list[Tensor]:
        placed = posenc.Rotary(32, pairing=pairing).to(device).at(positions.arange(length, device=device) + start)
        turn = torch.compile(lambda q, k: placed.rotate(q, k)) if compiled and device == "cuda" else placed.rotate
        leaves = [t.to(device, wide).requires_grad_() for t in (q, k)]
        grads = grad.to(device, wide), grad[:, :KEY_HEADS].to(device, wide)
        turned = turn(*leaves)
        return [*turned, *torch.autograd.grad(turned, leaves, grads)]

    assert_near(run("cuda", dtype), run("cpu", torch.float64), ROUNDED[dtype])


@pytest.mark.parametrize("name", ["rotary", "alibi", "t5", "fox"])
def test_compiled_it_computes_the_same(name: str) -> None:
    inputs, hides = drawn(torch.float32), MASKS["causal"]
    encoding, (at, mask) = made(name).cuda(), hides(torch.device("cuda"))

    @torch.compile
    def layer(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        placed = encoding.at(at).with_content(x)[0]
        return attention(*placed.rotate(q, k), v, placed, mask)

    leaves = [t.clone().requires_grad_() for t in on_gpu(inputs[1:4])]
    y = layer(inputs[0].cuda(), *leaves)
    got = [y, *torch.autograd.grad(y, leaves, inputs[4].cuda())]
    assert_near(got, exact(name, hides, inputs), WITHIN[torch.float32])


def test_numbers_that_differ_from_call_to_call() -> None:
    """A compiler takes a number for a constant until it meets a second one."""
    _, *inputs = drawn(torch.float32)

    def run(device: str, dtype: torch.dtype) -> list[Tensor]:
        q, k, v = (t.to(device, dtype) for t in inputs[:3])
        made, at = [], positions.arange(LENGTH, device=device)
        for span, window, softcap, scale in ((8, 20, 2.0, 0.1), (16, 30, 3.0, 0.2), (24, 40, 4.0, 0.3)):
            t5 = posenc.T5(HEADS, buckets=span, max_distance=2 * span).requires_grad_(False)
            t5.weight.copy_(torch.linspace(-1, 1, t5.weight.numel()).view_as(t5.weight))
            for placed in (t5.to(device, dtype).at(at), posenc.NoPE().at(at)):
                made.append(attention(q, k, v, placed, window=window, softcap=softcap, scale=scale))
                made.append(attention(q, k, v, placed, causal=True, window=window, scale=scale))
        return made

    assert_near(run("cuda", torch.float32), run("cpu", torch.float64), WITHIN[torch.float32])


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_compiled_rotation_is_one_kernel(pairing: str) -> None:
    """q and k are read once and written once: no tensor of their size lies between."""
    q, k = (torch.randn(2, 8, 2048, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    placed = posenc.Rotary(64, pairing=pairing).cuda().at(positions.arange(2048, device="cuda"))
    turn = torch.compile(lambda q, k: placed.rotate(q, k))
    turn(q, k)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kept = turn(q, k)
    assert torch.cuda.max_memory_allocated() - before <= sum(t.nbytes for t in kept) + 2**20


@pytest.mark.parametrize("name", ["nope", "alibi", "t5"])
def test_no_square_is_held(name: str) -> None:
    """Of 16,384 tokens a square of one head is 512 MiB in bfloat16; forward and backward stay below a fourth."""
    length, encoding = 16_384, made(name).cuda()
    q, k, v = (
        torch.randn(1, 2, length, 32, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)
    )
    heads = posenc.ALiBi(2).cuda() if name == "alibi" else posenc.T5(2).cuda().requires_grad_(False)
    placed = (encoding if name == "nope" else heads).at(positions.arange(length, device="cuda"))
    for window in (None, 1024):
        attention(q, k, v, placed, causal=True, window=window).sum().backward()  # compiled before it is measured
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        attention(q, k, v, placed, causal=True, window=window).sum().backward()
        assert torch.cuda.max_memory_allocated() - before < math.prod((length, length)) // 2


def test_positions_that_differ_wait_for_nothing() -> None:
    """No call reads the GPU: a training step's work is queued without a stop."""
    encoding, inputs = made("alibi").cuda(), on_gpu(drawn(torch.bfloat16))
    at, mask = MASKS["causal"](torch.device("cuda"))
    whole(encoding, at, mask, inputs)
    torch.cuda.set_sync_debug_mode("error")
    try:
        whole(encoding, at, mask, inputs)
    finally:
        torch.cuda.set_sync_debug_mode("default")
