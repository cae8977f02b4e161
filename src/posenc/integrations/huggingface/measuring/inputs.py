"""Inputs of models: texts, pictures or sounds, random or of one token, patch or frame that is repeated.

Arguments are built by name, with the config's sizes; if a name allows several shapes, the first that runs is used.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posenc.integrations.huggingface.language_model import text_config

PICTURES = ("pixel_values", "hidden_states", "image", "pixel_values_images", "pixel_values_videos")
SOUNDS = ("input_features", "input_values")
SENSES = (*PICTURES, *SOUNDS)
CELLS, FRAMES, PERIODS = 4, 64, 40
"""Patches along a side if a config has no size, frames of a sound, and the length of samples in frames."""
STRIDE = 384
"""Samples of a frame if the config does not say their product: a multiple of what models in use have."""
EDGE, HEARD = 3, 24
"""Frames at the start of a sound that convolutions mix with its edge, and the measured frames after them."""
READ, DECODED = 23, 11
"""Tokens of a text, and of a decoder's, of different lengths, so that self-attention can be recognised."""


@dataclass(frozen=True)
class Form:
    """One way to give a model texts, pictures or sounds.

    Args:
        name: of the argument that takes them.
        make: numbers for a number of rows, constant within a row or not, from a generator.
        cells: rows and columns of patches in a picture; None for texts and sounds.
        arguments: further arguments for a number of rows.
        alone: whether one row is given at a time, since all are laid out one after another.
        merge: patches along a side of what later becomes one; such patches may come one after another.
        length: tokens of a text; None for pictures and sounds.
    """

    name: str
    make: Callable[[int, bool, torch.Generator], Tensor]
    cells: tuple[int, int] | None
    arguments: Callable[[int], dict[str, Tensor]]
    alone: bool = False
    merge: int = 1
    length: int | None = None

    def given(self, rows: int, alike: bool, seed: int) -> dict[str, Tensor]:
        """Arguments of a forward pass."""
        return {self.name: self.make(rows, alike, torch.Generator().manual_seed(seed)), **self.arguments(rows)}

    def orders(self, tokens: int) -> list[list[int]]:
        """Which tokens are at the places that are measured, first to last, in every order that they may have.

        A picture's places are counted row by row, after tokens of no place; at the ends of a sound some frames have
        other content.
        """
        if self.length is not None:
            return [[*range(tokens)]]
        if self.cells is None:
            return [[*range(EDGE, min(EDGE + HEARD, tokens - EDGE))]] if tokens > 2 * EDGE + 1 else []
        rows, columns = self.cells
        front, m = tokens - rows * columns, self.merge
        if not 0 <= front <= rows * columns:
            return []
        places = torch.arange(rows * columns).unflatten(0, self.cells)
        orders = [places]
        if m > 1 and not rows % m and not columns % m:
            orders.append(places.reshape(rows // m, columns // m, m, m).transpose(1, 2).reshape(rows, columns))
        return [(order.flatten() + front).tolist() for order in orders]


class TokenIds:
    """What token ids a model takes, alone and in its decoder, and whether it takes their positions."""

    def __init__(self, model: Any) -> None:
        takes, text = inspect.signature(model.forward).parameters, text_config(model.config)
        self.accepted, self.decodes = "input_ids" in takes, "decoder_input_ids" in takes
        self.takes_positions = self.accepted and "position_ids" in takes and not self.decodes
        self.longest = _stated(text, "max_position_embeddings", "n_positions", default=0) or 512
        self.vocabulary = min(int(getattr(text, "vocab_size", None) or 64), 300)
        self.device = next(model.parameters()).device

    def draw(self, rows: int, length: int, seed: int = 0) -> Tensor:
        """Random token ids."""
        ids = torch.randint(4, self.vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed))
        return ids.to(self.device)

    def form(self, name: str, length: int) -> Form:
        """Texts of this length as the argument ``name``, random or of one token each."""

        def make(rows: int, alike: bool, draw: torch.Generator) -> Tensor:
            repeated = 4 + torch.arange(rows) % (self.vocabulary - 4)
            return repeated[:, None].repeat(1, length) if alike else self.draw(rows, length, draw.initial_seed())

        return Form(name, make, None, lambda rows: {}, length=length)


def forms(model: Any, config: Any = None, names: Sequence[str] = SENSES) -> Iterator[Form]:
    """Every form that may fit this model, the likeliest first; empty for a model without pictures and sounds.

    Args:
        model: the model whose ``forward`` gets them.
        config: with their sizes; by default the model's own.
        names: possible names of the argument; the first that the model has is used.
    """
    takes = inspect.signature(model.forward).parameters
    config = model.config if config is None else config
    name = next((one for one in names if one in takes), None)
    if name in PICTURES:
        yield from _pictures(name, {*takes}, config)
    elif name is not None:
        yield from _sounds(name, {*takes}, config)


def _pair(value: Any) -> tuple[int, int]:
    return (int(value[0]), int(value[1])) if isinstance(value, (list, tuple)) else (int(value), int(value))


def _stated(config: Any, *names: str, default: Any = None) -> Any:
    values = (getattr(config, name, None) for name in names)
    return next((value for value in values if value is not None), default)


@dataclass(frozen=True)
class _Picture:
    """The sizes of a picture that a config states.

    Args:
        takes: the arguments of the model's forward.
        size: height and width of a picture.
        patch: height and width of a patch.
        colours: numbers per pixel.
        frames: how often a patch is repeated in time, in sequences of patches.
        shots: pictures of a video, 1 for a model without video.
        merge: patches along a side that are merged into one.
    """

    takes: frozenset[str]
    size: tuple[int, int]
    patch: tuple[int, int]
    colours: int
    frames: int
    shots: int
    merge: int

    @property
    def cells(self) -> tuple[int, int]:
        return self.size[0] // self.patch[0], self.size[1] // self.patch[1]

    def patches(self, rows: int, alike: bool, draw: torch.Generator) -> Tensor:
        """``(rows, patches, colours, height, width)``."""
        count = self.cells[0] * self.cells[1]
        drawn = torch.randn(rows, 1 if alike else count, self.colours, *self.patch, generator=draw)
        return drawn.expand(-1, count, -1, -1, -1)

    def whole(self, rows: int, alike: bool, draw: torch.Generator) -> Tensor:
        """``(rows, colours, height, width)``; pixels outside all patches are 0."""
        laid = self.patches(rows, alike, draw).unflatten(1, self.cells).permute(0, 3, 1, 4, 2, 5)
        height, width = (count * side for count, side in zip(self.cells, self.patch, strict=True))
        picture = laid.reshape(rows, self.colours, height, width)
        return torch.nn.functional.pad(picture, (0, self.size[1] - width, 0, self.size[0] - height))

    def arguments(self, rows: int) -> dict[str, Tensor]:
        count = self.cells[0] * self.cells[1]
        at = torch.stack((torch.arange(count) % self.cells[1], torch.arange(count) // self.cells[1]), -1)
        every = {
            **dict.fromkeys(("grid_thw", "image_grid_thw"), torch.tensor([[1, *self.cells]] * rows)),
            **dict.fromkeys(("merge_sizes", "image_merge_sizes"), torch.tensor([self.merge] * rows)),
            **dict.fromkeys(("spatial_shapes", "target_sizes", "image_grid_hw"), torch.tensor([self.cells] * rows)),
            "image_sizes": torch.tensor([self.size] * rows),
            "pixel_attention_mask": torch.ones(rows, count, dtype=torch.int64),
            **dict.fromkeys(("pixel_position_ids", "image_position_ids"), at.expand(rows, -1, -1)),
        }
        return {key: value for key, value in every.items() if key in self.takes}


LAID_OUT: tuple[Callable[[Tensor, int], Tensor], ...] = (
    lambda x, frames: x[:, :, :, None].expand(-1, -1, -1, frames, -1, -1).flatten(2).flatten(0, 1),
    lambda x, frames: x.flatten(0, 1),
    lambda x, frames: x.flatten(2),
    lambda x, frames: x,
)
"""Forms of a sequence of patches: as rows of numbers or as pictures, each also grouped by picture."""


def _pictures(name: str, takes: set[str], config: Any) -> Iterator[Form]:
    patch = _pair(_stated(config, "patch_size", "encoder_stride", default=16))
    flat = bool({"grid_thw", "image_grid_thw", "image_grid_hw"} & takes)
    size = None if flat else _stated(config, "image_size")
    one = _Picture(
        takes=frozenset(takes),
        size=(CELLS * patch[0], CELLS * patch[1]) if size is None else _pair(size),
        patch=patch,
        colours=int(_stated(config, "num_channels", "in_channels", "in_chans", default=3)),
        frames=int(_stated(config, "temporal_patch_size", "patch_temporal", default=1)),
        shots=int(_stated(config, "num_frames", "frames_per_clip", default=2 if "video" in name else 1)),
        merge=_pair(_stated(config, "spatial_merge_size", "merge_kernel_size", "merge_size", default=1))[0],
    )

    def form(make: Callable[..., Tensor], alone: bool) -> Form:
        return Form(name, make, one.cells, one.arguments, alone, one.merge)

    for lay in LAID_OUT if flat else ():
        yield form(lambda *how, lay=lay: lay(one.patches(*how), one.frames), alone=True)
    if {"spatial_shapes", "pixel_position_ids", "image_position_ids"} & takes:  # rows of numbers, colours last
        yield form(lambda *how: one.patches(*how).permute(0, 1, 3, 4, 2).flatten(2), alone=True)
    if one.shots > 1:
        yield form(lambda *how: one.whole(*how)[:, None].expand(-1, one.shots, -1, -1, -1), alone=False)
    yield form(one.whole, alone="image_sizes" in takes)


def _sounds(name: str, takes: set[str], config: Any) -> Iterator[Form]:
    mel = int(_stated(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim", default=80))
    source = _stated(config, "max_source_positions")
    length = 2 * int(source) if source else int(_stated(config, "max_length", default=FRAMES) or FRAMES)
    period = math.prod(_stated(config, "conv_stride", default=(STRIDE,)))

    def arguments(rows: int) -> dict[str, Tensor]:
        masks = {"input_features_mask", "feature_attention_mask"} & takes
        return {key: torch.ones(rows, length, dtype=torch.int64) for key in masks}

    def bands(rows: int, alike: bool, draw: torch.Generator) -> Tensor:
        return torch.randn(rows, mel, 1 if alike else length, generator=draw).expand(-1, -1, length)

    def samples(rows: int, alike: bool, draw: torch.Generator) -> Tensor:
        drawn = torch.randn(rows, period if alike else PERIODS * period, generator=draw)
        return drawn.repeat(1, PERIODS) if alike else drawn

    if name == "input_values":
        yield Form(name, samples, None, arguments, False)
        yield Form(name, lambda *how: samples(*how)[:, None], None, arguments, False)
    yield Form(name, bands, None, arguments, False)
    yield Form(name, lambda *how: bands(*how).mT, None, arguments, False)
