"""Views of trained models that read more and more context, even past their trained length."""

import math
from functools import lru_cache
from typing import Annotated

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import posenc
from posenc.arguments import one_of
from posenc.mask import Mask
from posenc.pictures.palette import style
from posenc.pictures.view import Axis, Heatmap, Line, Lines, View, labelled
from posenc.teaching.lessons.example import EXAMPLE
from posenc.teaching.views.bounds import Bounds, bounded
from posenc.workbench.run.transformer import Transformer
from posenc.workbench.study.trained_weights import language_models
from posenc.workbench.tasks.text import load

Read = Annotated[int, Bounds(128, 1024)]
ENDS = {"prose": b"Who ate whom is lost", "code": b"return self.head(x)"}
"""The ends of two passages in the validation text, which no model was trained on."""
TRAINED = 128
"""The trained length in bytes; the models in ``twice`` were trained at length 256 on the same total number of
bytes.
"""
SCORED, POINTS = 64, 16
"""The number of bytes, at the end of a window, whose loss is shown, and the number of points of a curve."""
MAP = 32
"""The number of rows and columns of an attention map."""
BRIGHT = 0.1
"""The share of a query's attention that is yellow in an attention map. If attention is spread evenly, each share
is 1/32.
"""

PYTHON = """\
from torch.nn.functional import cross_entropy
from posenc.teaching.lessons.example import EXAMPLE
from posenc.teaching.lab.trained import window
from posenc.workbench.study.trained_weights import language_models

inputs, targets = window({text!r}, {own!r}, {length})
for study in (EXAMPLE, EXAMPLE / "twice"):
    for name, model in language_models(study).items():
        losses = cross_entropy(model(inputs[None]).mT, targets[None], reduction="none")
        print(losses[0, -{scored}:].double().mean().item())"""


@bounded
def reading(text: str = "code", own: str = "", length: Read = 1024) -> View:
    """Show the loss of five models for every byte of a window of ``length`` bytes at the end of a text.

    Args:
        text: the passage.
        own: text to append to the passage; the window then ends with this text.
        length: the length of the window.
    """
    losses = {study: _losses(study, text, own, length) for study in ("", "twice")}
    width = length // POINTS
    first = length - POINTS * width
    at = tuple(first + width * (i + 0.5) for i in range(POINTS))
    curves = {name: each[first:].unflatten(0, (POINTS, width)).mean(1) for name, each in losses[""].items()}
    last = {name: [float(each[name][-SCORED:].mean()) for each in losses.values()] for name in curves}
    best = min(last, key=lambda name: last[name][0])
    ends = f"{last[best][0]:.2f} nats per byte" + ("" if best == "rotary" else f", RoPE {last['rotary'][0]:.2f}")
    return View(
        f"Of the models trained on {TRAINED} bytes, {style(best).label} reads the last {SCORED} of {length} best: "
        f"{ends}",
        (
            Lines(
                "loss by position",
                tuple(Line(style(name).label, curve, name) for name, curve in curves.items()),
                Axis("position", at, "bytes"),
                "loss",
                "nats per byte",
                marks=((float(TRAINED), "trained to here"),) if length > TRAINED else (),
                levels=((math.log(256), "a blind guess"),),
            ),
            Heatmap(
                f"loss of the last {SCORED} bytes, nats per byte",
                torch.tensor([*last.values()], dtype=torch.float64),
                labelled("", (style(name).label for name in last)),
                labelled("trained on", ("128 bytes", "256 bytes")),
                "magnitude",
                "nats per byte",
                limit=math.log(256),
                words=tuple(tuple(f"{v:.2f}" for v in row) for row in last.values()),
            ),
        ),
        {
            f"RoPE, nats of the last {SCORED}": last["rotary"][0],
            "RoPE trained on 256": last["rotary"][1],
            "ALiBi": last["alibi"][0],
        },
        PYTHON.format(text=text, own=own, length=length, scored=SCORED),
    )


LOOKS_PYTHON = """\
import torch, posenc
from posenc.teaching.lessons.example import EXAMPLE
from posenc.teaching.lab.trained import attention_weights, window
from posenc.workbench.study.trained_weights import language_models

inputs, _ = window({text!r}, {own!r}, {length})
for name in ("rotary", "alibi"):
    weights = attention_weights(language_models(EXAMPLE)[name], inputs, {layer})[{head}].double()
    print(round(weights.tril(-{trained})[-{scored}:].sum(-1).mean().item(), 4))"""


@bounded
def looks(
    text: str = "code",
    own: str = "",
    length: Read = 1024,
    layer: Annotated[int, Bounds(1, 2)] = 1,
    head: Annotated[int, Bounds(1, 4)] = 1,
) -> View:
    """Show the attention of one head in each model, from each part of the window to each earlier part.

    Args:
        text, own, length: as in ``reading``.
        layer, head: counted from 1.
    """
    attended = {style(name).label: both for name, both in _attended(text, own, length, layer - 1).items()}
    far = {label: round(float(shares[head - 1]), 4) for label, (_, shares) in attended.items()}
    width = length // MAP
    starts = tuple(float(length - MAP * width + width * i) for i in range(MAP))
    panels = tuple(
        Heatmap(
            f"{label}: {far[label]:.0%}",
            parts[head - 1].masked_fill(torch.ones(MAP, MAP).triu(1).bool(), math.nan),
            Axis("query", starts, "byte"),
            Axis("key", starts, "byte"),
            "magnitude",
            "share",
            limit=BRIGHT,
            marked_rows=(TRAINED // width,) if length > TRAINED else (),
        )
        for label, (parts, _) in attended.items()
    )
    least, most = min(far, key=lambda name: far[name]), max(far, key=lambda name: far[name])
    ends = f"{far[least]:.0%} with {least}, {far[most]:.0%} with {most}"
    return View(
        f"Layer {layer}, head {head}: attention from the last {SCORED} bytes to untrained distances is "
        + (ends if far[most] else "none"),
        panels,
        {f"{name}, beyond {TRAINED} bytes": far[name] for name in ("RoPE", "ALiBi")},
        LOOKS_PYTHON.format(
            text=text, own=own, length=length, layer=layer - 1, head=head - 1, trained=TRAINED, scored=SCORED
        ),
    )


def window(text: str, own: str, length: int) -> tuple[Tensor, Tensor]:
    """Return a window of ``length`` bytes that ends with ``own``, and its targets: the byte that follows each byte.
    Both have shape (T,).
    """
    end, held_out = ENDS[one_of("text", text, ENDS)], bytes(load().validation.tolist())
    passage = held_out[: held_out.index(end) + len(end)]
    added = f"\n\n{own}".encode(errors="replace") if own else b""
    data = torch.tensor(list((passage + added)[-length - 1 :]))
    return data[:-1], data[1:]


@torch.inference_mode()
def attention_weights(model: Transformer, inputs: Tensor, layer: int) -> Tensor:
    """Return the attention of every head of a layer, of shape (H, T, T), when a model reads ``inputs`` of shape
    (T,)."""
    placed, mask = model.encoding.at(posenc.positions.arange(len(inputs))), Mask(causal=True)
    x = placed.embed(model.embedding(inputs[None]))
    for i, block in enumerate(model.layers[:layer]):
        x = block(x, placed[i], mask)
    block = model.layers[layer]
    q, k, _ = block.attention.heads(block.attention_norm(x))
    return posenc.scores(*placed[layer].rotate(q, k), placed[layer], mask)[0].softmax(-1)


@lru_cache
def models(study: str) -> dict[str, Transformer]:
    """Return a study's models by encoding; ``study`` is "" (the example study) or ``"twice"`` (see ``TRAINED``)."""
    return language_models(EXAMPLE / study)


@lru_cache(maxsize=8)
def _attended(text: str, own: str, length: int, layer: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Return two tensors for each model. The first, of shape (H, MAP, MAP), is the attention from each of ``MAP``
    parts of the window to each part. The second, of shape (H,), is the share of attention that the last ``SCORED``
    queries give to keys at least ``TRAINED`` positions back.
    """
    inputs, _ = window(text, own, length)
    width = length // MAP
    attended = {}
    for name, model in models("").items():
        weights = attention_weights(model, inputs, layer).double()
        parts = weights[:, -MAP * width :, -MAP * width :].unflatten(2, (MAP, width)).sum(-1)
        far = weights[:, -SCORED:].tril(length - SCORED - TRAINED)
        attended[name] = parts.unflatten(1, (MAP, width)).mean(2), far.sum(-1).mean(-1)
    return attended


@lru_cache(maxsize=8)
@torch.inference_mode()
def _losses(study: str, text: str, own: str, length: int) -> dict[str, Tensor]:
    """Return the loss of every byte of the window, by encoding."""
    inputs, targets = window(text, own, length)
    return {
        name: cross_entropy(model(inputs[None])[0], targets, reduction="none").double()
        for name, model in models(study).items()
    }
