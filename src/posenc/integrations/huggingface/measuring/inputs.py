"""Inputs for models: texts, images or audio, random or made from one repeated token, patch or frame.

The name of an argument determines the kind of input, and the config gives its size. If several shapes are
possible, the first shape with which the model runs is used.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posenc.integrations.huggingface.language_model import text_config

PICTURES = ("pixel_values", "hidden_states", "image", "pixel_values_images", "pixel_values_videos")
SOUNDS = ("input_features", "input_values")
CELLS, FRAMES, PERIODS = 4, 64, 40
"""The number of patches along a side if the config has no image size, the number of frames in a spectrogram, and
the number of frames in a waveform."""
EDGE, HEARD = 3, 24
"""The number of frames at each end of the audio that convolutions mix with padding, and the number of measured
frames."""
READ, DECODED = 23, 11
"""The lengths of a text and of a decoder's text, in tokens. The lengths differ so that the shape of the scores
identifies cross-attention."""


@dataclass(frozen=True)
class Form:
    """A way to pass texts, images or audio to a model.

    Args:
        name: the name of the argument.
        make: a function that returns the input. Its arguments are the batch size, whether all tokens, patches or
            frames of an input have the same content, and a random generator.
        cells: the numbers of rows and columns of patches in an image; None for texts and audio.
        arguments: a function that takes the batch size and returns the model's other arguments.
        alone: whether the model gets one input at a time, because its input has no batch axis.
        merge: m, if the model later merges each square of m × m patches into one token; else 1. Some such models
            order patches square by square instead of row by row.
        length: the number of tokens in a text; None for images and audio.
    """

    name: str
    make: Callable[[int, bool, torch.Generator], Tensor]
    cells: tuple[int, int] | None
    arguments: Callable[[int], dict[str, Tensor]]
    alone: bool = False
    merge: int = 1
    length: int | None = None

    def given(self, rows: int, alike: bool, seed: int) -> dict[str, Tensor]:
        """Return all arguments of a forward pass."""
        return {self.name: self.make(rows, alike, torch.Generator().manual_seed(seed)), **self.arguments(rows)}

    def orders(self, tokens: int) -> list[list[int]]:
        """Return the indices of the measured tokens, in each order that a model may use.

        For an image of n patches, the measured tokens are the last n tokens, one for each patch. Their possible
        orders are row by row and, if the model merges patches, square by square. In audio, frames at both ends are
        left out, because convolutions mix them with padding.
        """
        if self.length is not None:
            return [[*range(tokens)]]
        if self.cells is None:
            return [[*range(EDGE, min(EDGE + HEARD, tokens - EDGE))]] if tokens > 2 * EDGE + 1 else []
        rows, columns = self.cells
        places = torch.arange(tokens)[-rows * columns :]
        return [
            places.reshape(rows // m, columns // m, m, m).transpose(1, 2).flatten().tolist()
            for m in sorted({1, self.merge})
            if rows * columns <= tokens <= 2 * rows * columns and not rows % m and not columns % m
        ]


class TokenIds:
    """The token ids that a model and its decoder accept, and whether the model accepts position ids."""

    def __init__(self, model: Any) -> None:
        takes, text = inspect.signature(model.forward).parameters, text_config(model.config)
        self.accepted, self.decodes = "input_ids" in takes, "decoder_input_ids" in takes
        self.takes_positions = self.accepted and "position_ids" in takes and not self.decodes
        self.longest = _stated(text, "max_position_embeddings", "n_positions", default=0) or 512
        self.vocabulary = min(int(getattr(text, "vocab_size", None) or 64), 300)
        self.device = next(model.parameters()).device

    def draw(self, rows: int, length: int, seed: int = 0) -> Tensor:
        """Return random token ids."""
        return torch.randint(4, self.vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed)).to(
            self.device
        )

    def form(self, name: str, length: int) -> Form:
        """Return a form that passes texts of this length as the argument ``name``. Each text is random or repeats
        one token."""

        def make(rows: int, alike: bool, draw: torch.Generator) -> Tensor:
            repeated = 4 + torch.arange(rows) % (self.vocabulary - 4)
            return repeated[:, None].repeat(1, length) if alike else self.draw(rows, length, draw.initial_seed())

        return Form(name, make, None, lambda rows: {}, length=length)


def forms(model: Any, config: Any = None, names: Sequence[str] = (*PICTURES, *SOUNDS)) -> Iterator[Form]:
    """Yield every form of image or audio input that may fit a model, beginning with the likeliest form.

    Args:
        model: the model whose ``forward`` gets the input.
        config: the config with the sizes; by default the model's own.
        names: possible names of the argument; the first of these that is an argument of ``forward`` is used.
    """
    takes = {*inspect.signature(model.forward).parameters}
    name = next((name for name in names if name in takes), None)
    if name is not None:
        yield from (_pictures if name in PICTURES else _sounds)(
            name, takes, model.config if config is None else config
        )


def _pair(value: Any) -> tuple[int, int]:
    return (int(value[0]), int(value[1])) if isinstance(value, (list, tuple)) else (int(value), int(value))


def _stated(config: Any, *names: str, default: Any = None) -> Any:
    return next((value for name in names if (value := getattr(config, name, None)) is not None), default)


LAID_OUT: tuple[Callable[[Tensor, int], Tensor], ...] = (
    lambda x, frames: x[:, :, :, None].expand(-1, -1, -1, frames, -1, -1).flatten(2).flatten(0, 1),
    lambda x, frames: x.flatten(0, 1),
    lambda x, frames: x.flatten(2),
    lambda x, frames: x,
)
"""Functions that lay out a sequence of patches. Each patch is flattened or keeps its rows and columns of pixels,
and the patches of all images are joined or stay grouped by image."""


def _pictures(name: str, takes: set[str], config: Any) -> Iterator[Form]:
    patch = _pair(_stated(config, "patch_size", "encoder_stride", default=16))
    flat = bool({"grid_thw", "image_grid_thw", "image_grid_hw"} & takes)
    size = None if flat else _stated(config, "image_size")
    height, width = (CELLS * patch[0], CELLS * patch[1]) if size is None else _pair(size)
    cells = height // patch[0], width // patch[1]
    colours = int(_stated(config, "num_channels", "in_channels", "in_chans", default=3))
    # each patch is repeated over the frames
    frames = int(_stated(config, "temporal_patch_size", "patch_temporal", default=1))
    shots = int(_stated(config, "num_frames", "frames_per_clip", default=2 if "video" in name else 1))
    merge = _pair(_stated(config, "spatial_merge_size", "merge_kernel_size", "merge_size", default=1))[0]

    def patches(rows: int, alike: bool, draw: torch.Generator) -> Tensor:  # (rows, patches, colours, height, width)
        drawn = torch.randn(rows, 1 if alike else math.prod(cells), colours, *patch, generator=draw)
        return drawn.expand(-1, math.prod(cells), -1, -1, -1)

    def whole(*how: Any) -> Tensor:  # (rows, colours, height, width); pixels outside all patches are 0
        picture = patches(*how).unflatten(1, cells).permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
        return nn.functional.pad(picture, (0, width - picture.shape[3], 0, height - picture.shape[2]))

    def arguments(rows: int) -> dict[str, Tensor]:
        at = torch.cartesian_prod(*map(torch.arange, cells)).flip(1)
        every = {
            **dict.fromkeys(("grid_thw", "image_grid_thw"), torch.tensor([[1, *cells]] * rows)),
            **dict.fromkeys(("merge_sizes", "image_merge_sizes"), torch.tensor([merge] * rows)),
            **dict.fromkeys(("spatial_shapes", "target_sizes", "image_grid_hw"), torch.tensor([cells] * rows)),
            "image_sizes": torch.tensor([[height, width]] * rows),
            "pixel_attention_mask": torch.ones(rows, len(at), dtype=torch.int64),
            **dict.fromkeys(("pixel_position_ids", "image_position_ids"), at.expand(rows, -1, -1)),
        }
        return {key: value for key, value in every.items() if key in takes}

    ways: list[tuple[Callable[..., Tensor], bool]] = []
    if flat:
        ways += [(lambda *how, lay=lay: lay(patches(*how), frames), True) for lay in LAID_OUT]
    if {"spatial_shapes", "pixel_position_ids", "image_position_ids"} & takes:  # flat patches, colours last
        ways.append((lambda *how: patches(*how).permute(0, 1, 3, 4, 2).flatten(2), True))
    if shots > 1:
        ways.append((lambda *how: whole(*how)[:, None].expand(-1, shots, -1, -1, -1), False))
    for make, alone in (*ways, (whole, "image_sizes" in takes)):
        yield Form(name, make, cells, arguments, alone, merge)


def _sounds(name: str, takes: set[str], config: Any) -> Iterator[Form]:
    mel = int(_stated(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim", default=80))
    source = _stated(config, "max_source_positions")
    length = 2 * int(source) if source else int(_stated(config, "max_length", default=FRAMES) or FRAMES)
    period = math.prod(_stated(config, "conv_stride", default=(384,)))  # a multiple of all strides in known models

    def arguments(rows: int) -> dict[str, Tensor]:
        return dict.fromkeys(
            {"input_features_mask", "feature_attention_mask"} & takes, torch.ones(rows, length, dtype=torch.int64)
        )

    def bands(rows: int, alike: bool, draw: torch.Generator) -> Tensor:
        return torch.randn(rows, mel, 1 if alike else length, generator=draw).expand(-1, -1, length)

    def samples(rows: int, alike: bool, draw: torch.Generator) -> Tensor:
        drawn = torch.randn(rows, period if alike else PERIODS * period, generator=draw)
        return drawn.repeat(1, PERIODS) if alike else drawn

    waves = (samples, lambda *how: samples(*how)[:, None]) if name == "input_values" else ()
    for make in (*waves, bands, lambda *how: bands(*how).mT):
        yield Form(name, make, None, arguments)
