"""ALiBi against transformers (MPT, Falcon) and x-transformers."""

from types import ModuleType

import pytest
import torch

from posenc import ALiBi
from posenc.encodings.alibi import alibi_bias
from posenc.positions import arange

HEADS = [1, 2, 4, 6, 8, 12, 16, 20, 71]
FLOAT32 = 2.0**-22
"""Relative: their slopes are float32 powers, off by a few units in the last place."""


@pytest.mark.parametrize("max_exponent", [8, 16])
@pytest.mark.parametrize("heads", HEADS)
def test_mpt(heads: int, max_exponent: int) -> None:
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    theirs = build_mpt_alibi_tensor(heads, 50, alibi_bias_max=max_exponent)
    bias = ALiBi(heads, max_exponent=float(max_exponent)).at(torch.tensor([49]), arange(50)).bias
    torch.testing.assert_close(bias.rows(0, 1, 50)[0], theirs, rtol=FLOAT32, atol=0)


@pytest.mark.parametrize("heads", HEADS)
def test_falcon(heads: int) -> None:
    """Falcon rounds slopes to bf16; that it divides them by √D is measured of the whole model."""
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 2, dtype=torch.int64), heads, torch.float32)
    assert torch.equal(theirs.view(heads, 2)[:, 1], ALiBi(heads).slopes.bfloat16().float())


@pytest.mark.parametrize("heads", HEADS)
def test_x_transformers(heads: int, x_transformers: ModuleType) -> None:
    theirs = x_transformers.AlibiPositionalBias(heads)(9, 9)
    torch.testing.assert_close(alibi_bias(heads, 9), theirs, rtol=FLOAT32, atol=0)
