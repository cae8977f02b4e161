"""Dual Chunk Attention rotates as a vLLM that had it: its released file, run on a CPU.

Its attention, which shares out the keys as section 3 of the paper does, needs CUDA and is not run. No package
carries the authors' code of Self-Extend, ReRoPE or STRING.
"""

from typing import Any

import pytest
import torch

from posenc import Rotary
from posenc.remap import DCA
from support.released import Layer, released
from support.served import PROGRAMS

FOLDER = PROGRAMS / "vllm-0.10.2"
ROTARY = "vllm.model_executor.layers.rotary_embedding.dual_chunk_rope"
pytestmark = [
    pytest.mark.programs,
    pytest.mark.skipif(not FOLDER.exists(), reason="no such vLLM here; type: make programs"),
]


def authors(chunk: int, local: int) -> Any:
    """The layer of vLLM, on the CPU; its constructor asks for a GPU."""
    package = released(FOLDER, ROTARY.rpartition(".")[0], {"CustomOp": Layer})
    layer: Any = object.__new__(package.dual_chunk_rope.DualChunkRotaryEmbedding)
    torch.nn.Module.__init__(layer)
    vars(layer).update(
        head_size=16,
        rotary_dim=16,
        base=1e4,
        is_neox_style=True,
        dtype=torch.float32,
        chunk_size=chunk + local,
        local_size=local,
        max_position_embeddings=64,
        device=torch.device("cpu"),
    )
    names = ("q", "qc", "k", "qc_no_clamp", "q_inter")
    vars(layer).update(
        {f"cos_sin_{n}_cache": x for n, x in zip(names, layer._compute_cos_sin_cache(), strict=True)}
    )
    return layer


@pytest.mark.parametrize(("chunk", "local"), [(9, 4), (8, 8), (12, 1)])
def test_queries_and_keys_rotate_as_in_vllm(chunk: int, local: int) -> None:
    """Both but for the far end: the paper's largest distance is c − 1, and vLLM clamps to c."""
    at, (q, k) = torch.arange(40), torch.randn(2, 1, 1, 40, 16, generator=torch.Generator().manual_seed(0))
    theirs_q, theirs_k = authors(chunk, local).forward_native(at[None], q[0, 0][None], k[0, 0][None])
    near, following, far, *_ = theirs_q.split(16, dim=-1)
    rope = Rotary(16, pairing="half")
    placed = DCA(rope, chunk, local).at(at)
    cached = placed.rotate(q, k)[1]
    ours = [part.rotate(q, cached)[0][0, 0] for part in placed.remaps]
    bound = (chunk + local + 2) * 2**-23 * q.norm(dim=-1).max()  # of float32 angles, their cosines and a sum

    def same(a: torch.Tensor, b: torch.Tensor) -> bool:
        return bool((a - b).abs().max() <= bound)

    assert same(cached[0, 0], theirs_k)
    assert same(ours[0], near)
    clamped = at % chunk + chunk >= chunk + local
    assert same(ours[1][~clamped], following[~clamped])
    if clamped.any():
        end = rope.at(torch.full_like(at, chunk + local)).rotate(q, None)[0][0, 0]
        assert same(end, far)
        assert same(end[clamped], following[clamped])
        assert not same(ours[2], far)
    else:  # a local window of a whole chunk reaches no place that is clamped
        assert same(ours[2], far)
