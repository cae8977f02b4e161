"""The layouts of image and video models, by name.

A layout determines which coordinate (such as row, column or frame) rotates each pair of channels. It consists of a
string for ``posenc.encoding`` and a function that makes positions. Public code uses many layouts. A wrong layout
changes no shape and raises no error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.arguments import such_that
from posenc.errors import InvalidArgument
from posenc.positions import centred, grid, midpoints


@dataclass(frozen=True)
class Layout:
    """The layout of a family of models (axial RoPE: Heo et al. 2024, arXiv 2403.13298).

    Args:
        letters: one letter per position axis, in order: y for rows, x for columns, and t or l as explained under
            ``LAYOUTS``.
        text: a function that takes head_dim and returns the string of the encoding.
        multiple: a number that must divide head_dim.
        coordinates: a function that makes positions from a shape, such as ``grid``.
        in_parts: whether a coordinate n stands for the fraction n/``parts``, so that pictures of all sizes span the
            same range. If so, ``text`` and ``coordinates`` have the argument ``parts``, which must be a multiple of
            the number of cells along every axis.
    """

    letters: str
    text: Callable[..., str]
    multiple: int = 4
    coordinates: Callable[..., Int[Tensor, "A T"]] = grid
    in_parts: bool = False

    def encoding(self, head_dim: int, *, parts: int | None = None) -> str:
        """Return the string of the encoding, as in ``posenc.encoding(layout.encoding(64), head_dim=64)``."""
        such_that(
            lambda channels: channels >= self.multiple and channels % self.multiple == 0,
            f"be a multiple of {self.multiple} in this layout",
        )(head_dim, "head_dim")
        return self.text(head_dim, **self._parts(parts))

    def positions(self, *shape: int, parts: int | None = None) -> Int[Tensor, "A T"]:
        """Return positions for a picture of shape (rows, columns) or a video of shape (frames, rows, columns)."""
        if len(shape) != len(self.letters):
            raise InvalidArgument(
                f"shape={shape} has {len(shape)} numbers, but this layout has {len(self.letters)} axes"
            )
        return self.coordinates(*shape, **self._parts(parts))

    def _parts(self, parts: int | None) -> dict[str, int | None]:
        """Return ``parts`` as an argument of ``text`` and ``coordinates``, or no argument without ``in_parts``."""
        if self.in_parts and parts is None:
            raise InvalidArgument(
                "parts is missing, but this layout measures positions in units of 1/parts of the picture; pass "
                "parts=math.lcm(rows, columns), taken over all pictures of a batch"
            )
        return {"parts": parts} if self.in_parts else {}


def _halves(form: str, settings: str) -> Callable[..., str]:
    """Return a function from head_dim, and from ``parts`` if the form contains it, to the string of an encoding in
    which each of two axes gets half of the pairs."""
    return lambda D, **parts: f"rotary(axes={form.format(D // 4, **parts)}, {settings})"


def _shares(*shares: int, base: int = 10_000, extra: str = "") -> Callable[[int], str]:
    """Return a function from head_dim to the string of an encoding in which axis i gets shares[i]/64 of the
    channels.
    """
    return lambda D: (
        f"rotary(axes=axial({', '.join(str(share * D // 128) for share in shares)}), pairing=interleaved, "
        f"base={base}{extra})"
    )


def _starts(*shape: int, parts: int) -> Int[Tensor, "A T"]:
    """Return the start of each cell, in units of 1/``parts`` of the picture."""
    if any(parts % n for n in shape):
        raise InvalidArgument(
            f"parts={parts} must be a multiple of the number of cells along every axis of {shape}"
        )
    return grid(*shape, step=[parts // n for n in shape])


def _qwen_image(frames: int, rows: int, columns: int) -> Int[Tensor, "A T"]:
    """Return positions that count frames from 0, and rows and columns from the middle of the picture."""
    return torch.stack((grid(frames, rows, columns)[0], *centred(rows, columns).repeat(1, frames)))


LAYOUTS: dict[str, Layout] = {
    "qwen-vl-vision": Layout("yx", _halves("axial({0}, {0})", "pairing=half, base=10000")),
    "step3.7-vision": Layout("yx", _halves("axial({0}, {0}, order=(1, 0))", "pairing=half, base=10000")),
    "pixtral": Layout("yx", lambda D: f"rotary(axes=dealt(2, {D // 2}), pairing=half)"),
    "kimi-k2.5-vision": Layout(
        "yx", lambda D: f"rotary(axes=alternating(2, {D // 2}, order=(1, 0)), pairing=half)"
    ),
    "gemma4-vision": Layout("yx", lambda D: "channel-rotary(layout=gemma4-vision)"),
    "sam2": Layout("yx", _halves("axial({0}, {0}, order=(1, 0))", "pairing=interleaved, base=10000")),
    "sam3-global": Layout(
        "yx", _halves("axial({0}, {0}, order=(1, 0), units=('1/3', '1/3'))", "pairing=interleaved, base=10000")
    ),
    "llama4-vision": Layout(
        "yx",
        _halves("axial({0}, {0}, order=(1, 0))", "pairing=interleaved, base=10000"),
        coordinates=partial(grid, corner=1),
    ),
    "eva": Layout(  # coordinates span the trained 16 × 16 grid for any picture size
        "yx",
        _halves("axial({0}, {0}, units=('16/{parts}', '16/{parts}'))", "pairing=interleaved"),
        coordinates=_starts,
        in_parts=True,
    ),
    "dinov3": Layout(
        "yx",
        _halves(
            "axial({0}, {0}, units=('1/{parts}', '1/{parts}'), turns=True)", "pairing=half, base=100, signed=True"
        ),
        coordinates=midpoints,
        in_parts=True,
    ),
    "minimax-m3-vision": Layout(  # 2⌊D/6⌋ channels for each axis; leftover channels do not rotate
        "tyx",
        lambda D: f"rotary(axes=axial({D // 6}, {D // 6}, {D // 6}), rotary_dim={6 * (D // 6)}, pairing=half)",
        2,
    ),
    "v-jepa2": Layout("tyx", lambda D: "channel-rotary(layout=v-jepa2)", 2),
    "wan": Layout(  # rows and columns get 2⌊D/6⌋ channels each, and frames the rest
        "tyx",
        lambda D: f"rotary(axes=axial({D // 2 - 2 * (D // 6)}, {D // 6}, {D // 6}), pairing=interleaved)",
        2,
    ),
    "flux": Layout("tyx", _shares(8, 28, 28), 32),
    "hunyuan-video": Layout("tyx", _shares(8, 28, 28, base=256), 32),
    "qwen-image": Layout("tyx", _shares(8, 28, 28, extra=", signed=True"), 32, _qwen_image),
    "z-image": Layout("tyx", _shares(16, 24, 24, base=256), 16),
    "ernie-image": Layout("tyx", lambda D: "channel-rotary(layout=ernie-image)", 16),
    "flux2": Layout("tyxl", _shares(16, 16, 16, 16, base=2000), 8),
}
"""The layout of each family, by name. Axis t counts frames, except in Flux, Z-Image and ERNIE-Image, where it
counts text tokens or pictures. Axis l of Flux 2 counts text tokens.
"""
