"""A text that is streamed."""

import torch
from benchmarks.streaming import streamed
from torch.nn import functional as F

from support.tiny_models import tiny


@torch.no_grad()
def test_chunks_lose_what_the_whole_does_until_keys_are_dropped() -> None:
    """With room for all keys, the loss of every token is that of one forward; with less, only later ones differ."""
    model = tiny("qwen2")
    tokens = torch.randint(64, (46,), generator=torch.Generator().manual_seed(0))
    whole = F.cross_entropy(model(tokens[None, :-1]).logits[0], tokens[1:], reduction="none")
    plain = torch.cat([*streamed(model, tokens, chunk=8)])
    few = torch.cat([*streamed(model, tokens, chunk=8, capacity=16, sinks=4)])
    torch.testing.assert_close(plain, whole, rtol=0, atol=1e-4)
    torch.testing.assert_close(few[:24], whole[:24], rtol=0, atol=1e-4)
    assert (few[24:] - whole[24:]).abs().amin() > 0
