"""Junk arguments over the public API: what is no argument ends in one of our errors, or is taken."""

import dataclasses
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import posenc
from posenc import positions, remap, scaling
from posenc.encodings import axes as axis_maps
from posenc.errors import PosencError
from support.checking import annotations_unchecked

T = 6
AT = torch.arange(T)
Q, K, V = torch.randn(3, 1, 2, T, 8, generator=torch.Generator().manual_seed(0))
X = Q[:, 0]
ROTARY = posenc.Rotary(8, pairing="half")
PLACED = ROTARY.at(AT)
BIASED = posenc.ALiBi(2).at(AT)
PARTS = [posenc.attention(Q, K, V, PLACED, return_logsumexp=True)] * 2

JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 7, 1.5, -0.5, math.nan, math.inf, 1e30, 10**30, -(10**30), 2**63),
    *("", "a", "half", [], [1], [2, "a"], (), (1, 1), {}, {"a": 1}, object(), len, 1j, b"a", range(3)),
    *(np.int64(2), np.float32(1.5), np.arange(3), torch.float64, torch.int64, torch.device("cpu"), ROTARY, PLACED),
    *(torch.tensor(1.5), torch.tensor(2), torch.arange(3), torch.arange(T), torch.zeros(2, 3), torch.zeros(0)),
    *(Q, Q.long(), Q[0], Q[:, :1], Q.bool(), Q.to(torch.complex64), Q.double(), Q.half(), X, Q[:, :, :0]),
    *(torch.ones(T, dtype=torch.bool), torch.ones(1, T, dtype=torch.bool), torch.zeros(2), PARTS, posenc.Mask()),
)


def used(encoding: posenc.Encoding) -> Tensor:
    """An encoding placed and attended with, as a model would."""
    at = positions.on_axes(AT, encoding.axes)
    placed = encoding.at(at)[0].with_content(X.repeat(1, 1, 2))[0]
    return posenc.attention(*placed.rotate(Q, K), V, placed, causal=True).sum() + repr(encoding).count("a")


def masked(**arguments: Any) -> Tensor:
    return posenc.attention(Q, K, V, BIASED, posenc.Mask(**arguments))


def scaled(scale: scaling.Scaling) -> Tensor:
    return used(posenc.Rotary(8, pairing="half", scaling=scaling.planned(scale, 99)))


ENCODINGS: dict[Callable[..., posenc.Encoding], dict[str, Any]] = {
    posenc.Rotary: {"head_dim": 8, "pairing": "half", "base": 1e4, "rotary_dim": 8, "scaling": None, "axes": None}
    | {"signed": False, "backwards": False, "softmax_factor": None, "phases": "exact", "backend": "auto"},
    posenc.Sinusoidal: {"width": 16, "base": 1e4, "scale": 1.0, "order": "interleaved", "spacing": "paper"},
    posenc.Learned: {"num_positions": 64, "width": 16, "past_end": "error", "std": 0.02},
    posenc.ALiBi: {"heads": 2, "max_exponent": 8.0},
    posenc.T5: {"heads": 2, "buckets": 8, "max_distance": 16, "two_sided": False, "shared": True, "std": 1.0},
    posenc.Kerple: {"heads": 2, "kernel": "log", "shared": True},
    posenc.FIRE: {"heads": 2, "units": 4, "nearest": 9.0, "shared": True},
    posenc.FoX: {"width": 16, "heads": 2, "bias": 4.0},
    posenc.Shaw: {"head_dim": 8, "heads": 2, "behind": 3, "ahead": 1, "std": 1.0},
    posenc.Inkling: {"width": 16, "heads": 2, "extent": 5, "basis": 2, "log_floor": 3, "clip": 0.5},
    posenc.TransformerXL: {"width": 16, "heads": 2, "head_dim": 8, "base": 100.0},
    posenc.DeBERTa: {"head_dim": 8, "heads": 2, "buckets": 4, "max_distance": 9, "std": 1.0},
    posenc.CoPE: {"head_dim": 8, "heads": 2, "positions": 4, "std": 1.0},
    posenc.QueryScale: {"rule": "llama4", "amount": 0.1, "floor": 8192},
    posenc.SSMax: {"heads": 2, "length": 4},
    posenc.Sandwich: {"heads": 2, "first": 0},
    posenc.PoPE: {"head_dim": 8, "heads": 2, "base": 1e4, "start": "zero"},
    posenc.FoPE: {"head_dim": 8, "num_positions": 64, "pairing": "half", "base": 1e4},
    posenc.XPos: {"head_dim": 8, "pairing": "half", "base": 1e4, "scale_base": 512},
    posenc.LearnedRotary: {"head_dim": 8, "pairing": "half", "base": 1e4, "rotary_dim": 8, "axes": 1, "groups": 1},
    posenc.ChannelRotary: {"head_dim": 8, "layout": "hunyuan-vl", "base": 1e4},
    posenc.LearnedGrid: {
        "num_positions": 9,
        "width": 16,
        "columns": 9,
        "tables": "grid",
        "resize": None,
        "std": 1.0,
    },
    posenc.SinusoidalGrid: {"width": 16, "base": 100.0},
    posenc.Window: {"heads": 2, "size": (9, 9)},
    posenc.Decomposed: {"head_dim": 8, "heads": 2, "size": (9, 9)},
    posenc.LayoutLM: {"heads": 2, "buckets": (8, 8, 8), "max_distance": (9, 9, 9)},
    posenc.Layers: {"encodings": {"a": ROTARY}, "layer_types": ("a",), "windows": {"a": 4}, "chunks": {"a": 4}}
    | {"axis": {"a": 0}, "layers": 2},
    remap.SelfExtend: {"rotary": ROTARY, "group": 2, "window": 3},
    remap.DCA: {"rotary": ROTARY, "chunk": 4, "local": 2},
    remap.ReRoPE: {"rotary": ROTARY, "window": 3},
    remap.STRING: {"rotary": ROTARY, "shift": 3, "window": 2},
}
SCALINGS: dict[Callable[..., scaling.Scaling], dict[str, Any]] = {
    scaling.Linear: {"factor": 2.0},
    scaling.NTK: {"factor": 2.0},
    scaling.DynamicNTK: {"factor": 2.0, "original_length": 64},
    scaling.YaRN: {"factor": 2.0, "original_length": 64, "beta_fast": 32.0, "beta_slow": 1.0}
    | {"attention_factor": None, "mscale": None, "mscale_all_dim": None, "truncate": True},
    scaling.Llama3: {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_length": 64},
    scaling.Proportional: {"fraction": 0.5},
    scaling.PerPair: {"factors": (1.0, 2.0, 3.0, 4.0)},
}
ATTENTION: dict[str, Any] = {"q": Q, "k": K, "v": V, "placed": BIASED, "mask": None, "causal": True, "window": None}
ATTENTION |= {"scale": None, "softcap": None, "sinks": None, "dropout": 0.0, "backend": "auto"}
MASK = dict.fromkeys(field.name for field in dataclasses.fields(posenc.Mask)) | {"causal": True}

CALLS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (posenc.attention, ATTENTION | {"return_logsumexp": False}),
    (posenc.explain, ATTENTION),
    (posenc.scores, {k: v for k, v in ATTENTION.items() if k not in ("v", "sinks", "dropout", "backend")}),
    (posenc.merge, {"parts": PARTS, "sinks": torch.zeros(2)}),
    (posenc.rerotate, {"k": K, "positions": AT, "from_": ROTARY, "to": ROTARY, "to_positions": AT}),
    (posenc.encoding, {"text": "rotary", "width": 16, "heads": 2, "head_dim": 8, "num_positions": 64, "layers": 2}),
    (ROTARY.at, {"positions": AT, "k_positions": AT, "dtype": torch.float32}),
    (posenc.T5(2).at, {"positions": AT, "k_positions": AT, "dtype": torch.float32}),
    (PLACED.rotate, {"q": Q, "k": K, "out": None}),
    (PLACED.unrotate, {"y": Q}),
    (posenc.Sinusoidal(8).at(AT).embed, {"x": X}),
    (posenc.FoX(8, 2).at(AT).with_content, {"x": X, "state": None}),
    (positions.arange, {"length": 6, "offset": 0}),
    (positions.on_axes, {"positions": AT, "axes": 2}),
    (positions.left_padded, {"mask": torch.ones(1, 4, dtype=torch.bool)}),
    (positions.packed, {"lengths": [2, 3]}),
    (positions.from_cu_seqlens, {"cu_seqlens": torch.tensor([0, 2, 5])}),
    (positions.sharded, {"length": 8, "rank": 0, "ranks": 2, "zigzag": False}),
    (positions.randomised, {"T": 4, "up_to": 9}),
    (positions.pose, {"T": 4, "up_to": 9, "chunks": 2}),
    (positions.coupled, {"groups": AT, "up_to": 9}),
    (lambda a, b, **more: positions.grid(a, b, **more), {"a": 2, "b": 3, "corner": 0, "step": 1}),
    (lambda a, b: positions.centred(a, b), {"a": 2, "b": 3}),
    (lambda a, b, parts: positions.midpoints(a, b, parts=parts), {"a": 2, "b": 3, "parts": 6}),
    (positions.left_padded_rows, {"rows": [torch.zeros(2, 3, dtype=torch.int64)]}),
    (positions.packed_rows, {"rows": [torch.zeros(2, 3, dtype=torch.int64)]}),
    (positions.multimodal, {"spans": [positions.Text(3)], "counting": "qwen2-vl", "start": 0}),
    *(
        (lambda kind=kind, **more: positions.multimodal([kind(**more)], "qwen2.5-vl"), given)
        for kind, given in (
            (positions.Text, {"tokens": 3}),
            (positions.Image, {"rows": 4, "columns": 4}),
            (positions.Video, {"frames": 2, "rows": 4, "columns": 4, "seconds": 1.0}),
        )
    ),
    (
        lambda **more: positions.multimodal([positions.Video(2, 4, 4, 1.0)], positions.Counting(**more)),
        {"merge": 2, "frames": 1, "ids_per_second": 2, "whole_videos": True},
    ),
    (masked, MASK),
    *((lambda make=make, **more: used(make(**more)), given) for make, given in ENCODINGS.items()),
    *((lambda make=make, **more: scaled(make(**more)), given) for make, given in SCALINGS.items()),
    *(
        (
            lambda make=make, **more: used(posenc.Rotary(8, pairing="half", axes=make(*more.values()))),
            {"a": 2, "b": 2},
        )
        for make in (axis_maps.chunked, axis_maps.axial)
    ),
]


def name(call: Callable[..., Any], given: dict[str, Any]) -> str:
    made = (call.__defaults__ or (call,))[0] if call.__name__ == "<lambda>" else call
    arguments = ", ".join(f"{key}={value!r:.80}" for key, value in given.items())
    return f"{getattr(made, '__qualname__', made)}({arguments})"


def thrown(draws: int, seed: int) -> list[str]:
    """What ended in somebody else's error, of so many calls with one or two arguments of junk."""
    chance, foreign = random.Random(seed), []
    for _ in range(draws):
        call, right = chance.choice(CALLS)
        wrong = {
            key: chance.choice(JUNK)
            for key in chance.sample(list(right), min(len(right), chance.choice((1, 1, 2))))
        }
        try:
            with annotations_unchecked():
                call(**right | wrong)
        except PosencError:
            pass
        except Exception as error:
            foreign.append(f"{name(call, wrong)}: {type(error).__name__}: {str(error)[:120]}")
    return foreign


def test_what_is_given_here_is_taken() -> None:
    for call, right in CALLS:
        with annotations_unchecked():
            call(**right)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_junk_ends_in_our_errors_alone(seed: int) -> None:
    assert not thrown(2000, seed)
