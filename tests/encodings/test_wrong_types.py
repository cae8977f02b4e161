"""What is no tensor, has no axes, or was made in another mode serves, or is refused in a sentence of ours."""

from collections.abc import Callable
from contextlib import suppress

import pytest
import torch

import posenc
from posenc import Mask, PoPE, Rotary, Sinusoidal, attention, layouts, merge
from posenc import positions as P
from posenc.errors import PosencError
from support.checking import annotations_unchecked

AT, Q = P.arange(4), torch.randn(1, 2, 4, 8, generator=torch.Generator().manual_seed(0))
ROTARY = Rotary(8, pairing="half")
NONSENSE = ("a", [1.0], 3, torch.tensor(1.0), torch.randn(8), torch.randn(1, 0, 4, 8))

ENTRANCES: dict[str, Callable[[object], object]] = {
    "rotary": lambda x: ROTARY.at(AT).rotate(x, Q),
    "rotary k": lambda x: ROTARY.at(AT).rotate(Q, x),
    "pope": lambda x: PoPE(8, 2).at(AT).rotate(x, Q),
    "embed": lambda x: Sinusoidal(8).at(AT).embed(x),
    "attention": lambda x: attention(x, Q, Q, ROTARY.at(AT)),
    "attention v": lambda x: attention(Q, Q, x, ROTARY.at(AT)),
    "segments": lambda x: attention(Q, Q, Q, ROTARY.at(AT), Mask(q_segments=x)),
    "key_mask": lambda x: attention(Q, Q, Q, ROTARY.at(AT), Mask(key_mask=x)),
    "merge": lambda x: merge(x),
    "merge parts": lambda x: merge([(Q,)]),
    "rows": lambda x: P.packed_rows(x),
    "left-padded rows": lambda x: P.left_padded_rows(x),
    "left_padded": lambda x: P.left_padded(x),
    "cu_seqlens": lambda x: P.from_cu_seqlens(x),
    "at": lambda x: ROTARY.at(x),
    "at k": lambda x: ROTARY.at(AT, x),
    "dtype": lambda x: ROTARY.at(AT, dtype=x),
    "rerotate": lambda x: posenc.rerotate(x, AT, ROTARY, ROTARY),
    "rerotate to": lambda x: posenc.rerotate(Q, AT, ROTARY, x),
    "from_bthd": lambda x: layouts.from_bthd(x),
    "from_packed": lambda x: layouts.from_packed(x),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("nonsense", NONSENSE, ids=lambda x: str(getattr(x, "shape", x)))
def test_nonsense_meets_no_foreign_error(entrance: str, nonsense: object) -> None:
    """Batches without heads or without tokens are no nonsense, and may pass."""
    empty = isinstance(nonsense, torch.Tensor) and not nonsense.numel()
    with annotations_unchecked(), suppress(PosencError):
        ENTRANCES[entrance](nonsense)
        assert empty or entrance in ("from_bthd", "from_packed", "rerotate"), "taken"


@pytest.mark.parametrize(
    "text",
    ["rotary", "t5", "alibi", "pope", "rotary-learned", "shaw", "ssmax", "query-scale", "sinusoidal", "fope"],
)
def test_what_was_placed_in_inference_mode_serves_in_training(text: str) -> None:
    encoding = posenc.encoding(text, width=16, heads=2, head_dim=8, num_positions=64)
    with torch.inference_mode():
        placed = encoding.at(P.arange(4))
    q, x = Q.clone().requires_grad_(), torch.randn(1, 4, 16).requires_grad_()
    (attention(*placed.rotate(q, q), q, placed, causal=True).sum() + placed.embed(x).sum()).backward()
    assert q.grad is not None


def test_a_placed_pope_keeps_the_angles_that_it_was_placed_with() -> None:
    pope = PoPE(8, 2, start="uniform")
    with torch.no_grad():
        placed = pope.at(AT)
        want = placed.rotate(Q, Q)
        pope.weight.data.add_(1.0)  # which nobody notices
        torch.testing.assert_close(placed.rotate(Q, Q), want, rtol=0, atol=0)
