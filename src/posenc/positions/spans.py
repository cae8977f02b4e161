"""Positions of text, images and videos in one sequence, with the rules of each model family (M-RoPE,
arXiv 2409.12191).

A sequence consists of spans. Every token has three coordinates: time, row and column. In text, the three
coordinates are equal and increase by one per token. An image or a video starts at the same coordinate s on every
axis:

    time = s + t(frame),   row = s + y,   column = s + x

t(frame) is the time id of a frame, counted from the start of the span. The next span starts at 1 + the largest
coordinate of this span. Families differ in t, in the number of patches per token, and in the number of spans per
video.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.arguments import as_integer, at_least, instance, is_number, one_of
from posenc.errors import InvalidArgument
from posenc.positions.grids import Device, grid

FINEST = 10**6
"""The largest denominator of a duration in seconds. A float is converted to the nearest such fraction, so the float
1/3 becomes exactly a third.
"""


@dataclass(frozen=True)
class Counting:
    """The rule by which a model family counts positions.

    Args:
        merge: the number of patches per token on each axis, rows and columns (``spatial_merge_size``).
        frames: the number of consecutive frames that one token covers (``temporal_merge_size``).
        ids_per_second: the number of time ids per second of video (``tokens_per_second``,
            ``position_id_per_seconds``); None for one time id per frame.
        whole_videos: whether a video is one span; if not, its frames are images that are separated by text.
    """

    merge: int = 2
    frames: int = 1
    ids_per_second: int | None = None
    whole_videos: bool = True


COUNTINGS = {
    "qwen2-vl": Counting(),
    "qwen2.5-vl": Counting(ids_per_second=2),
    "qwen2.5-omni": Counting(ids_per_second=25),
    "qwen3-vl": Counting(whole_videos=False),
    "glm-4v": Counting(whole_videos=False),
    "ernie-4.5-vl": Counting(frames=2),
}
"""The rule of every family, with the numbers of its public checkpoints. To change a number, use
``dataclasses.replace``."""


class Span(ABC):
    """A run of tokens of the same kind: text, an image or a video."""

    @abstractmethod
    def coordinates(self, counting: Counting) -> Int[Tensor, "3 _"]:
        """Return the time, row and column of each token in the span, starting at 0."""


@dataclass(frozen=True)
class Text(Span):
    """Tokens of text, including markers around images. Audio tokens of Omni models also count as text."""

    tokens: int

    def coordinates(self, counting: Counting) -> Int[Tensor, "3 _"]:
        _check_size(self, tokens=self.tokens)
        return torch.arange(self.tokens).expand(3, -1)


@dataclass(frozen=True)
class Image(Span):
    """An image, or one frame of a video if the family puts text between the frames of a video (``whole_videos`` is
    False). ``rows`` and ``columns`` count patches before merging.
    """

    rows: int
    columns: int

    def coordinates(self, counting: Counting) -> Int[Tensor, "3 _"]:
        return grid(1, *_merged(self, counting.merge, rows=self.rows, columns=self.columns))


@dataclass(frozen=True)
class Video(Span):
    """A video. ``frames`` counts frames after temporal patching (the first number of ``video_grid_thw``); ``rows``
    and ``columns`` count patches before merging.

    ``seconds`` is the duration of one such frame, temporal_patch_size / fps (``second_per_grid_ts``), as a fraction
    or a float. Families that count time in seconds require ``seconds``.
    """

    frames: int
    rows: int
    columns: int
    seconds: Fraction | float | None = None

    def coordinates(self, counting: Counting) -> Int[Tensor, "3 _"]:
        if not counting.whole_videos:
            raise InvalidArgument(
                f"{self} cannot be one span, because this family puts text with a timestamp between frames; pass "
                "each frame as Image(rows, columns) and the text between frames as Text(tokens)"
            )
        (frames,) = _merged(self, counting.frames, frames=self.frames)
        axes = grid(frames, *_merged(self, counting.merge, rows=self.rows, columns=self.columns))
        if counting.ids_per_second is not None:
            a_frame = self._seconds() * counting.ids_per_second
            axes[0] = torch.tensor([floor(frame * a_frame) for frame in range(frames)])[axes[0]]
        return axes

    def _seconds(self) -> Fraction:
        if self.seconds is None or not is_number(self.seconds) or self.seconds <= 0:
            raise InvalidArgument(
                f"{self} needs the duration of one frame after temporal patching, because this family counts time "
                "in seconds; pass seconds=temporal_patch_size / fps, a number above 0"
            )
        return Fraction(self.seconds).limit_denominator(FINEST)


def multimodal(
    spans: Sequence[Span], counting: str | Counting, *, start: int = 0, device: Device = None
) -> tuple[Int[Tensor, "3 T"], int]:
    """Return the positions ``(3, T)`` of a sequence of spans, and the position of the next token, which is equal
    on all axes.

    ``multimodal([Text(3), Image(4, 4), Text(2)], "qwen2-vl")`` returns positions whose times are 0 1 2 3 3 3 3 5 6,
    and the next position 7. Combine the rows of a batch with ``left_padded_rows`` or ``packed_rows``; each row has
    its own next position.

    Args:
        spans: ``Text``, ``Image`` and ``Video``, in the order of their tokens.
        counting: the name of a family in ``COUNTINGS``, or a ``Counting``.
        start: the first position; to continue a conversation, pass the next position of the previous part.

    In families that count time in seconds, the time id of a frame is frame · seconds per frame · ids per second,
    computed exactly and rounded down; the models' own code computes this product in float32. The positions of text
    after a video start above the video's last time id, as they did when these models were trained. In transformers
    5.23, these positions start above the grid's largest row or column id, so they overlap the time ids of a long
    video.
    """
    if isinstance(counting, str):
        counting = COUNTINGS[one_of("counting", counting, COUNTINGS)]
    instance(spans, Iterable, "spans", "a list, such as [Text(3), Image(4, 4)]")
    after = at_least(0, ": it is the first position of the sequence")(start, "start")
    coordinates = [torch.empty(3, 0, dtype=torch.int64)]
    for i, span in enumerate(spans):
        instance(span, Span, f"spans[{i}]", "a Text, Image or Video; for n tokens of text, pass Text(n)")
        coordinates.append(span.coordinates(counting) + after)
        after = int(coordinates[-1].max()) + 1
    return torch.cat(coordinates, 1).to(device), after


def _merged(span: Span, by: int, **sizes: int) -> tuple[int, ...]:
    """Return the number of tokens along each axis, with ``by`` patches or frames per token."""
    _check_size(span, **sizes)
    for name, size in sizes.items():
        if size % by:
            raise InvalidArgument(
                f"{span} has {name}={size}, which must be a multiple of {by}, because one token covers {by} "
                f"{name}; resize the image or video"
            )
    return tuple(size // by for size in sizes.values())


def _check_size(span: Span, **sizes: int) -> None:
    for name, size in sizes.items():
        if as_integer(size, name) < 1:
            raise InvalidArgument(f"{span} has {name}={size}, which must be at least 1; omit empty spans")
