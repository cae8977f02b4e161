"""Presets, which are the settings of named studies; see ``study.read_study``."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """A named study: the settings that it changes from their defaults, its purpose, and its measured or estimated
    cost."""

    settings: dict[str, Any]
    purpose: str
    cost: str


ZOO = (
    *("nope", "sinusoidal", "learned(past_end=clamp)", "rotary", "rotary-learned", "xpos", "pope", "fope"),
    *("alibi", "t5", "kerple", "sandwich", "fire", "shaw", "inkling", "transformer-xl"),
    *("deberta", "cope", "fox", "stack(rotary, query-scale)", "stack(rotary, ssmax)"),
    "layers(rotary + nope)",
)
"""All encodings of the catalogue for text. Encodings that only scale queries are stacked on rotary."""

ZOO_OF_GRIDS = (
    *("nope", "rotary", "sinusoidal-grid", "learned-grid(num_positions=8, resize=timm, tables=grid)"),
    *("learned-grid(num_positions=8, resize=timm)", "rotary(axes=axial(4, 4))"),
    *("rotary(axes=axial(4, 4), base=100)", "rotary(axes=dealt(2, 8))", "rotary(axes=chunked(2, 3, 3))"),
    *("rotary(axes=strided(4, 2, 2))", "rotary(axes=first_last(2, 3, 3))"),
    *("rotary-learned(axes=2, groups=4, base=10, shared=False)", "channel-rotary"),
    *("channel-rotary(layout=v-jepa2)", "channel-rotary(layout=hunyuan-vl)", "channel-rotary(layout=ernie-image)"),
    *("window(size=(23, 23))", "decomposed(size=(23, 23))", "decomposed(size=(8, 8))", "layoutlm"),
)
"""All encodings of the catalogue for grids, in the variants that models use, and the encodings ``nope`` and
``rotary`` with one axis, for which the cells are numbered row by row. Position tables have as many positions as
the grid of the longest test, or are resized to this grid."""

PRESETS = {
    "quick": Preset({}, "five encodings, three tasks, one seed", "3 minutes on two cores"),
    "standard": Preset(
        {
            "tasks": ("language", "ordering", "needle", "recent"),
            "seeds": 3,
            "steps": {"language": 1500, "ordering": 900, "needle": 300},
        },
        "four tasks, three seeds, longer training",
        "20 minutes on two cores, computed from 75 seconds of one core per run of language and 17 of ordering",
    ),
    "full": Preset(
        {
            "tasks": ("language", "ordering", "needle", "recent", "copying"),
            "seeds": 5,
            "steps": {"language": 3000, "ordering": 1500, "needle": 300, "copying": 3000},
            "blocks": 128,
            "answers": 512,
        },
        "five tasks, five seeds, long training",
        "an hour and a half on two cores, computed from 28 times the tokens of quick",
    ),
    "zoo": Preset(
        {
            "encodings": ZOO,
            "tasks": ("language", "ordering"),
            "seeds": 3,
            "steps": {"language": 300, "ordering": 300},
            "blocks": 32,
            "answers": 128,
        },
        "every encoding for text, the tasks language and ordering, three seeds",
        "18 minutes on two cores, computed from 132 runs of 5 to 60 seconds on one core",
    ),
    "zoo-grid": Preset(
        {
            "encodings": ZOO_OF_GRIDS,
            "tasks": ("neighbours",),
            "seeds": 3,
            "answers": 64,
        },
        "every encoding for grids, the task neighbours, three seeds",
        "13 minutes on one core, computed from 60 runs of 13 seconds",
    ),
    "architecture": Preset(
        {
            "encodings": ("nope", "rotary", "alibi", "layers(rotary + nope)"),
            "tasks": ("language",),
            "steps": 300,
            "train_length": (64, 128),
            "norm": ("layer", "rms"),
            "kv_heads": (1, 4),
            "qk_norm": (False, True),
            "window": (32, 2048),
            "blocks": 32,
        },
        "four encodings in 32 architectures: norms, grouped keys, windows, trained lengths",
        "16 minutes on two cores, computed from 128 runs of 15 seconds on one core",
    ),
    "small-gpt": Preset(
        {
            "encodings": ("nope", "learned(past_end=clamp)", "t5", "alibi", "rotary", "layers(rotary*3 + nope)"),
            "tasks": ("language",),
            "seeds": 3,
            "width": 768,
            "layers": 12,
            "heads": 12,
            "norm": "rms",
            "tied": True,
            "train_length": 1024,
            "tokens": 2_500_000_000,
            "batch": 16,
            "accumulate": 4,
            "learning_rate": 6e-4,
            "beta2": 0.95,
            "weight_decay": 0.1,
            "warm_up": 0.02,
            "autocast": "bfloat16",
            "tokenizer": "bpe",
            "vocabulary": 50_000,
            "lengths": (1, 2, 4, 8),
            "device": "cuda",
        },
        "GPT-2's size, 12 layers of width 768, six encodings, three seeds; needs a text of your own",
        "estimated, not yet run: 18 runs of 2.0e18 operations take a day on an H200 at two fifths of its peak, or "
        "three days at an eighth",
    ),
}
