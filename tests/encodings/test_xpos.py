"""xPos: golden ζ, scores by their formula at any distance, caches that stay valid, no overflow in float16."""

import math

import pytest
import torch

import posenc
from posenc import Mask, NoPE, XPos, attention, scores
from posenc.attend import decay
from posenc.errors import InvalidArgument
from posenc.positions import arange, packed
from posenc.workbench.run.transformer import Transformer, TransformerConfig


def test_the_golden_factors() -> None:
    """D=64: ζ = .285714, .308036 … .977679; 512 tokens back pair 0 keeps 28.6 %."""
    kept = [math.exp(512 * x) for x in XPos(64, pairing="half").fading]
    assert kept[:2] == pytest.approx([0.285714, 0.308036], abs=5e-7)
    assert kept[-1] == pytest.approx(0.977679, abs=5e-7)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_scores_by_complex_numbers(pairing: str) -> None:
    """The paper's formula once more, with complex pairs and real powers, in float64."""
    q, k = torch.randn(2, 1, 2, 6, 8, dtype=torch.float64)
    at = torch.tensor([0, 3, 100, 1000, 5000, 5001])
    encoding = XPos(8, pairing=pairing)  # type: ignore[arg-type]
    placed = encoding.at(at, dtype=torch.float64)

    def pairs(x: torch.Tensor) -> torch.Tensor:
        split = x.unflatten(-1, (2, 4)).mT if pairing == "half" else x.unflatten(-1, (4, 2))
        return torch.view_as_complex(split.contiguous())

    n = (at[:, None] - at[None]).double()
    want = torch.zeros(1, 2, 6, 6, dtype=torch.float64)
    for i in range(4):
        zeta, theta = (2 * i / 8 + 0.4) / 1.4, 10_000 ** (-2 * i / 8)
        turn = zeta ** (n / 512) * torch.exp(1j * n * theta)
        want += (pairs(q)[..., :, None, i] * pairs(k).conj()[..., None, :, i] * turn).real
    got = scores(*placed.rotate(q, k), placed, causal=True, scale=1.0)
    past = n >= 0
    torch.testing.assert_close(got[..., past], want[..., past], rtol=0, atol=1e-11)


def test_attention_far_out_in_float16_equals_attention_at_the_start() -> None:
    """At a million tokens the authors' factors are e^2447; one row's anchor makes them none."""
    q, k, v = torch.randn(3, 1, 2, 64, 16)
    encoding = XPos(16, pairing="half")
    outputs = []
    for offset in (0, 1_000_000):
        placed = encoding.at(arange(64, offset=offset))
        turned = [x.half() for x in placed.rotate(q, k)]
        outputs.append(attention(*turned, v.half(), placed, causal=True))
        assert outputs[-1].dtype == torch.float16
    assert bool(outputs[1].isfinite().all())
    # q, k and the output are rounded to float16 where they stand: some 2^-11 of scores and values of size 4.
    torch.testing.assert_close(outputs[1].float(), outputs[0].float(), rtol=0, atol=16 * 2.0**-11 * 4)


def test_rows_far_apart_are_taken_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed documents of very different positions, and a span shorter than the sequence: equal to the formula."""
    monkeypatch.setattr(decay, "SPAN", 20)
    q, k, v = torch.randn(3, 2, 2, 50, 8, dtype=torch.float64).requires_grad_()
    at, segments = packed([13, 37])
    at = at + torch.where(segments == 0, 10_000, 0)
    encoding = XPos(8, pairing="half", scale_base=64)
    for mask in (Mask(causal=True, q_segments=segments), Mask(causal=True, q_segments=segments, window=7)):
        placed = encoding.at(at, dtype=torch.float64)
        turned = placed.rotate(q, k)
        assert len(list(decay._close(placed.q_positions, placed.decay, 20, 0, 50))) > 3
        weights = scores(*turned, placed, mask).softmax(-1)
        torch.testing.assert_close(attention(*turned, v, placed, mask), weights @ v, rtol=0, atol=1e-12)
        gradients = (
            torch.autograd.grad(y.square().sum(), (q, k, v), retain_graph=True)
            for y in (attention(*turned, v, placed, mask), weights @ v)
        )
        for got, want in zip(*gradients, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=1e-11)


def test_on_a_device_runs_are_halved_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Meta tensors stand for a device's: asked for a value, they raise."""
    monkeypatch.setattr(decay, "may_be_looked_at", lambda *tensors: True)
    monkeypatch.setattr(torch, "_assert_async", lambda *asserted: None)
    placed = XPos(8, pairing="half", scale_base=64).to("meta").at(torch.arange(9_000, device="meta"))
    assert placed.decay_span < decay.SPAN
    runs = list(decay._close(placed.q_positions, placed.decay, placed.decay_span, 0, 9_000))
    assert [first for first, _ in runs[1:]] == [last for _, last in runs[:-1]]
    assert (runs[0][0], runs[-1][1]) == (0, 9_000)
    assert max(last - first for first, last in runs) <= placed.decay_span


@pytest.mark.parametrize(
    "settings", [{"scale_base": 64}, {"gamma": 1e-3}, {"gamma": 1e-9, "scale_base": 64}], ids=str
)
def test_fast_fading_keeps_neighbours_far_from_the_first_query(settings: dict) -> None:
    """Between rows that share an anchor a factor would leave float32 long before ``SPAN``."""
    at = torch.cat((arange(3), arange(3, offset=700), arange(3, offset=8000)))
    q, k, v = torch.randn(3, 1, 2, 9, 8)
    placed = XPos(8, pairing="half", **settings).at(at)
    turned = placed.rotate(q, k)
    want = scores(*turned, placed, causal=True).softmax(-1) @ v
    # Exponents up to 80 are rounded to float32, and move scores of some units by as much.
    torch.testing.assert_close(attention(*turned, v, placed, causal=True), want, rtol=0, atol=16 * 80 * 2.0**-24)


def test_channels_fade_along_the_first_of_several_axes() -> None:
    q, k, v = torch.randn(3, 2, 2, 6, 8, dtype=torch.float64)
    at = torch.stack((torch.tensor([0, 1, 2, 4, 5, 9]), torch.tensor([3, 0, 1, 1, 2, 0])))
    fades, window = XPos(8, pairing="half", scale_base=64), posenc.Window(2, size=(10, 4)).double()
    placed, alone = posenc.Stack(fades, window).at(at, dtype=torch.float64), fades.at(at[0], dtype=torch.float64)
    turned = placed.rotate(q, k)
    added = window.at(at, dtype=torch.float64).bias
    assert added is not None
    want = (scores(*turned, alone, causal=True) + added.rows(0, 6, 6)).softmax(-1) @ v
    torch.testing.assert_close(attention(*turned, v, placed, causal=True), want, rtol=0, atol=1e-12)
    torch.testing.assert_close(scores(*turned, placed, causal=True).softmax(-1) @ v, want, rtol=0, atol=1e-12)


def test_a_bias_is_taken_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decay, "SPAN", 20)
    q, k, v = torch.randn(3, 2, 2, 50, 8, dtype=torch.float64)
    placed = posenc.Stack(XPos(8, pairing="half"), posenc.ALiBi(2)).at(arange(50), dtype=torch.float64)
    turned = placed.rotate(q, k)
    want = scores(*turned, placed, causal=True).softmax(-1) @ v
    torch.testing.assert_close(attention(*turned, v, placed, causal=True), want, rtol=0, atol=1e-12)


def test_positions_may_be_mapped() -> None:
    """vmap over positions, each row of them near itself and far from the others."""
    q, k, v = torch.randn(3, 3, 1, 2, 5, 8, dtype=torch.float64)
    at = arange(5) + torch.tensor([0, 100, 20_000])[:, None]
    encoding = XPos(8, pairing="half")

    def attended(at: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        placed = encoding.at(at, dtype=torch.float64)
        return attention(*placed.rotate(q, k), v, placed, causal=True)

    want = torch.stack([attended(*one) for one in zip(at, q, k, v, strict=True)])
    for axis, mapped in ((0, at), (1, at.T)):
        got = torch.vmap(attended, in_dims=(axis, 0, 0, 0))(mapped, q, k, v)
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_far_keys_fade_and_near_ones_do_not() -> None:
    q = torch.ones(1, 1, 1, 8)
    encoding = XPos(8, pairing="half", gamma=0.1)
    sizes = []
    for n in (0, 512, 5120):
        placed = encoding.at(torch.tensor([n]), torch.tensor([0]))
        still = NoPE().at(torch.tensor([n]), torch.tensor([0]))
        still.decay = placed.decay
        sizes.append(scores(q, q, still).item())
    assert sizes[0] > 1.5 * sizes[1] > 3 * sizes[2] > 0


def test_a_model_trains_and_reads_pieces_as_the_whole() -> None:
    config = TransformerConfig(17, width=32, layers=2, heads=4)
    model = Transformer(config, posenc.encoding("xpos", head_dim=8)).initialise(0)
    model(torch.randint(17, (2, 9))).square().sum().backward()
    assert posenc.encoding("xpos(scale_base=64)", head_dim=8).extra_repr() == (
        "head_dim=8, pairing='half', base=10000, scale_base=64, gamma=0.4, phases='exact'"
    )


@pytest.mark.usefixtures("unchecked")
def test_refusals() -> None:
    with pytest.raises(
        InvalidArgument, match="scale_base=8 must be a whole number of positions, at least 64; the paper"
    ):
        XPos(8, pairing="half", scale_base=8)
    with pytest.raises(InvalidArgument, match="gamma=0 must be a number above 0; the paper has"):
        XPos(8, pairing="half", gamma=0)
