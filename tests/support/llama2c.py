"""Reads models and tokenizers in the format of llama2.c (Karpathy 2023, github.com/karpathy/llama2.c, version 0).

A model file is a header of seven little-endian int32 (width, hidden, layers, heads, kv heads, vocabulary,
trained length; a negative vocabulary announces an output map of its own), then float32 weights, each kind for
all layers at once, and the tables of cos and sin that the authors' code rotated with. Those tables are read
only to check that the file is what it says: rotation here is ``posenc.Rotary``'s.
"""

import math
import struct
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from posenc.encodings.rotary import Pairing, Rotary
from posenc.errors import InvalidArgument, PosencError
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer

BASE = 10_000.0
FIRST_BYTE, BOS = 3, 1
"""Token 3 + b is byte b, for what no other token covers; token 1 begins a text."""


class UnreadableFile(PosencError):  # noqa: N818
    """A file that is cut short, damaged, or of another format than expected."""


def load(path: str | Path, pairing: Pairing = "interleaved") -> Transformer:
    """The model in this file. The format's weights are interleaved; ``"half"`` breaks them, to be shown.

    Raises:
        UnreadableFile: no such file, a header that is none, a size that the header does not announce, tables
            that are no cos and sin of base 10000, or weights that are not finite.
    """
    data = _bytes(path)
    if len(data) < 28:
        raise UnreadableFile(f"{path} has {len(data)} bytes; a llama2.c model starts with a header of 28")
    width, hidden, layers, heads, kv_heads, vocabulary, length = struct.unpack("<7i", data[:28])
    shared, vocabulary = vocabulary > 0, abs(vocabulary)
    sizes = (width, hidden, layers, heads, kv_heads, vocabulary, length)
    if min(sizes) < 1 or width % heads or heads % kv_heads or width // heads % 2:
        raise UnreadableFile(f"{path} is no llama2.c model: its header reads {sizes}")
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
    expected = 28 + 4 * sum(math.prod(shape) for shape in shapes.values())
    if len(data) != expected:
        raise UnreadableFile(f"{path} has {len(data)} bytes where its header announces {expected}; fetch it again")
    weights = torch.frombuffer(bytearray(data[28:]), dtype=torch.float32)
    parts = weights.split([math.prod(shape) for shape in shapes.values()])
    w = {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}
    encoding = Rotary(head_dim, pairing=pairing, base=BASE)
    _check_weights(path, w, Rotary(head_dim, pairing="interleaved", base=BASE))
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


def _check_weights(path: str | Path, w: dict[str, Tensor], rotary: Rotary) -> None:
    """Refuse weights that are not finite, and tables that differ from ours by more than float32 angles do."""
    if not all(bool(part.isfinite().all()) for part in w.values()):
        raise UnreadableFile(f"{path} holds weights that are not finite; fetch it again")
    for ours, theirs in zip(rotary.tables(torch.arange(len(w["cos"]))), (w["cos"], w["sin"]), strict=True):
        # An angle in float32 is off by its own rounding, 2^-24 of at most the trained length, twice.
        if (ours - theirs).abs().max() > len(theirs) * 2.0**-22:
            raise UnreadableFile(
                f"{path} holds no cos and sin of base {BASE:g} where a llama2.c model has them; the file is damaged"
            )


@torch.no_grad()
def _filled(model: Transformer, w: dict[str, Tensor]) -> Transformer:
    """The model with these weights; q, k and v lie in one map, and so do gate and value."""
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
    """Byte-pair encoding with scores, as sentencepiece trains it: text to tokens and back.

    Args:
        pieces: the bytes of every token.
        scores: of two neighbours that could merge, those with the highest score merge first.
    """

    def __init__(self, pieces: list[bytes], scores: list[float]) -> None:
        self.pieces = pieces
        self.scores = scores
        self.index = {piece: i for i, piece in reversed(list(enumerate(pieces)))}

    def __len__(self) -> int:
        return len(self.pieces)

    def encode(self, text: str) -> list[int]:
        """The beginning of a text, then its tokens; text starts with an implied space."""
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
        """The text of these tokens, without the marks of beginning and end and the implied space."""
        wrong = [token for token in tokens if not 0 <= token < len(self)]
        if wrong:
            raise InvalidArgument(f"tokens hold {wrong[0]}; this tokenizer has {len(self)}, 0 to {len(self) - 1}")
        spoken = [token for token in tokens if token >= FIRST_BYTE]
        is_byte = range(FIRST_BYTE, FIRST_BYTE + 256)
        text = b"".join(bytes([t - FIRST_BYTE]) if t in is_byte else self.pieces[t] for t in spoken)
        return text.removeprefix(b" ").decode(errors="replace")


def load_tokenizer(path: str | Path, vocabulary: int) -> Tokenizer:
    """The tokenizer of a model with ``vocabulary`` tokens.

    Raises:
        UnreadableFile: no such file, or one that does not hold exactly so many tokens.
    """
    data = _bytes(path)
    pieces, scores, at = [], [], 4
    for token in range(vocabulary):
        if at + 8 > len(data):
            raise UnreadableFile(f"{path} ends after {token} of {vocabulary} tokens; it belongs to another model")
        score, size = struct.unpack_from("<fi", data, at)
        at += 8
        if not 0 <= size <= len(data) - at:
            raise UnreadableFile(f"{path} is no llama2.c tokenizer: token {token} would have {size} bytes")
        pieces.append(data[at : at + size])
        scores.append(score)
        at += size
    if at != len(data):
        raise UnreadableFile(f"{path} goes on after {vocabulary} tokens; it belongs to another model")
    return Tokenizer(pieces, scores)


def _bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UnreadableFile(f"cannot read {path}: {error.strerror}") from error
