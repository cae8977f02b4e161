"""Reads models and tokenizers in the format of llama2.c (Karpathy 2023, github.com/karpathy/llama2.c, version 0).

A model file has a header of seven little-endian int32 (width, hidden, layers, heads, kv heads, vocabulary, trained
length; a negative vocabulary means a separate output map), then float32 weights, each kind for all layers together,
and the tables of cos and sin for the authors' code. These tables are read only to check the file; the model
rotates with ``posenc.Rotary``.
"""

import math
import struct
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from posenc.encodings.rotary import Pairing, Rotary
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer

FIRST_BYTE, BOS = 3, 1
"""The first byte token, where 3 + b is byte b if no other token covers it, and the token that begins a text."""


def load(path: str | Path, pairing: Pairing = "interleaved") -> Transformer:
    """Load the model in this file, whose weights are for interleaved pairs; ``"half"`` shows a wrong pairing."""
    data = Path(path).read_bytes()
    width, hidden, layers, heads, kv_heads, vocabulary, length = struct.unpack("<7i", data[:28])
    shared, vocabulary = vocabulary > 0, abs(vocabulary)
    head_dim, kv_width = width // heads, kv_heads * width // heads
    shapes = {
        "embedding": (vocabulary, width),
        "attention_norm": (layers, width),
        "q": (layers, width, width),
        "k": (layers, kv_width, width),
        "v": (layers, kv_width, width),
        "out": (layers, width, width),
        "feedforward_norm": (layers, width),
        "gate": (layers, hidden, width),
        "outer": (layers, width, hidden),
        "value": (layers, hidden, width),
        "norm": (width,),
        "cos": (length, head_dim // 2),
        "sin": (length, head_dim // 2),
    }
    if not shared:
        shapes["head"] = (vocabulary, width)
    weights = torch.frombuffer(bytearray(data[28:]), dtype=torch.float32)
    parts = weights.split([math.prod(shape) for shape in shapes.values()])
    w = {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}
    encoding = Rotary(head_dim, pairing=pairing)
    for ours, theirs in zip(encoding.tables(torch.arange(length)), (w["cos"], w["sin"]), strict=True):
        # An angle in float32 is off by its own rounding, 2^-24 of at most the trained length, twice.
        assert (ours - theirs).abs().max() <= length * 2.0**-22
    config = Model(
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        hidden=hidden,
        norm="rms",
        activation="swiglu",
        biases=False,
        tied=shared,
    )
    return _filled(Transformer(config, encoding, vocabulary), w)


@torch.no_grad()
def _filled(model: Transformer, w: dict[str, Tensor]) -> Transformer:
    """Return the model with these weights, in which q, k and v share a linear map, and so do gate and value."""
    model.embedding.weight.copy_(w["embedding"])
    model.norm.get_parameter("weight").copy_(w["norm"])
    if "head" in w:
        model.head.weight.copy_(w["head"])
    for i, block in enumerate(model.layers):
        block.attention_norm.get_parameter("weight").copy_(w["attention_norm"][i])
        block.attention.qkv.weight.copy_(torch.cat((w["q"][i], w["k"][i], w["v"][i])))
        block.attention.out.weight.copy_(w["out"][i])
        block.feedforward_norm.get_parameter("weight").copy_(w["feedforward_norm"][i])
        block.feedforward.inner.weight.copy_(torch.cat((w["gate"][i], w["value"][i])))
        block.feedforward.outer.weight.copy_(w["outer"][i])
    return model


class Tokenizer:
    """A byte-pair encoding with scores, as trained by sentencepiece, from text to tokens and back.

    Args:
        pieces: the bytes of every token.
        scores: the score of every token. Two neighbours that form the token with the highest score are merged
            first.
    """

    def __init__(self, pieces: list[bytes], scores: list[float]) -> None:
        self.pieces = pieces
        self.scores = scores
        self.index = {piece: i for i, piece in reversed(list(enumerate(pieces)))}

    def encode(self, text: str) -> list[int]:
        """Return the token that begins a text, then the tokens of the text with an implied space before it."""
        tokens: list[int] = []
        for character in f" {text}" if text else "":
            piece = character.encode()
            known = self.index.get(piece)
            tokens += [FIRST_BYTE + byte for byte in piece] if known is None else [known]
        while True:
            merged = [self.index.get(self.pieces[a] + self.pieces[b]) for a, b in pairwise(tokens)]
            found = [(-self.scores[token], at, token) for at, token in enumerate(merged) if token is not None]
            if not found:
                return [BOS, *tokens]
            _, at, token = min(found)
            tokens[at : at + 2] = [token]

    def decode(self, tokens: list[int]) -> str:
        """Return the text of these tokens, without marks of beginning and end, and without the implied space."""
        spoken = [token for token in tokens if token >= FIRST_BYTE]
        is_byte = range(FIRST_BYTE, FIRST_BYTE + 256)
        text = b"".join(bytes([t - FIRST_BYTE]) if t in is_byte else self.pieces[t] for t in spoken)
        return text.removeprefix(b" ").decode(errors="replace")


def load_tokenizer(path: str | Path, vocabulary: int) -> Tokenizer:
    """Load the tokenizer of a model with ``vocabulary`` tokens."""
    data = Path(path).read_bytes()
    pieces, scores, at = [], [], 4
    for _ in range(vocabulary):
        score, size = struct.unpack_from("<fi", data, at)
        at += 8
        pieces.append(data[at : at + size])
        scores.append(score)
        at += size
    return Tokenizer(pieces, scores)
