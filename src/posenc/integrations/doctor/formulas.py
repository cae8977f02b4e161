"""The formulas that ports of rotations get wrong: each mistake in words, and a function that makes this mistake.

In the functions, ``port`` is a ``Rotation``.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from posenc.integrations.doctor.search import Array
from posenc.scaling import NTK, Default, Llama3, PerPair, Scaling, YaRN


def swapped_ends(port: Any, theta: Array, plain: Array) -> Array:
    """Return the frequencies that the code of YaRN's authors computes if beta_fast and beta_slow are swapped. The
    ramp is then reversed, and its ends are rounded inwards to whole pairs.
    """
    first, last = replace(port.scaling, truncate=False).ends(port.span, port.base)
    keep = np.interp(np.arange(len(plain)), sorted((math.ceil(first), math.floor(last))), (0, 1))
    return plain * keep + plain / port.scaling.factor * (1 - keep)


def with_ramp_over(channels: int, port: Any, plain: Array) -> Array:
    """Return the frequencies that result if YaRN's ramp is computed over this number of channels."""
    other = replace(port, span=channels, series="")
    return plain * (other.theta / replace(other, scaling=Default()).theta)[: port.turning]


SERIES: Mapping[str, tuple[str, type[Scaling], Callable[[Any, Array, Array], Array]]] = {
    "": ("its frequencies are the model's", Scaling, lambda port, theta, plain: theta),
    "all 1": (
        "its exponent is 0 for every pair, as after integer division: all frequencies are 1",
        Scaling,
        lambda port, theta, plain: np.ones_like(theta),
    ),
    "growing": (
        "its exponent lacks the minus sign: frequencies grow with the pair's index",
        Scaling,
        lambda port, theta, plain: 1 / theta,
    ),
    "backwards": ("its frequencies are in the reverse order", Scaling, lambda port, theta, plain: theta[::-1]),
    "still first": (
        "its pairs with frequency 0 come before the pairs that rotate, instead of after them",
        Scaling,
        lambda port, theta, plain: np.concatenate((np.zeros(port.pairs - len(theta)), theta)),
    ),
    "from one": (
        "its exponent is off by one pair: the index begins at 1, so no frequency is 1",
        Scaling,
        lambda port, theta, plain: theta * port.base ** (-2 / port.span),
    ),
    "degrees": (
        "its angles are in degrees: every frequency is multiplied by π/180",
        Scaling,
        lambda port, theta, plain: np.radians(theta),
    ),
    "turns": (
        "its angles are in turns: every frequency is multiplied by 2π",
        Scaling,
        lambda port, theta, plain: 2 * math.pi * theta,
    ),
    "blended backwards": (
        "its ramp is reversed: fast pairs are scaled and slow ones kept",
        Scaling,
        lambda port, theta, plain: plain * (1 + 1 / getattr(port.scaling, "factor", 1.0)) - theta,
    ),
    "ends swapped": (
        "its beta_fast and beta_slow are swapped: fast pairs are scaled and slow ones kept",
        YaRN,
        swapped_ends,
    ),
    "ends equal": (
        "its beta_fast and beta_slow are equal or swapped: its ramp is a step, which scales only the slow pairs",
        YaRN,
        lambda port, theta, plain: (
            replace(port, scaling=replace(port.scaling, beta_fast=port.scaling.beta_slow), series="").theta
        ),
    ),
    "ramp kept": (
        "its ramp is still computed over the channels that rotate",
        YaRN,
        lambda port, theta, plain: with_ramp_over(2 * port.turning, port, plain),
    ),
    "ramp doubled": (
        "its ramp is computed over twice as many channels as rotate",
        YaRN,
        lambda port, theta, plain: with_ramp_over(4 * port.turning, port, plain),
    ),
    "ramp of the head": (
        "its ramp is computed over all channels of the head",
        YaRN,
        lambda port, theta, plain: with_ramp_over(port.head_dim, port, plain),
    ),
    "blended wavelengths": (
        "its ramp blends wavelengths instead of frequencies",
        YaRN,
        lambda port, theta, plain: (
            plain / (1 + (1 - theta / plain) / (1 - 1 / port.scaling.factor) * (port.scaling.factor - 1))
        ),
    ),
    "no exponent": (
        "its base is multiplied by NTK's factor itself, without the exponent d/(d − 2)",
        NTK,
        lambda port, theta, plain: (
            replace(port, base=port.base * port.scaling.factor, scaling=Default(), series="").theta
        ),
    ),
    "blend reversed": (
        "its blend between low_freq_factor and high_freq_factor is reversed: smooth and 1 − smooth are exchanged",
        Llama3,
        lambda port, theta, plain: np.where(
            np.isclose(theta, plain, atol=0) | np.isclose(theta * port.scaling.factor, plain, atol=0),
            theta,
            plain * (1 + 1 / port.scaling.factor) - theta,
        ),
    ),
    "radians": (
        "its wavelengths lack the factor 2π",
        Llama3,
        lambda port, theta, plain: np.array(
            replace(
                port.scaling,
                low_freq_factor=port.scaling.low_freq_factor / (2 * math.pi),
                high_freq_factor=port.scaling.high_freq_factor / (2 * math.pi),
            ).scaled(list(map(Decimal, plain))),
            float,
        ),
    ),
    "factors reversed": (
        "its LongRoPE factors are in the reverse order",
        PerPair,
        lambda port, theta, plain: plain * (theta / plain)[::-1],
    ),
    "inverted": (
        "{scaling} is inverted: scaled frequencies are multiplied by the factor instead of divided",
        Scaling,
        lambda port, theta, plain: plain * plain / theta,
    ),
    "twice": (
        "applies {scaling} twice",
        Scaling,
        lambda port, theta, plain: (
            np.array(port.scaling.scaled(list(map(Decimal, theta))), float)
            if isinstance(port.scaling, Llama3)
            else theta * theta / plain
        ),
    ),
}
"""Possible changes to all frequencies. Each has a description in words, the type of scaling to which it applies,
and a function of the port's ``Rotation`` and its scaled and unscaled frequencies.
"""

UNEVEN: Mapping[str, tuple[str, Callable[[Any, Array, Array], tuple[Array, Array]]]] = {
    "": ("the channels of a pair share an angle", lambda port, axes, theta: (axes, theta)),
    "by channel": (
        "every channel has its own frequency, but the channels of a pair should share one",
        lambda port, axes, theta: (axes, np.stack((theta, theta * port.base ** (-1 / port.span)))),
    ),
    "repeated": (
        "its angles are repeated (0, 0, 1, 1, …), as for interleaved pairs, but it rotates half pairs",
        lambda port, axes, theta: (axes[port.places // 2], theta[port.places // 2]),
    ),
    "tiled": (
        "its angles are tiled (0, 1, …, 0, 1, …), as for half pairs, but it rotates interleaved pairs",
        lambda port, axes, theta: (axes[port.places % port.pairs], theta[port.places % port.pairs]),
    ),
    "doubled": (
        "its sections are doubled, so that the two channels of a pair belong to different axes",
        lambda port, axes, theta: (axes.repeat(2).reshape(2, -1), theta),
    ),
}
"""Ways in which the channels of a pair may get their angles, each in words and as a function of the pairs' axes and
frequencies. The function returns axes and frequencies, each ``(P,)``, or ``(2, P)`` if the two channels of a pair
differ.
"""

PRODUCTS: Mapping[str, tuple[str, Callable[..., tuple[Array, Array]]]] = {
    "": ("it rotates", lambda a, b, cos, sin, sign: (a * cos - sign * b * sin, b * cos + sign * a * sin)),
    "reflected": (
        "the first channel of each pair lacks its minus sign: (a·cos + b·sin, b·cos + a·sin)",
        lambda a, b, cos, sin, sign: (a * cos + sign * b * sin, b * cos + sign * a * sin),
    ),
    "subtracted": (
        "the second channel of each pair has a minus sign too: (a·cos − b·sin, b·cos − a·sin)",
        lambda a, b, cos, sin, sign: (a * cos - sign * b * sin, b * cos - sign * a * sin),
    ),
    "overwritten": (
        "the second channel of each pair is computed from the first one, which was already overwritten",
        lambda a, b, cos, sin, sign: (a * cos - sign * b * sin, b * cos + sign * (a * cos - sign * b * sin) * sin),
    ),
    "products exchanged": (
        "cos and sin are swapped in the second channel of each pair: b·sin + a·cos",
        lambda a, b, cos, sin, sign: (a * cos - sign * b * sin, sign * b * sin + a * cos),
    ),
    "added": (
        "the rotated vectors are added to the vectors themselves",
        lambda a, b, cos, sin, sign: (a + a * cos - sign * b * sin, b + b * cos + sign * a * sin),
    ),
    "exchanged": (
        "cos and sin are swapped",
        lambda a, b, cos, sin, sign: (a * sin - sign * b * cos, b * sin + sign * a * cos),
    ),
    "factor on cos": (
        "only cos is multiplied by the attention factor",
        lambda a, b, cos, sin, sign: (
            a * cos - sign * b * sin / np.hypot(cos, sin),
            b * cos + sign * a * sin / np.hypot(cos, sin),
        ),
    ),
    "factor on sin": (
        "only sin is multiplied by the attention factor",
        lambda a, b, cos, sin, sign: (
            a * cos / np.hypot(cos, sin) - sign * b * sin,
            b * cos / np.hypot(cos, sin) + sign * a * sin,
        ),
    ),
}
"""Possible formulas for the rotation of a pair (a, b), each in words and as a function. ``cos`` and ``sin`` are
already multiplied by the attention factor, so that the factor is hypot(cos, sin).
"""

COUNTED: Mapping[str, str] = {
    "position": "counts positions",
    "row": "counts rows 0, 1, 2 … and ignores the positions",
    "head": "heads and length are swapped: it counts positions along the axis of heads",
    "split": "heads and length are swapped by a reshape instead of a transpose",
    "joined": "heads and length are swapped by a reshape instead of a transpose",
    "reversed": "its positions are in the reverse order: the first token has the last position",
    "first": "every token has the position of the first",
    "last": "every token has the position of the last",
}
"""What a port may count as a token's position, in words. For ``split`` and ``joined``, it is another token's
position.
"""
