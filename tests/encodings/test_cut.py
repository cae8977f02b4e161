"""Parts of a bias: of some heads, tokens or rows of the batch, computed from what is theirs and nothing else."""

import pickle

import pytest
import torch
from torch import Tensor

import posenc
from posenc import Bias, Mask, OffsetBias, attention
from posenc.positions import arange, left_padded, packed
from support.operators import Operators

HEADS, D, T = 8, 8, 48
NAMES = (
    "alibi",
    "t5",
    "kerple",
    "fire",
    "sandwich",
    "shaw",
    "deberta",
    "cope",
    "fox",
    "transformer-xl",
    "inkling",
    "stack(alibi, fox)",
    "stack(t5, shaw)",
)


def bias_of(name: str, at: Tensor, B: int = 2) -> tuple[Bias, Tensor, Tensor]:
    """A bias that has met its queries and keys, and these."""
    encoding = posenc.encoding(name, width=12, heads=HEADS, head_dim=D)
    x, (q, k) = torch.randn(B, T, 12), torch.randn(2, B, HEADS, T, D)
    bias = encoding.at(at).with_content(x)[0].bias
    return bias.ordered(arange(T), arange(T)).meeting(q, k, 0.3), q, k


POSITIONS = {
    "consecutive": arange(T),
    "packed": packed([20, 28])[0],
    "padded": left_padded(torch.arange(T) >= torch.tensor([[5], [0]])),
}


@pytest.mark.parametrize("where", POSITIONS)
@pytest.mark.parametrize("name", NAMES)
def test_a_part_is_that_part_of_the_rows(name: str, where: str) -> None:
    """With every cut that attention makes: documents, a rank's heads, runs of rows; also after a pickle."""
    bias, q, k = bias_of(name, POSITIONS[where])
    scores = q @ k.mT * 0.3 if bias.needs_scores else None
    scores = None if scores is None else scores.masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), -torch.inf)
    dense = bias.rows(0, T, T, scores).expand(2, -1, -1, -1)
    tokens, heads = slice(20, 41), slice(2, 6)
    cuts: list[dict] = [
        {"heads": heads},
        {"queries": tokens},
        {"row": 1, "queries": tokens, "keys": tokens},
        {"row": 0, "heads": heads, "queries": tokens, "keys": tokens},
    ]
    for places in cuts:
        row, h, i, j = (places.get(name) for name in ("row", "heads", "queries", "keys"))
        rows, every = (slice(0, 2) if row is None else slice(row, row + 1)), slice(None)
        at = (rows, h or every, i or every, j or every)
        part = bias.cut(**places)
        if bias.needs_scores and j is not None:
            continue  # which count keys that are cut off
        some = None if scores is None else scores[at]
        for one in (part, pickle.loads(pickle.dumps(part))) if row is None else (part,):
            got = one.rows(0, at[2].stop - at[2].start if i else T, at[3].stop - at[3].start if j else T, some)
            torch.testing.assert_close(got.expand_as(dense[at]), dense[at], rtol=1e-5, atol=1e-5)
            assert part.heads == dense[at].shape[1]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cope"])
def test_an_eighth_of_the_heads_costs_an_eighth(name: str) -> None:
    """Of what a block of rows computes; offsets, buckets and waves are the same for all heads."""
    counts = []
    for heads in (slice(0, HEADS), slice(3, 4)):
        part = bias_of(name, POSITIONS["padded"])[0].cut(heads=heads)
        with Operators() as operators, torch.no_grad():
            part.rows(0, T, T)
        counts.append(sum(operators.sizes))
    assert counts[1] < (0.65 if name in ("sandwich", "stack(t5, shaw)") else 0.5) * counts[0], counts


@pytest.mark.parametrize("name", [*(name for name in NAMES if name != "cope"), "window(size=[7, 7])"])
def test_document_by_document_costs_what_documents_see(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of other sequences, and keys of other documents, are not computed for one."""
    monkeypatch.setattr("posenc.attend.ways.SHORT_DOCUMENT", 4)
    at, segments = packed([T // 4] * 4)
    encoding = posenc.encoding(name, width=12, heads=2, head_dim=D)
    at = at if encoding.axes == 1 else torch.stack((at % 7, at // 7))
    placed = encoding.at(at).with_content(torch.randn(8, T, 12))[0]
    q, k, v = torch.randn(3, 8, 2, T, D)
    mask, counts = Mask(causal=True, q_segments=segments), {}
    for way in ("documents", "blocks"):
        with Operators() as operators, torch.no_grad():
            attention(q, k, v, placed, mask, backend=way)
        counts[way] = sum(operators.sizes)
    assert counts["documents"] < counts["blocks"], counts


def test_every_offset_is_evaluated_once() -> None:
    """T queries that meet S keys have S + T − 1 offsets; packed and padded positions span few."""
    evaluated = []

    class Distance(OffsetBias):
        def values(self, offsets: Tensor) -> Tensor:
            evaluated.append(offsets.numel())
            return offsets.abs().float().expand(2, *offsets.shape)

    keys = arange(4096)
    for q_at, k_at, most in (
        (keys[-1:], keys, 4096),
        (keys[-7:], keys, 4102),
        (packed([1024] * 4)[0], packed([1024] * 4)[0], 2 * 4096),
        (left_padded(torch.arange(4096) >= torch.tensor([[9], [0]])),) * 2 + (2 * 4096,),
    ):
        with torch.no_grad():
            bias = Distance(2, q_at, k_at)
            for _ in range(3):
                rows = bias.rows(0, min(3, q_at.shape[-1]), 4096)
        assert sum(evaluated) <= most
        evaluated.clear()
        apart = k_at.unsqueeze(-2) - q_at[..., :3].unsqueeze(-1)
        assert torch.equal(rows[:, 0], apart.abs().float().expand(rows.shape[0], -1, -1))
