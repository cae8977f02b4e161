"""A small transformer that uses its positional encoding only through the interface of ``Placed``.

The transformer is pre-norm, causal or bidirectional, with grouped-query attention.
"""

import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from posenc.attend.attend import attention
from posenc.encodings.encoding import Encoding
from posenc.encodings.layers import for_layers
from posenc.encodings.placed import Placed
from posenc.mask import Mask
from posenc.positions import arange, on_axes
from posenc.workbench.run.settings import Model


class Attention(nn.Module):
    """An attention layer. It projects the input to q, k and v, applies the encoding, computes attention, and
    projects the output."""

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.split = [config.heads, config.kv_heads or config.heads, config.kv_heads or config.heads]
        self.qkv = nn.Linear(config.width, sum(self.split) * self.head_dim, bias=config.biases)
        self.out = nn.Linear(config.width, config.width, bias=config.biases)
        normed = nn.RMSNorm if config.qk_norm else nn.Identity
        self.q_norm, self.k_norm = normed(self.head_dim), normed(self.head_dim)

    def heads(self, x: Float[Tensor, "B T C"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of shape (B, H, T, D) before rotation."""
        heads = self.qkv(x).unflatten(-1, (sum(self.split), self.head_dim)).transpose(1, 2)
        q, k, v = heads.split(self.split, dim=1)
        return self.q_norm(q), self.k_norm(k), v

    def forward(self, x: Tensor, placed: Placed, mask: Mask) -> Tensor:
        q, k, v = self.heads(x)
        placed, _ = placed.with_content(x)
        q, k = placed.rotate(q, k)
        y = attention(q, k, v, placed, mask)
        return self.out(y.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    """A feed-forward layer with GELU or SwiGLU. The gate and the value of SwiGLU share a linear layer."""

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.gated = config.activation == "swiglu"
        hidden = config.hidden or 4 * config.width
        self.inner = nn.Linear(config.width, hidden * (2 if self.gated else 1), bias=config.biases)
        self.outer = nn.Linear(hidden, config.width, bias=config.biases)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        if self.gated:
            gate, value = x.chunk(2, dim=-1)
            return self.outer(F.silu(gate) * value)
        return self.outer(F.gelu(x))


class Block(nn.Module):
    """An attention layer and a feed-forward layer, each with a norm and a residual connection."""

    def __init__(self, config: Model) -> None:
        super().__init__()
        self.attention_norm, self.attention = _norm(config), Attention(config)
        self.feedforward_norm, self.feedforward = _norm(config), FeedForward(config)

    def forward(self, x: Tensor, placed: Placed, mask: Mask) -> Tensor:
        x = x + self.attention(self.attention_norm(x), placed, mask)
        return x + self.feedforward(self.feedforward_norm(x))


def _norm(config: Model) -> nn.Module:
    return (nn.LayerNorm if config.norm == "layer" else nn.RMSNorm)(config.width, eps=1e-5)


def draw_parameters(encoding: Encoding, seed: int) -> None:
    """Draw the initial parameters of an encoding without changing the state of torch's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        encoding.reset_parameters()


class Transformer(nn.Module):
    """A transformer that maps tokens to outputs, with any positional encoding.

    Args:
        config: the settings of the model; ``tied`` has no effect unless ``outputs`` equals ``vocabulary``.
        encoding: any encoding, including ``Layers``. ``Encoding.at`` is called once per forward pass, for all
            layers. An encoding that declares ``per_layer`` gets one module per layer.
        vocabulary: the number of distinct input tokens.
        outputs: the number of outputs per position; by default the vocabulary.
        causal: whether a position attends only to itself and earlier positions.
    """

    def __init__(
        self, config: Model, encoding: Encoding, vocabulary: int, outputs: int | None = None, causal: bool = True
    ) -> None:
        super().__init__()
        self.config, self.causal = config, causal
        self.tied = config.tied and outputs in (None, vocabulary)
        self.encoding = for_layers(encoding, config.layers)
        # ``nn.Embedding(…)`` would draw weights; on the meta device, torch would import its compiler for that.
        self.embedding = nn.Embedding.from_pretrained(torch.empty(vocabulary, config.width), freeze=False)
        self.layers = [Block(config) for _ in range(config.layers)]
        self.blocks = nn.ModuleList(self.layers)
        self.norm = _norm(config)
        self.head = nn.Linear(config.width, outputs or vocabulary, bias=False)
        if self.tied:
            self.head.weight = self.embedding.weight

    def enlarged(self, *places: int) -> "Transformer":
        """Return a model with the same weights, but with position tables resized for a grid with these side
        lengths.

        If no table needs to grow, return this model itself.
        """
        encoding = self.encoding.enlarged(*places) if places else self.encoding
        if encoding is self.encoding:
            return self
        again = copy.copy(self)
        again._modules = {**self._modules, "encoding": encoding}
        return again

    def initialise(self, seed: int) -> "Transformer":
        """Initialise all parameters. As in GPT-2, layers that write to the residual stream start with small
        weights.

        Weights outside the encoding are the same for every encoding. The encoding's own parameters are drawn last.
        """
        generator = torch.Generator().manual_seed(seed)
        for block in self.layers:
            parts = block.attention.qkv, block.attention.out, block.feedforward.inner, block.feedforward.outer
            for linear in parts:
                nn.init.normal_(linear.weight, std=linear.in_features**-0.5, generator=generator)
                if linear.bias is not None:
                    nn.init.zeros_(linear.bias)
            with torch.no_grad():  # layers that write to the residual stream start small
                block.attention.out.weight.mul_((2 * self.config.layers) ** -0.5)
                block.feedforward.outer.weight.mul_((2 * self.config.layers) ** -0.5)
        # A tied output layer starts as small as others; otherwise the first losses are far above chance.
        std = self.config.width**-0.5 if self.tied else 0.5
        nn.init.normal_(self.embedding.weight, std=std, generator=generator)
        if not self.tied:
            nn.init.normal_(self.head.weight, std=self.config.width**-0.5, generator=generator)
        draw_parameters(self.encoding, seed)
        return self

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        positions: Int[Tensor, "..."] | None = None,
        *,
        mask: Mask | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the outputs at every token.

        By default, positions are 0, 1, 2, …. Without a ``mask``, each token attends to all tokens or, in a causal
        model, to itself and earlier tokens.
        """
        if positions is None:
            positions = on_axes(arange(tokens.shape[1], device=tokens.device), self.encoding.axes)
        mask = (Mask(causal=self.causal) if mask is None else mask).within(self.config.window)
        placed = self.encoding.at(positions, dtype=wide(self.head.weight.dtype))
        x = placed.embed(self.embedding(tokens))
        for layer, block in enumerate(self.blocks):
            x = block(x, placed[layer], mask)
        return self.head(self.norm(x))


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype for positional tensors and losses: float64 for a float64 model, else float32."""
    return torch.promote_types(dtype, torch.float32)
