"""The smallest model that shows what positions do: layers of attention with a cache, in float64."""

import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from posenc.attend import attention
from posenc.laws.subject import Subject
from posenc.mask import CAUSAL, Mask

VOCABULARY = 17


class Cache(dict[tuple[str, int], Tensor]):
    """Positions of the tokens that were read, and every layer's keys, values and states, by name and layer."""

    def extend(self, name: str, new: Tensor, layer: int = 0, dim: int = 2) -> Tensor:
        """What a layer has kept under this name with the new behind it."""
        old = self.get((name, layer))
        self[name, layer] = new if old is None else torch.cat((old, new), dim)
        return self[name, layer]


class Decoder:
    """Tokens to vectors; weights are drawn once and the same for every encoding of a shape."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.encoding = subject, subject.build().double().requires_grad_(False)
        generator = torch.Generator().manual_seed(4)
        width, inner = subject.width, subject.heads * subject.head_dim
        rows = (subject.heads + 2 * subject.kv_heads) * subject.head_dim

        def drawn(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64) * shape[-1] ** -0.5

        self.embedding = drawn(VOCABULARY, width) * width**0.5
        self.layers = [(drawn(rows, width) * 1.5, drawn(width, inner)) for _ in range(subject.layers)]

    def __call__(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        mask: Mask = CAUSAL,
        cache: Cache | None = None,
    ) -> Tensor:
        """Vectors ``(B, T, C)`` at every token; with a cache, the tokens follow those it holds."""
        cache = Cache() if cache is None else cache
        if positions is None:
            cached = cache.get(("positions", 0))
            positions = self.subject.plain(tokens.shape[1], 0 if cached is None else cached.shape[-1])
        keys = cache.extend("positions", positions, dim=-1)
        placed = self.encoding.at(positions, keys, dtype=torch.float64)
        x = placed.embed(self.embedding[tokens])
        split = [self.subject.heads, self.subject.kv_heads, self.subject.kv_heads]
        for layer, (qkv, out) in enumerate(self.layers):
            normed = layer_norm(x, x.shape[-1:])
            heads = (normed @ qkv.T).unflatten(-1, (sum(split), -1)).transpose(1, 2)
            q, k, v = heads.split(split, dim=1)
            here, state = placed[layer].with_content(normed, cache.get(("state", layer)))
            q, k = here.rotate(q, k)
            k, v = cache.extend("k", k, layer), cache.extend("v", v, layer)
            if state is not None:
                cache["state", layer] = state
            y = attention(q, k, v, here, mask, scale=self.subject.head_dim**-0.5)
            x = x + y.transpose(1, 2).flatten(-2) @ out.T
        return x


def tokens(*shape: int) -> Tensor:
    """Tokens of the decoder, the same every time."""
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(3))
