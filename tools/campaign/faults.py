"""Faults to plant in the library, one at a time; the campaign of its area must catch each of them.

A fault names what it replaces and builds the replacement from the original. A name that no longer exists is an
error, so a fault cannot silently do nothing.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import getattr_static
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Fault:
    """A fault, which is planted in the library to test the campaign.

    Args:
        name: a description of the fault.
        area: the area whose cases must catch it.
        where: the name to replace, with its module.
        make: a function that builds the replacement from the original.
        cases: the number of cases of seed 0 within which the campaign must catch the fault.
        quick: whether the fast tests plant the fault.
    """

    name: str
    area: str
    where: str
    make: Make
    cases: int = 400
    quick: bool = False

    def plant(self) -> AbstractContextManager[object]:
        """Return a context in which the library has this fault."""
        path, _, name = self.where.rpartition(".")
        owner = resolve_name(path)
        if isinstance(owner, dict):
            return patch.dict(owner, {name: self.make(owner[name])})
        getattr(owner, name)  # public names are loaded on first use
        return patch.object(owner, name, self.make(getattr_static(owner, name)))


def before(change: Callable[..., tuple[Any, ...]]) -> Make:
    """Call the original with changed positional arguments."""
    return lambda original: lambda *given, **named: original(*change(*given), **named)


def after(change: Callable[..., Any]) -> Make:
    """Change the original's result; ``change`` receives the result and the positional arguments."""
    return lambda original: lambda *given, **named: change(original(*given, **named), *given)


def with_mask(change: Callable[[Any], dict[str, Any]]) -> Make:
    """Call a mask's method on a mask with these fields changed."""
    return before(lambda mask, *rest: (replace(mask, **change(mask)), *rest))


def _float_angles(original: Any) -> Any:
    def forward(self: Any, positions: Tensor, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Any:
        at = positions.movedim(0, -1)[..., self.axis_of_hand] if self.by_axis else positions[..., None]
        angle = at.float() * torch.tensor([float(f) for f in self.frequencies.exact])
        return (angle.cos() * scale).to(dtype), (angle.sin() * scale).to(dtype)

    return forward


OTHER = {"half": "interleaved", "interleaved": "half"}
ALIBI, T5, MASK = "posenc.encodings.alibi", "posenc.encodings.t5", "posenc.mask.Mask"
SOFTMAX = "posenc.kernels.attention.softmax"

EVERY = (
    Fault("ALiBi rewards distance", "attention", f"{ALIBI}.LinearBias.values", after(lambda y, *_: -y), quick=True),
    Fault(
        "a window one key too wide",
        "attention",
        f"{MASK}.block",
        with_mask(lambda mask: {} if mask.window is None else {"window": mask.window + 1}),
        quick=True,
    ),
    Fault(
        "queries see the next key",
        "attention",
        f"{MASK}.places",
        after(lambda places, *_: (places[0] + 1, places[1])),
    ),
    Fault(
        "softmax over hidden keys",
        "attention",
        f"{MASK}.known",
        with_mask(lambda mask: {"key_mask": None, "left_padding": None}),
    ),
    Fault(
        "buckets that begin one distance early",
        "attention",
        f"{T5}.T5.bucket",
        before(lambda self, offsets: (self, offsets - 1)),
    ),
    Fault(
        "factors of the position before",
        "attention",
        "posenc.encodings.query_scale.QueryScale.place",
        before(lambda self, q, *rest: (self, (q - 1).clamp(min=0), *rest)),
    ),
    Fault(
        "counts of hidden keys",
        "attention",
        "posenc.encodings.cope.CountedBias.rows",
        before(lambda self, a, b, keys, scores, *rest: (self, a, b, keys, scores.clamp(min=-1.0), *rest)),
        800,
    ),
    Fault(
        "pairs that grow with distance",
        "rotation",
        "posenc.encodings.xpos.XPos.fading",
        lambda original: property(lambda self: [-rate for rate in original.fget(self)]),
    ),
    Fault("angles in float32", "rotation", "posenc.clock.Clock.forward", _float_angles, quick=True),
    Fault(
        "keys unrotated at the wrong position",
        "rotation",
        "posenc.rerotate",
        before(lambda k, old, start, to, new=None: (k, old if new is None else new, start, to, new)),
    ),
    Fault(
        "the axis map of another model",
        "rotation",
        "posenc.encodings.axes.MAPS.dealt",
        lambda _: import_module("posenc.encodings.axes").alternating,
        1500,
    ),
    Fault(
        "polar queries without their own angle",
        "rotation",
        "posenc.encodings.pope.PoPE.polar",
        before(lambda self, x, cos, sin, delta=None: (self, x, cos, sin, None)),
    ),
    Fault("logsumexp off by a hundredth", "laws", f"{SOFTMAX}.logsumexp", after(lambda y, *_: y + 0.01)),
    Fault(
        "keys' gradients one part in a thousand short",
        "laws",
        "posenc.attend.recomputed.fused_backward",
        after(lambda grads, *_: (grads[0], 0.999 * grads[1], grads[2])),
        800,
    ),
    Fault(
        "the other pairing in bfloat16",
        "laws",
        "posenc.encodings.rotation.rotate_both",
        before(
            lambda q, k, a, b, pairing, *rest: (
                q,
                k,
                a,
                b,
                OTHER[pairing] if q is not None and q.dtype == torch.bfloat16 else pairing,
                *rest,
            )
        ),
    ),
    Fault(
        "tables rounded to the default type",
        "laws",
        "posenc.clock.Clock.forward",
        after(lambda tables, *_: tuple(x.to(torch.get_default_dtype()).to(x.dtype) for x in tables)),
        400,
    ),
    Fault(
        "a foreign error",
        "text",
        "posenc.encodings.text._value",
        after(lambda value, *_: {}[value] if isinstance(value, tuple) else value),
        quick=True,
    ),
    Fault(
        "a setting forgotten",
        "text",
        "posenc.encodings.catalogue.canonical",
        after(lambda recipe, *_: replace(recipe, settings=recipe.settings[1:])),
    ),
)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in EVERY}
