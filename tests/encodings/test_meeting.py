"""Memory that learned biases take in training, and what a step of decoding computes."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from posenc import T5, CoPE, DeBERTa, Encoding, Shaw, TransformerXL, attention
from posenc.positions import arange
from support.memory import peak_bytes

H, D, C = 4, 6, 12


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
