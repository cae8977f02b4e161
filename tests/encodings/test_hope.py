"""HoPE by full name: which pairs stand still, which coordinate turns which, and that the short name is refused."""

import math

import pytest
import torch

import posenc
from posenc.encodings.hope import high_frequency, hybrid
from posenc.errors import InvalidArgument, UnknownName
from posenc.scaling import Pruned


def test_high_frequency_keeps_what_turns_once_in_the_trained_length() -> None:
    encoding = posenc.encoding("hope-high-frequency", head_dim=64, num_positions=512)
    frequencies = [float(theta) for theta in encoding.clock.frequencies.exact]  # type: ignore[union-attr]
    ladder = [10_000 ** (-2 * i / 64) for i in range(32)]
    assert frequencies == pytest.approx([t if t >= 2 * math.pi / 512 else 0.0 for t in ladder])
    assert sum(t > 0 for t in frequencies) == 16
    assert encoding.scaling == Pruned(512)


def test_pairs_that_stand_still_do_so_at_any_position() -> None:
    x = torch.randn(1, 1, 1, 64)
    turned = high_frequency(64, 512, pairing="half").at(torch.tensor([10**9])).rotate(x, x)[0]
    still = [*range(16, 32), *range(48, 64)]
    assert torch.equal(turned[..., still], x[..., still])
    assert not torch.allclose(turned[..., :16], x[..., :16])


def test_hybrid_gives_rows_and_columns_the_fast_pairs_in_turn() -> None:
    encoding, x = hybrid(16, pairing="interleaved"), torch.randn(1, 1, 1, 16)
    moved = []
    for at in ([[0], [0]], [[9], [0]], [[0], [9]]):
        turned = encoding.at(torch.tensor(at)).rotate(x, x)[0]
        moved.append(
            [i for i in range(8) if not torch.equal(turned[..., 2 * i : 2 * i + 2], x[..., 2 * i : 2 * i + 2])]
        )
    assert moved == [[], [0, 2, 4], [1, 3, 5]]


def test_the_short_name_is_three_papers() -> None:
    with pytest.raises(UnknownName, match="unknown encoding 'hope'"):
        posenc.encoding("hope", head_dim=8, num_positions=64)


def test_refusals() -> None:
    with pytest.raises(InvalidArgument, match="head_dim=6 must be a multiple of 4, and still=0 pairs below the 3"):
        hybrid(6, pairing="half")
    with pytest.raises(InvalidArgument, match="num_positions=1 must be an integer of at least 2"):
        high_frequency(8, 1, pairing="half")
