"""The real stories260K checkpoint from ../shared/data as our transformer, in the pairing it was trained with."""

import struct
from pathlib import Path

import pytest
import torch
from torch import Tensor

import posenc
from posenc.encodings.rotary import Pairing
from posenc.workbench.transformer import Transformer, TransformerConfig

DATA = Path(__file__).parents[3] / "shared" / "data"


def require() -> None:
    if not (DATA / "stories260K.bin").exists():
        pytest.skip("../shared/data/stories260K.bin is not there")


def transformer(pairing: Pairing) -> Transformer:
    """An empty model of the checkpoint's sizes."""
    config = TransformerConfig(
        512,
        width=64,
        layers=5,
        heads=8,
        kv_heads=4,
        hidden=172,
        norm="rms",
        activation="swiglu",
        biases=False,
        tied=True,
    )
    return Transformer(config, posenc.Rotary(8, pairing=pairing)).eval()


def weights() -> dict[str, Tensor]:
    """The checkpoint's weights under our names; interleaved."""
    raw = (DATA / "stories260K.bin").read_bytes()
    width, hidden, layers, heads, kv_heads, vocabulary, _ = struct.unpack("7i", raw[:28])
    flat, at = torch.frombuffer(bytearray(raw), dtype=torch.float32, offset=28), 0
    kv = kv_heads * width // heads

    def take(*shape: int) -> Tensor:
        nonlocal at
        size = torch.Size(shape).numel()
        at += size
        return flat[at - size : at].view(*shape)

    state = {"embedding.weight": take(vocabulary, width)}
    state["head.weight"] = state["embedding.weight"]
    norms = take(layers, width)
    q, k, v = (take(layers, rows, width) for rows in (width, kv, kv))
    out, feed_norms = take(layers, width, width), take(layers, width)
    w1, w2, w3 = (take(layers, *shape) for shape in ((hidden, width), (width, hidden), (hidden, width)))
    state["norm.weight"] = take(width)
    for i in range(layers):
        state |= {
            f"blocks.{i}.attention_norm.weight": norms[i],
            f"blocks.{i}.attention.qkv.weight": torch.cat((q[i], k[i], v[i])),
            f"blocks.{i}.attention.out.weight": out[i],
            f"blocks.{i}.feedforward_norm.weight": feed_norms[i],
            f"blocks.{i}.feedforward.inner.weight": torch.cat((w1[i], w3[i])),
            f"blocks.{i}.feedforward.outer.weight": w2[i],
        }
    return state


def vocabulary() -> list[str]:
    raw, at, found = (DATA / "tok512.bin").read_bytes(), 4, []
    while at < len(raw):
        size = struct.unpack("i", raw[at + 4 : at + 8])[0]
        found.append(raw[at + 8 : at + 8 + size].decode("utf-8", "replace"))
        at += 8 + size
    return found
