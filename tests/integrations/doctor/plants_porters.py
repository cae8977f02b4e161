"""Ports with one planted mistake each, and right ones, written from what ports of 2026 got wrong, without posenc.

A plant is a function of nothing that returns what somebody would write down of a port, by the names of the field.
``says`` are patterns that the answer must all match: the kind of mistake and its value.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from integrations.doctor.models import LAYERS, Array, inverse_frequencies, llama3, yarn

TEXT = np.array([0, 1, 2, 3, 17, 100, 1000, 4095, 4096, 9000])
GRID = np.array([[0, 1, 2, 6, 6, 6, 6, 20, 300], [0, 1, 2, 6, 6, 7, 7, 20, 300], [0, 1, 2, 6, 7, 6, 7, 20, 300]])
"""Positions of text, then four patches of a picture, then text, on three axes."""


@dataclass(frozen=True)
class Plant:
    """One port.

    Args:
        model: its model, by the name in ``models.LAYERS``, or ``"alibi"`` or ``"sinusoidal"``.
        says: patterns of the answer; none where the port is right.
    """

    name: str
    model: str
    numbers: Callable[[], dict[str, Any]]
    says: tuple[str, ...]

    def found_in(self, answer: str) -> bool:
        """Whether an answer names this mistake, with its value."""
        return all(re.search(pattern, answer) for pattern in self.says)


PLANTS: list[Plant] = []


def entered(
    plants: list[Plant], model: str, *says: str
) -> Callable[[Callable[[], dict[str, Any]]], Callable[[], dict[str, Any]]]:
    """Enter a port among plants, under its model, with what must be said of it."""

    def enter(numbers: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        plants.append(Plant(numbers.__name__, model, numbers, says))
        return numbers

    return enter


plant = partial(entered, PLANTS)


def query(tokens: int, channels: int) -> Array:
    return np.random.default_rng(0).standard_normal((tokens, channels)).astype(np.float32)


def halves(x: Array, angles: Array, half: int, factor: float = 1.0) -> Array:
    """Channels (i, i + half) rotate by float32 angles ``(T, P)``; what lies past stays."""
    cos, sin = factor * np.cos(angles).astype(np.float32), factor * np.sin(angles).astype(np.float32)
    pairs = angles.shape[1]
    y = x.copy()
    first, second = x[:, :pairs], x[:, half : half + pairs]
    y[:, :pairs], y[:, half : half + pairs] = first * cos - second * sin, second * cos + first * sin
    return y


def neighbours(x: Array, angles: Array) -> Array:
    """Channels (2i, 2i + 1) rotate."""
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    y = x.copy()
    y[:, 0 : 2 * angles.shape[1] : 2] = (
        x[:, 0 : 2 * angles.shape[1] : 2] * cos - x[:, 1 : 2 * angles.shape[1] : 2] * sin
    )
    y[:, 1 : 2 * angles.shape[1] : 2] = (
        x[:, 1 : 2 * angles.shape[1] : 2] * cos + x[:, 0 : 2 * angles.shape[1] : 2] * sin
    )
    return y


def angles32(positions: Array, theta: Array) -> Array:
    """As kernels compute them: float32 positions times float32 frequencies."""
    return positions.astype(np.float32)[:, None] * theta.astype(np.float32)


def bf16(x: Any) -> Array:
    return torch.as_tensor(np.asarray(x, np.float32)).bfloat16().float().numpy()


def rotated(model: str, rotate: Callable[[Array], Array], positions: Array = TEXT) -> dict[str, Any]:
    """What a test of a port writes down: what went in, where, and what came out."""
    x = query(positions.shape[-1], LAYERS[model].head_dim)
    return {"positions": positions, "x": x, "rotated": rotate(x)}


# Ports with code of their own


@plant("deepseek_v3", r"(?i)yarn", r"(?i)omits|without|no scaling|missing|not scaled")
def deepseek_without_yarn() -> dict[str, Any]:
    theta = 1e4 ** (-2 * np.arange(32) / 64)
    return rotated("deepseek_v3", lambda x: neighbours(x, angles32(TEXT, theta)))


@plant("deepseek_v3", r"(?i)backwards|sign|transposed|inverse")
def deepseek_conjugate() -> dict[str, Any]:
    theta = LAYERS["deepseek_v3"].theta
    return rotated("deepseek_v3", lambda x: neighbours(x, -angles32(TEXT, theta)))


@plant("deepseek_v3", r"(?i)factor", r"1\.36[89]")
def deepseek_factor_on_cos_and_sin() -> dict[str, Any]:
    theta, factor = LAYERS["deepseek_v3"].theta, 0.1 * math.log(40) + 1
    angles = angles32(TEXT, theta)
    return {"positions": TEXT, "cos": factor * np.cos(angles), "sin": factor * np.sin(angles)}


@plant("llama3_1", r"(?i)clamp|cut off|end of (its|the) table|never exceed|stop", r"4,?095")
def llama31_table_ends() -> dict[str, Any]:
    angles = angles32(np.arange(4096), LAYERS["llama3_1"].theta)
    at = np.minimum(TEXT, 4095)
    return {"positions": TEXT, "cos": np.cos(angles)[at], "sin": np.sin(angles)[at]}


@plant("llama3_1", r"(?i)bfloat16|16 bits|bf16", r"(?i)angle|position")
def llama31_angles_in_bfloat16() -> dict[str, Any]:
    angles = bf16(angles32(TEXT, LAYERS["llama3_1"].theta))
    return {"positions": TEXT, "cos": np.cos(angles), "sin": np.sin(angles)}


@plant("llama3_1", r"(?i)head", r"(?i)swap|exchang|axes|length")
def llama31_heads_for_length() -> dict[str, Any]:
    heads, tokens = 4, 6
    x = np.random.default_rng(1).standard_normal((1, tokens, heads, 128)).astype(np.float32)
    theta = LAYERS["llama3_1"].theta
    y = np.stack([halves(x[0, t], angles32(np.arange(heads), theta), 64) for t in range(tokens)])[None]
    return {"positions": np.arange(tokens), "x": x.transpose(0, 2, 1, 3), "rotated": y.transpose(0, 2, 1, 3)}


def slopes(heads: int) -> Array:
    """2^(−8i/n) for n a power of two, else those of the power below and every other one of the power above."""
    if heads & (heads - 1) == 0:
        return 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    below = 1 << (heads.bit_length() - 1)
    return np.concatenate((slopes(below), slopes(2 * below)[::2][: heads - below]))


def bias(m: Array, tokens: int = 9) -> Array:
    offsets = np.arange(tokens)[None] - np.arange(tokens)[:, None]
    return (-m[:, None, None] * np.abs(offsets)).astype(np.float32)


@plant("alibi", r"2\^?\(?−?-?8|geometric|one series|power of two")
def alibi_one_series_for_twelve_heads() -> dict[str, Any]:
    return {"bias": bias(2.0 ** (-8 * np.arange(1, 13) / 12))}


@plant("alibi", r"(?i)sign|gain|positive")
def alibi_far_keys_gain() -> dict[str, Any]:
    return {"bias": -bias(slopes(12))}


@plant("sinusoidal", r"(?i)sign|minus|grow|inverse|negative|\+")
def sinusoid_without_its_minus() -> dict[str, Any]:
    channels = np.arange(0, 64, 2)
    angles = np.arange(12)[:, None] * np.exp(channels * (math.log(10_000.0) / 64))
    return {"table": np.stack((np.sin(angles), np.cos(angles)), -1).reshape(12, 64)}


@plant("qwen3_5")
def qwen35_right_on_a_picture() -> dict[str, Any]:
    theta = (1e7 ** (-np.arange(0, 64, 2) / 64)).astype(np.float32)
    by_axis = GRID[:, :, None].astype(np.float32) * theta
    angles = by_axis[0].copy()
    for axis in (1, 2):
        chosen = slice(axis, 3 * (11, 11, 10)[axis], 3)
        angles[:, chosen] = by_axis[axis][:, chosen]
    return rotated("qwen3_5", lambda x: halves(x, angles, 32), GRID)


@plant("llama3_1")
def llama31_right_in_bfloat16() -> dict[str, Any]:
    x = bf16(query(len(TEXT), 128))
    y = halves(x, angles32(TEXT, LAYERS["llama3_1"].theta), 64)
    return {"positions": TEXT, "x": x, "rotated": bf16(y)}


@plant("llama3_1")
def llama31_right_tables_doubled() -> dict[str, Any]:
    angles = angles32(TEXT, LAYERS["llama3_1"].theta)
    both = np.concatenate((angles, angles), -1)
    return {"positions": TEXT, "cos": np.cos(both), "sin": np.sin(both)}


@plant("alibi")
def alibi_right_without_the_future() -> dict[str, Any]:
    return {"bias": np.tril(bias(slopes(12)))}


@plant("alibi")
def alibi_right_slopes() -> dict[str, Any]:
    return {"slopes": slopes(12).astype(np.float32)}


@plant("sinusoidal")
def sinusoid_right_sines_first() -> dict[str, Any]:
    angles = np.arange(12)[:, None] * 10_000.0 ** (-np.arange(0, 64, 2) / 64)
    return {"table": np.concatenate((np.sin(angles), np.cos(angles)), -1)}


# Ports that differ in a few values


def turned(
    name: str, model: str, angles: Array, half: int, *says: str, positions: Array = TEXT, factor: float = 1.0
) -> Plant:
    """A port that rotates channels (i, i + half) by these angles."""
    rotate = partial(halves, angles=angles, half=half, factor=factor)
    return Plant(name, model, partial(rotated, model, rotate, positions), says)


def frequencies(name: str, model: str, theta: Array, *says: str) -> Plant:
    """A port of which these frequencies are given."""
    return Plant(name, model, partial(dict, inv_freq=theta.astype(np.float32)), says)


def in_sections(axes: tuple[int, ...], pairs: tuple[int, ...], theta: Array) -> Array:
    """Angles on the grid; so many pairs at a time read an axis."""
    return (GRID[np.repeat(axes, pairs)].T * theta).astype(np.float32)


PLANTS += [
    # Gemma 4's global layers: 64 of 256 pairs turn, pairs lie 256 channels apart, the exponent is over 512.
    turned(
        "gemma4_prefix_pairs",
        "gemma4 full_attention",
        angles32(TEXT, inverse_frequencies(1e6, 64, 512)),
        64,
        r"\(i, i ?\+ ?64\)",
        r"\(i, i ?\+ ?256\)",
    ),
    turned(
        "gemma4_exponent_over_what_turns",
        "gemma4 full_attention",
        angles32(TEXT, inverse_frequencies(1e6, 64, 128)),
        256,
        r"(?i)exponent",
        r"\b128\b",
        r"\b512\b",
    ),
    turned(
        "gemma4_all_pairs_turn",
        "gemma4 full_attention",
        angles32(TEXT, inverse_frequencies(1e6, 256, 512)),
        256,
        r"(?i)all|256 (of|pairs)|512 channels",
        r"\b64\b|128",
    ),
    turned(
        "gemma4_base_of_the_near_layers",
        "gemma4 full_attention",
        angles32(TEXT, inverse_frequencies(1e4, 64, 512)),
        256,
        r"(?i)base",
        r"\b10,?000\b",
        r"1,?000,?000|1e\+?06",
    ),
    turned(
        "gemma4_base_of_the_far_layers",
        "gemma4 sliding_attention",
        angles32(TEXT, inverse_frequencies(1e6, 128, 256)),
        128,
        r"(?i)base",
        r"1,?000,?000|1e\+?06",
        r"\b10,?000\b",
    ),
    # Qwen 3.5: 64 of 256 channels turn, in pairs (i, i+32), on three axes dealt out in turn.
    turned(
        "qwen35_whole_head_turns",
        "qwen3_5",
        angles32(TEXT, inverse_frequencies(1e7, 128, 256)),
        128,
        r"\b256\b",
        r"\b64\b",
    ),
    turned(
        "qwen35_exponent_over_the_head",
        "qwen3_5",
        angles32(TEXT, inverse_frequencies(1e7, 32, 256)),
        32,
        r"(?i)exponent",
        r"\b256\b",
        r"\b64\b",
    ),
    turned(
        "qwen35_pairs_across_the_head",
        "qwen3_5",
        angles32(TEXT, inverse_frequencies(1e7, 32, 64)),
        128,
        r"\(i, i ?\+ ?128\)",
        r"\(i, i ?\+ ?32\)",
    ),
    turned(
        "qwen35_sections_in_blocks",
        "qwen3_5",
        in_sections((0, 1, 2), (11, 11, 10), inverse_frequencies(1e7, 32, 64)),
        32,
        r"(?i)axes|axis|section",
        r"(?i)one after (the )?other|chunk|block|contiguous",
        positions=GRID,
    ),
    turned(
        "qwen35_text_positions_alone",
        "qwen3_5",
        angles32(GRID[0], inverse_frequencies(1e7, 32, 64)),
        32,
        r"(?i)first axis|axis 0|one axis",
        positions=GRID,
    ),
    # DeepSeek-V3: 64 channels turn as neighbours, YaRN 40 from 4,096.
    turned(
        "deepseek_halves",
        "deepseek_v3",
        angles32(TEXT, LAYERS["deepseek_v3"].theta),
        32,
        r"\(i, i ?\+ ?32\)|half",
        r"\(2i, ?2i ?\+ ?1\)|interleaved",
    ),
    frequencies(
        "deepseek_linear_for_yarn",
        "deepseek_v3",
        inverse_frequencies(1e4, 32, 64) / 40,
        r"(?i)linear|divid|every frequency|interpolat",
        r"\b40\b",
    ),
    # Llama 3.1: factor 8 from 8,192, slow 1, fast 4.
    turned(
        "llama31_plain",
        "llama3_1",
        angles32(TEXT, inverse_frequencies(5e5, 64, 128)),
        64,
        r"(?i)llama ?-?3|scaling",
        r"(?i)omits|without|no scaling|missing|not scaled",
    ),
    turned(
        "llama31_base_of_llama2",
        "llama3_1",
        angles32(TEXT, llama3(inverse_frequencies(1e4, 64, 128), 8.0, 1.0, 4.0, 8192)),
        64,
        r"(?i)base",
        r"\b10,?000\b",
        r"500,?000",
    ),
    frequencies(
        "llama31_scaled_twice", "llama3_1", llama3(LAYERS["llama3_1"].theta, 8.0, 1.0, 4.0, 8192), r"(?i)twice"
    ),
    frequencies(
        "llama31_ramp_from_the_long_length",
        "llama3_1",
        llama3(inverse_frequencies(5e5, 64, 128), 8.0, 1.0, 4.0, 131072),
        r"(?i)original|length",
        r"131,?072",
        r"8,?192",
    ),
    turned(
        "llama31_counts_from_one",
        "llama3_1",
        angles32(TEXT + 1, LAYERS["llama3_1"].theta),
        64,
        r"(?i)position",
        r"(?i)off by 1|\+ ?1\b|by one|from 1\b|one late|one ahead",
    ),
    # gpt-oss: YaRN 32 from 4,096, whose ramp is not rounded, cos and sin times 1.3466.
    turned(
        "gptoss_without_factor",
        "gpt_oss",
        angles32(TEXT, LAYERS["gpt_oss"].theta),
        32,
        r"(?i)factor",
        r"\b1\b",
        r"1\.34657",
    ),
    turned(
        "gptoss_factor_twice",
        "gpt_oss",
        angles32(TEXT, LAYERS["gpt_oss"].theta),
        32,
        r"(?i)factor",
        r"1\.8132|squared|twice",
        factor=LAYERS["gpt_oss"].factor ** 2,
    ),
    frequencies(
        "gptoss_ramp_rounded",
        "gpt_oss",
        yarn(inverse_frequencies(150_000.0, 32, 64), 150_000.0, 32.0, 4096, 32, 1, True),
        r"(?i)truncat|round",
    ),
    # Qwen2-VL: sections of 16, 24 and 24 pairs, one after the other.
    turned(
        "qwen2vl_height_for_width",
        "qwen2_vl",
        in_sections((0, 2, 1), (16, 24, 24), inverse_frequencies(1e6, 64, 128)),
        64,
        r"(?i)axes|axis|height|order",
        r"(?i)swap|exchang|0, ?2, ?1|\(0, 2, 1\)|width",
        positions=GRID,
    ),
    turned(
        "qwen2vl_sections_the_other_way_round",
        "qwen2_vl",
        in_sections((0, 1, 2), (24, 24, 16), inverse_frequencies(1e6, 64, 128)),
        64,
        r"(?i)section",
        r"\[?16, ?16, ?32\]?|21|\[?24, ?24, ?16\]?|24",
        r"16, ?24, ?24",
        positions=GRID,
    ),
    # ALiBi over 12 heads, and sinusoids of 64 channels.
    # Right ports.
    turned(
        "gemma4_right",
        "gemma4 full_attention",
        angles32(TEXT, np.concatenate((1e6 ** (-2 * np.arange(64) / 512), np.zeros(192)))),
        256,
    ),
    turned("gptoss_right", "gpt_oss", angles32(TEXT, LAYERS["gpt_oss"].theta), 32, factor=LAYERS["gpt_oss"].factor),
    frequencies("qwen2vl_right_frequencies", "qwen2_vl", inverse_frequencies(1e6, 64, 128)),
]
