"""Ports by a fresh reader: 30 with one planted mistake, 10 right ones, 30 with two mistakes, in plain PyTorch.

``PLANTS`` holds the single mistakes and the right ports, ``PAIRS`` those with two mistakes. The code has the styles
of real ports: float32 or bfloat16, cached tables, complex numbers, ``rotate_half``, einsum, several layouts.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from integrations.doctor.plants_porters import Plant

Numbers = dict[str, Any]
Port = Callable[[], Numbers]

PLANTS: list[Plant] = []
PAIRS: list[Plant] = []


def port(model: str, *says: str) -> Callable[[Port], Port]:
    """Enter a port with one mistake, or a right one if nothing must be said."""

    def enter(numbers: Port) -> Port:
        PLANTS.append(Plant(numbers.__name__, model, numbers, says))
        return numbers

    return enter


def pair(model: str, *says: str) -> Callable[[Port], Port]:
    """Enter a port with two mistakes."""

    def enter(numbers: Port) -> Port:
        PAIRS.append(Plant(numbers.__name__, model, numbers, says))
        return numbers

    return enter


# What an answer must say: kinds in any honest wording, and values.
SIGN = (
    r"(?i)\bsigns?\b|backward|opposite|inverse\b(?! freq)|negat|transpos|minus|clockwise|other way|direction"
    r"|revers|flip|[−-] ?rotate_half|[−-]sin|[−-]θ|(?<![\w.])[−-]1\b"
)
NEIGHBOURS = r"(?i)neighbou?r|adjacent|interleav|2i\b|consecutive|even and odd"
HALVES = r"(?i)\bhal(f|ves)\b|rotate_half|neox|i ?\+ ?32\b"
CHANNELS = r"(?i)pair|channel|i ?\+ ?\d|span|distance"
EXPONENT = r"(?i)exponent|denominator|divi|over|span|dim"
BASE = r"(?i)\bbase|theta|θ"
SCALING = r"(?i)scal|yarn|llama.?3|interpol|\bramp"
LEFT_OUT = (
    r"(?i)left out|leaves out|without|missing|lack|\bnone?\b|\bnot\b|unscaled|ignor|drop|omit|absent|plain|default"
    r"|never|forg"
)
TWICE = r"(?i)twice|two times|second time|again|doubl|\b2 times|both|squared"
FACTOR = r"(?i)factor|amplitude|mscale|magnitude|length of|multipl"
SQUARED = r"(?i)squar|twice|²|\^ ?2|1\.81"
YARN_FACTOR = r"1\.3[45]"
POSITION = r"(?i)position"
BY_ONE = r"(?i)\b1\b|\bone\b"
DOUBLED = r"(?i)\b2(\.0+)?\b|twice|doubl|×2|halved|half (the|as|of)|\b0\.5\b"
CLAMPED = r"(?i)clamp|clip|capp?(ed)?\b|last row|saturat|\bmin\(|at most|stop|held|limit"
RESTARTED = (
    r"(?i)restart|start(s|ed)? (again|over|anew)|modulo|\bmod\b|wrap|%|reset|from 0 again|cycl|repeat|period"
)
AXES = r"(?i)\bax[ei]s|height|width|\bh\b|order|swap"
AXES_SWAPPED = (
    r"(?i)\b0, ?2, ?1\b|\bt, ?w, ?h\b|\b(1|h|height)\b.*\b(2|w|width)\b|\b(2|w|width)\b.*\b(1|h|height)\b"
)
CHUNKED = r"(?i)chunk|contiguous|block|consecutive|in a row|(instead of|rather than|not|for) (inter|strid)"
SECTIONS_24_20 = r"24\D{1,5}20\D{1,5}20"
HEADS = r"(?i)\bheads?\b"
LENGTH = r"(?i)length|time|tokens?\b|sequence|position|swap"
TRUNCATED = r"(?i)trunc|round|\bfloor|\bceil|whole (number|pair)"
SERIES = r"(?i)geometric|series|powers? of (two|2)|2\^|2 ?\*\*|2\^?\(?[−-]"
BLOCKS = r"(?i)order|concat|block|layout|halves|\[sin|interleav|alternat|then all"
BFLOAT16 = r"(?i)bf(loat)?[ -]?16|16[ -]?bits?|half precision|precision"
THOUSAND = r"\b1[\W_]?000\b|\b1e\+?0?3\b|\b10\^3\b"
TEN_THOUSAND = r"\b10[\W_]?000\b|\b1e\+?0?4\b|\b10\^4\b"
MILLION = r"\b1[\W_]?000[\W_]?000\b|\b1e\+?0?6\b|\b10\^6\b"
GPT_OSS_BASE = r"\b150[\W_]?000\b|1\.5e\+?0?5\b"
ORIGINAL_163840 = r"\b163[\W_]?840\b"

TEXT = torch.tensor([0, 1, 2, 5, 31, 128, 777, 2048, 4097, 8200])
FAR = torch.tensor([0, 1, 2, 3, 64, 1023, 4095, 8191, 8192, 9001, 20_000, 131_071])
PICTURE = torch.tensor(
    [
        [0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 65, 66, 67, 700],
        [0, 1, 2, 3, 4, 5, 5, 5, 20, 44, 44, 65, 66, 67, 700],
        [0, 1, 2, 3, 4, 5, 6, 64, 33, 5, 64, 65, 66, 67, 700],
    ]
)
"""Five tokens of text, six patches of a picture of 40 × 60, text again: axes time, height, width."""


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(20_26)).to(dtype)


def ladder(base: float, dim: int, pairs: int | None = None) -> Tensor:
    """The usual line of a port: float32 inverse frequencies over ``dim`` channels, the first ``pairs`` of them."""
    return (1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim)))[:pairs]


def llama3_scaled(inv_freq: Tensor, factor: float = 8.0) -> Tensor:
    low, high, old_length = 1.0, 4.0, 8192
    wavelength = 2 * math.pi / inv_freq
    scaled = torch.where(wavelength > old_length / low, inv_freq / factor, inv_freq)
    smooth = (old_length / wavelength - low) / (high - low)
    blended = (1 - smooth) * scaled / factor + smooth * scaled
    medium = ~(wavelength < old_length / high) & ~(wavelength > old_length / low)
    return torch.where(medium, blended, scaled)


def yarn_scaled(base: float, dim: int, factor: float, original: int = 4096, truncate: bool = True) -> Tensor:
    def correction(rotations: float) -> float:
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = correction(32), correction(1)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    ramp = ((torch.arange(dim // 2).float() - low) / (high - low)).clamp(0, 1)
    extrapolated = ladder(base, dim)
    return extrapolated / factor * ramp + extrapolated * (1 - ramp)


DEEPSEEK = (10_000.0, 64, 40.0)
GPT_OSS_FACTOR = 0.1 * math.log(32.0) + 1.0


def gpt_oss_ladder(base: float = 150_000.0, truncate: bool = False) -> Tensor:
    return yarn_scaled(base, 64, 32.0, 4096, truncate)


def angles_of(positions: Tensor, inv_freq: Tensor) -> Tensor:
    """``(T, P)`` in float32."""
    return positions.float()[:, None] * inv_freq[None, :]


def chunked_angles(positions: Tensor, inv_freq: Tensor, sections: tuple[int, ...]) -> Tensor:
    """``(3, T)`` positions: consecutive sections of the pairs read axis 0, 1, 2."""
    every = positions[..., None].float() * inv_freq
    return torch.cat([part[axis] for axis, part in enumerate(every.split(sections, dim=-1))], dim=-1)


def interleaved_angles(positions: Tensor, inv_freq: Tensor, sections: tuple[int, ...] = (11, 11, 10)) -> Tensor:
    """``(3, T)`` positions: time everywhere, then height at 1, 4, … and width at 2, 5, …"""
    every = positions[..., None].float() * inv_freq
    result = every[0].clone()
    for axis, first in enumerate((1, 2), start=1):
        where = slice(first, sections[axis] * 3, 3)
        result[..., where] = every[axis][..., where]
    return result


def rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_halves(x: Tensor, angles: Tensor, factor: float = 1.0, direction: float = 1.0) -> Tensor:
    """As transformers has it: tables in float32, cast to x's type; channels past the tables pass."""
    cos = (torch.cat((angles, angles), dim=-1).cos() * factor).to(x.dtype)
    sin = (torch.cat((angles, angles), dim=-1).sin() * factor * direction).to(x.dtype)
    turned, passed = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    return torch.cat((turned * cos + rotate_half(turned) * sin, passed), dim=-1)


def apply_neighbours(x: Tensor, angles: Tensor, factor: float = 1.0, direction: float = 1.0) -> Tensor:
    """As GPT-J has it: even and odd channels."""
    cos, sin = (angles.cos() * factor).to(x.dtype), (angles.sin() * factor * direction).to(x.dtype)
    width = 2 * angles.shape[-1]
    even, odd = x[..., :width:2], x[..., 1:width:2]
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)
    return torch.cat((turned, x[..., width:]), dim=-1)


def padded(inv_freq: Tensor, pairs: int) -> Tensor:
    """Zeros for the pairs that stand still, as transformers pads proportional RoPE."""
    return torch.cat((inv_freq, torch.zeros(pairs - len(inv_freq))))


def array(x: Tensor) -> np.ndarray[Any, Any]:
    return x.float().numpy() if x.is_floating_point() else x.numpy()


def written(positions: Tensor, x: Tensor, rotated: Tensor) -> Numbers:
    return {"positions": array(positions), "x": array(x), "rotated": array(rotated)}


# Gemma 4


@port(
    "gemma4 full_attention",
    CHANNELS,
    r"(?i)i ?\+ ?64\b|\b64 (channels? )?apart|distance\D{0,12}64\b|first 128",
    r"\b256\b|\b512\b",
)
def gemma4_rotates_its_prefix() -> Numbers:
    """The first 128 channels as a partial rotary of its own: (i, i+64) for (i, i+256)."""
    x = draw(2, len(TEXT), 512)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, ladder(1e6, 512, 64))))


@port("gemma4 full_attention", EXPONENT, r"\b128\b", r"\b512\b")
def gemma4_exponent_over_rotated_channels() -> Numbers:
    rotary_dim = int(512 * 0.25)
    return {"inv_freq": array(ladder(1e6, rotary_dim))}


@port(
    "gemma4 full_attention",
    CHANNELS,
    r"(?i)\ball\b|every|whole|\b256\b|\b512\b|full",
    r"(?<!\+)(?<!\+ )\b64\b|\b128\b|\b192\b|(?i:quarter)|\b0?\.25\b",
)
def gemma4_rotates_every_channel() -> Numbers:
    """partial_rotary_factor is not read, in bfloat16."""
    x = draw(2, len(TEXT), 512, dtype=torch.bfloat16)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, ladder(1e6, 512))))


@port("gemma4 sliding_attention", r"(?i)position|frequenc|scal|multipl|step", DOUBLED)
def gemma4_sliding_doubles_positions() -> Numbers:
    """The offset of the cache is added to positions that hold it already."""
    x = draw(len(TEXT), 256)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT + TEXT, ladder(1e4, 256))))


@port("gemma4 full_attention", r"(?i)sliding|other layer|layer type|local")
def gemma4_full_layer_by_sliding_ladder() -> Numbers:
    """One ladder for all layers."""
    return {"inv_freq": array(ladder(1e4, 256))}


# Qwen 3.5


@port("qwen3_5", AXES + r"|(?i:section|interleav)", CHUNKED)
def qwen3_5_sections_in_blocks() -> Numbers:
    """mrope_interleaved is not read: Qwen2-VL's layout of the sections."""
    x = draw(PICTURE.shape[1], 256)
    return written(PICTURE, x, apply_halves(x, chunked_angles(PICTURE, ladder(1e7, 64), (11, 11, 10))))


@port("qwen3_5", AXES, AXES_SWAPPED)
def qwen3_5_width_before_height() -> Numbers:
    x = draw(2, PICTURE.shape[1], 256, dtype=torch.bfloat16)
    time, height, width = PICTURE
    positions = torch.stack((time, width, height))
    return written(PICTURE, x, apply_halves(x, interleaved_angles(positions, ladder(1e7, 64))))


@port("qwen3_5", CHANNELS, r"(?i)\b192\b|last 64|\btail\b|\bend\b")
def qwen3_5_rotates_its_tail() -> Numbers:
    """The last 64 channels rotate, as in DeepSeek's layout of nope and rope."""
    x = draw(PICTURE.shape[1], 256)
    nope, rope = x.split((192, 64), dim=-1)
    rope = apply_halves(rope, interleaved_angles(PICTURE, ladder(1e7, 64)))
    return written(PICTURE, x, torch.cat((nope, rope), dim=-1))


# DeepSeek-V3


@port("deepseek_v3", r"(?i)pair|channel|interleav|half", HALVES, NEIGHBOURS)
def deepseek_pairs_halves() -> Numbers:
    """rotate_half without the permutation before it, in bfloat16."""
    x = draw(2, len(TEXT), 64, dtype=torch.bfloat16)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, yarn_scaled(*DEEPSEEK))))


@port("deepseek_v3", FACTOR, r"1\.36[89]|1\.37\b")
def deepseek_mscale_on_the_tables() -> Numbers:
    """YaRN's factor on cos and sin, although mscale / mscale_all_dim is 1."""
    factor = 0.1 * math.log(40.0) + 1.0
    angles = angles_of(TEXT, yarn_scaled(*DEEPSEEK))
    return {"positions": array(TEXT), "cos": array(angles.cos() * factor), "sin": array(angles.sin() * factor)}


@port("deepseek_v3", SCALING, LEFT_OUT)
def deepseek_without_yarn() -> Numbers:
    x = draw(2, len(TEXT), 64)
    return written(TEXT, x, apply_neighbours(x, angles_of(TEXT, ladder(1e4, 64))))


@port("deepseek_v3", r"(?i)original|trained|length|yarn|max_position", ORIGINAL_163840)
def deepseek_ramp_from_the_long_length() -> Numbers:
    """The ramp from max_position_embeddings in place of original_max_position_embeddings."""
    return {"inv_freq": array(yarn_scaled(*DEEPSEEK, original=163_840))}


# Llama 3.1


@port("llama3_1", r"(?i)factor|scal", r"\b32(\.0)?\b", r"\b8(\.0)?\b")
def llama3_factor_of_llama3_2() -> Numbers:
    return {"inv_freq": array(llama3_scaled(ladder(500_000.0, 128), factor=32.0))}


@port("llama3_1", SCALING, TWICE)
def llama3_scaled_twice() -> Numbers:
    """The loader scales the buffer, and the kernel scales what it is given."""
    inv_freq = llama3_scaled(llama3_scaled(ladder(500_000.0, 128)))
    angles = angles_of(FAR, inv_freq)
    return {"positions": array(FAR), "cos": array(angles.cos()), "sin": array(angles.sin())}


@port("llama3_1", CLAMPED, r"\b819[12]\b|\b8[,_ ]19[12]\b")
def llama3_clamps_at_its_table() -> Numbers:
    """A table of 8192 rows, read by positions.clamp(max=rows − 1)."""
    x = draw(2, len(FAR), 128)
    table = angles_of(torch.arange(8192), llama3_scaled(ladder(500_000.0, 128)))
    return written(FAR, x, apply_halves(x, table[FAR.clamp(max=8191)]))


@port("llama3_1", RESTARTED, r"\b4[,_ ]?096\b")
def llama3_restarts_at_every_chunk() -> Numbers:
    """Chunked prefill counts from 0 in each chunk of 4096 tokens."""
    positions = torch.tensor([0, 1, 2, 100, 4095, 4096, 4097, 5000, 8191, 8192, 9001, 12_300])
    x = draw(len(positions), 128)
    return written(
        positions, x, apply_halves(x, angles_of(positions % 4096, llama3_scaled(ladder(500_000.0, 128))))
    )


@port("llama3_1", POSITION, BY_ONE)
def llama3_counts_from_one() -> Numbers:
    x = draw(4, len(TEXT), 128, dtype=torch.bfloat16)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT + 1, llama3_scaled(ladder(500_000.0, 128)))))


@port("llama3_1", SIGN)
def llama3_rotates_backwards() -> Numbers:
    x = draw(2, len(TEXT), 128)
    angles = angles_of(TEXT, llama3_scaled(ladder(500_000.0, 128)))
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    first, second = x.chunk(2, dim=-1)
    return written(TEXT, x, x * cos + torch.cat((second, -first), dim=-1) * sin)


@port("llama3_1", BFLOAT16)
def llama3_angles_in_bfloat16() -> Numbers:
    """The product of frequencies and positions runs under autocast."""
    positions = torch.tensor([0, 1, 2, 3, 17, 100, 257, 1001, 4097, 9001])
    x = draw(2, len(positions), 128)
    inv_freq = llama3_scaled(ladder(500_000.0, 128))
    angles = positions.bfloat16()[:, None] * inv_freq.bfloat16()[None, :]
    return written(positions, x, apply_halves(x, angles.float()))


# gpt-oss


@port("gpt_oss", FACTOR, SQUARED)
def gpt_oss_factor_squared() -> Numbers:
    """The factor on the tables and once more on q."""
    x = draw(2, len(TEXT), 64)
    rotated = apply_halves(x, angles_of(TEXT, gpt_oss_ladder()), factor=GPT_OSS_FACTOR)
    return written(TEXT, x, rotated * GPT_OSS_FACTOR)


@port("gpt_oss", TRUNCATED)
def gpt_oss_rounds_its_ramp() -> Numbers:
    """truncate is not read: the ends of the ramp are rounded to whole pairs."""
    return {"inv_freq": array(gpt_oss_ladder(truncate=True))}


@port("gpt_oss", BASE, TEN_THOUSAND, GPT_OSS_BASE)
def gpt_oss_default_base() -> Numbers:
    """rope_theta is not read, for the ladder and for the ramp, in bfloat16."""
    x = draw(2, len(TEXT), 64, dtype=torch.bfloat16)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, gpt_oss_ladder(base=10_000.0)), factor=GPT_OSS_FACTOR))


def heads_for_tokens(x: Tensor, table: Tensor, factor: float) -> Tensor:
    """A rotation for (T, H, D), which is given (H, T, D)."""
    angles = table[: x.shape[0], None, :]
    return apply_halves(x, angles, factor)


@port("gpt_oss", HEADS, LENGTH)
def gpt_oss_heads_for_tokens() -> Numbers:
    x, positions = draw(8, 12, 64), torch.arange(12)
    return written(positions, x, heads_for_tokens(x, angles_of(positions, gpt_oss_ladder()), GPT_OSS_FACTOR))


# Qwen2-VL


@port("qwen2_vl", r"(?i)section|ax[ei]s", SECTIONS_24_20)
def qwen2_vl_sections_of_qwen3_vl() -> Numbers:
    x = draw(2, PICTURE.shape[1], 128)
    return written(PICTURE, x, apply_halves(x, chunked_angles(PICTURE, ladder(1e6, 128), (24, 20, 20))))


# ALiBi, sinusoids, T5


def distance(length: int) -> Tensor:
    return (torch.arange(length)[None, :] - torch.arange(length)[:, None]).abs().float()


def alibi_slopes(heads: int) -> Tensor:
    """The authors' code."""
    if math.log2(heads).is_integer():
        start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
        return torch.tensor([start * start**h for h in range(heads)])
    closest = 2 ** math.floor(math.log2(heads))
    return torch.cat((alibi_slopes(closest), alibi_slopes(2 * closest)[0::2][: heads - closest]))


@port("alibi", SERIES, r"\b12\b|(?i:power of (two|2)|geometric)")
def alibi_one_series_for_twelve_heads() -> Numbers:
    """2^(−8h/12): the formula for a power of two."""
    return {"slopes": array(2.0 ** (-8.0 * torch.arange(1, 13) / 12))}


@port("alibi", HEADS, r"(?i)\bone\b|\b1\b|h ?= ?0|from 0|shift|start|before|earlier|off by")
def alibi_eight_heads_from_zero() -> Numbers:
    """Eight heads, h from 0."""
    slopes = torch.tensor([2 ** (-8.0 * h / 8) for h in range(8)])
    return {"bias": array(-slopes[:, None, None] * distance(20))}


@port("alibi", FACTOR + r"|(?i:divided|scaled|times|slopes)", r"\b8(\.0)?\b|\b0?\.125\b|√ ?64|sqrt\(64\)")
def alibi_divided_with_the_scores() -> Numbers:
    """The bias is added before the division by √64, in bfloat16."""
    bias = (-alibi_slopes(12)[:, None, None] * distance(16)).bfloat16() / math.sqrt(64)
    return {"bias": array(bias)}


def interleaved_table(angles: Tensor) -> Tensor:
    table = torch.zeros(angles.shape[0], 2 * angles.shape[1])
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table


@port("sinusoidal", r"(?i)\blog|\bln\b", r"10\b|₁₀")
def sinusoid_by_log10() -> Numbers:
    rates = torch.exp(torch.arange(0, 64, 2).float() * (-math.log10(10_000.0) / 64))
    return {"table": array(interleaved_table(torch.arange(200)[:, None] * rates))}


@port("sinusoidal", SIGN + r"|(?i:\+log|positive|grow)")
def sinusoid_without_the_minus() -> Numbers:
    """exp(+2i·ln(10000)/64)."""
    rates = torch.exp(torch.arange(0, 64, 2).float() * (math.log(10_000.0) / 64))
    return {"table": array(interleaved_table(torch.arange(50)[:, None] * rates))}


OFFSETS = torch.cat((torch.arange(-140, 141), torch.tensor([-1000, 1000, 5000])))
"""Key position − query position."""


def t5_buckets(offsets: Tensor, two_sided: bool = True, buckets: int = 32, maximum: int = 128) -> Tensor:
    """As transformers has it, in float32."""
    result = torch.zeros_like(offsets)
    if two_sided:
        buckets //= 2
        result = result + (offsets > 0).long() * buckets
        offsets = offsets.abs()
    else:
        offsets = -torch.min(offsets, torch.zeros_like(offsets))
    exact = buckets // 2
    ratio = torch.log(offsets.float().clamp(min=1) / exact) / math.log(maximum / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return result + torch.where(offsets < exact, offsets, far)


@port("t5", r"(?i)one[- ]?sided|causal|unidirectional|decoder|bidirectional|two[- ]?sided|future|\bside")
def t5_encoder_by_the_decoders_buckets() -> Numbers:
    return {"offsets": array(OFFSETS), "buckets": array(t5_buckets(OFFSETS, two_sided=False))}


# Right ports


@port("llama3_1")
def right_llama3_by_complex_numbers() -> Numbers:
    """(B, T, H, D), halves viewed as complex numbers."""
    x = draw(1, len(FAR), 3, 128)
    freqs_cis = torch.polar(torch.ones(len(FAR), 64), angles_of(FAR, llama3_scaled(ladder(500_000.0, 128))))
    as_complex = torch.complex(*x.chunk(2, dim=-1)) * freqs_cis[None, :, None, :]
    rotated = torch.cat((as_complex.real, as_complex.imag), dim=-1)
    return written(FAR, x.transpose(1, 2).contiguous(), rotated.transpose(1, 2).contiguous())


@port("gpt_oss")
def right_gpt_oss_cached_tables() -> Numbers:
    """A table of 10 000 rows built in pieces, indexed by int32 positions."""
    pieces = [angles_of(part, gpt_oss_ladder()) for part in torch.arange(10_000).split(1024)]
    cos, sin = (torch.cat([f(piece) for piece in pieces]) * GPT_OSS_FACTOR for f in (torch.cos, torch.sin))
    positions = TEXT.to(torch.int32)
    return {"positions": array(positions), "cos": array(cos[positions]), "sin": array(sin[positions])}


@port("gemma4 full_attention")
def right_gemma4_rotate_half_with_still_pairs() -> Numbers:
    x = draw(1, 2, len(TEXT), 512)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, padded(ladder(1e6, 512, 64), 256))))


@port("gemma4 sliding_attention")
def right_gemma4_sliding_by_matrices() -> Numbers:
    """2 × 2 matrices and einsum."""
    x = draw(2, len(TEXT), 256)
    angles = angles_of(TEXT, ladder(1e4, 256))
    cos, sin = angles.cos(), angles.sin()
    matrices = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
    pairs = torch.stack(x.chunk(2, dim=-1), dim=-1)
    rotated = torch.einsum("tpij,htpj->hipt", matrices, pairs)
    return written(TEXT, x, rotated.flatten(1, 2).transpose(1, 2).contiguous())


@port("qwen3_5")
def right_qwen3_5_in_bfloat16() -> Numbers:
    x = draw(2, PICTURE.shape[1], 256, dtype=torch.bfloat16)
    return written(PICTURE, x, apply_halves(x, interleaved_angles(PICTURE, ladder(1e7, 64))))


@port("deepseek_v3")
def right_deepseek_by_complex_numbers() -> Numbers:
    """As DeepSeek's own code: view_as_complex on neighbours, on (T, H, D)."""
    x = draw(len(TEXT), 4, 64)
    freqs_cis = torch.polar(torch.ones(len(TEXT), 32), angles_of(TEXT, yarn_scaled(*DEEPSEEK)))
    rotated = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * freqs_cis[:, None]).flatten(-2)
    return written(TEXT, x.transpose(0, 1).contiguous(), rotated.transpose(0, 1).contiguous())


@port("qwen2_vl")
def right_qwen2_vl_split_tables() -> Numbers:
    """As transformers: the sections twice over cos and sin of full width, int32 positions."""
    positions = PICTURE.to(torch.int32)
    x = draw(2, positions.shape[1], 128)
    freqs = positions[..., None].float() * ladder(1e6, 128)
    freqs = torch.cat((freqs, freqs), dim=-1)
    sections = [16, 24, 24] * 2
    cos, sin = (
        torch.cat([part[i % 3] for i, part in enumerate(f(freqs).split(sections, dim=-1))], dim=-1)
        for f in (torch.cos, torch.sin)
    )
    return written(positions, x, x * cos + rotate_half(x) * sin)


@port("alibi")
def right_alibi_twelve_heads() -> Numbers:
    return {"bias": array(-alibi_slopes(12)[:, None, None] * distance(24)[None])}


@port("sinusoidal")
def right_sinusoid_by_exp_and_log() -> Numbers:
    rates = torch.exp(torch.arange(0, 64, 2).float() * (-math.log(10_000.0) / 64))
    return {"table": array(interleaved_table(torch.arange(512)[:, None] * rates))}


@port("t5")
def right_t5_buckets() -> Numbers:
    return {"offsets": array(OFFSETS), "buckets": array(t5_buckets(OFFSETS))}


# Two mistakes


@pair("gemma4 full_attention", r"\b64\b", r"\b256\b", EXPONENT, r"\b128\b", r"\b512\b")
def gemma4_as_plain_partial_rotary() -> Numbers:
    """The first 128 channels in pairs (i, i+64), exponent over 128."""
    x = draw(2, len(TEXT), 512)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, ladder(1e6, 128))))


@pair("gemma4 full_attention", NEIGHBOURS, POSITION, BY_ONE)
def gemma4_neighbours_from_one() -> Numbers:
    x = draw(2, len(TEXT), 512)
    return written(TEXT, x, apply_neighbours(x, angles_of(TEXT + 1, ladder(1e6, 512, 64))))


@pair("gemma4 full_attention", BASE, TEN_THOUSAND, CHANNELS, r"\b64\b", r"\b256\b")
def gemma4_base_and_prefix() -> Numbers:
    x = draw(len(TEXT), 512)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, ladder(1e4, 512, 64))))


@pair("gemma4 full_attention", EXPONENT, r"\b128\b", r"\b512\b", SIGN)
def gemma4_exponent_and_backwards() -> Numbers:
    x = draw(2, len(TEXT), 512)
    inv_freq = padded(ladder(1e6, 128), 256)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, inv_freq), direction=-1.0))


@pair("gemma4 sliding_attention", BASE + r"|(?i:full)", MILLION + r"|(?i:\bfull)", NEIGHBOURS)
def gemma4_sliding_base_and_neighbours() -> Numbers:
    x = draw(2, len(TEXT), 256, dtype=torch.bfloat16)
    return written(TEXT, x, apply_neighbours(x, angles_of(TEXT, ladder(1e6, 256))))


@pair("gemma4 sliding_attention", SIGN, CLAMPED, r"\b102[34]\b|\b1[,_ ]02[34]\b")
def gemma4_sliding_backwards_and_clamped() -> Numbers:
    x, positions = draw(2, 9, 256), torch.tensor([0, 1, 2, 40, 500, 1023, 1024, 3000, 7000])
    angles = angles_of(positions.clamp(max=1023), ladder(1e4, 256))
    return written(positions, x, apply_halves(x, angles, direction=-1.0))


@pair("qwen3_5", EXPONENT, r"\b256\b", CHANNELS, r"\b128\b", r"\b32\b|\b64\b")
def qwen3_5_as_a_full_head() -> Numbers:
    """Pairs (i, i+128) for (i, i+32), exponent over 256 for 64."""
    x = draw(PICTURE.shape[1], 256)
    angles = interleaved_angles(PICTURE, ladder(1e7, 256, 32))
    return written(PICTURE, x, apply_halves(x, torch.cat((angles, torch.zeros(len(angles), 96)), dim=-1)))


@pair("qwen3_5", AXES, AXES_SWAPPED, BASE, MILLION)
def qwen3_5_axes_and_base() -> Numbers:
    x = draw(2, PICTURE.shape[1], 256)
    return written(PICTURE, x, apply_halves(x, interleaved_angles(PICTURE[[0, 2, 1]], ladder(1e6, 64))))


@pair("qwen3_5", CHUNKED, POSITION, BY_ONE)
def qwen3_5_blocks_from_one() -> Numbers:
    x = draw(2, PICTURE.shape[1], 256)
    return written(PICTURE, x, apply_halves(x, chunked_angles(PICTURE + 1, ladder(1e7, 64), (11, 11, 10))))


@pair("qwen3_5", CHUNKED, CHANNELS, r"(?i)\b192\b|last 64|\btail\b|\bend\b")
def qwen3_5_blocks_in_its_tail() -> Numbers:
    x = draw(PICTURE.shape[1], 256)
    rope = apply_halves(x[..., 192:], chunked_angles(PICTURE, ladder(1e7, 64), (11, 11, 10)))
    return written(PICTURE, x, torch.cat((x[..., :192], rope), dim=-1))


@pair("deepseek_v3", HALVES, SCALING, LEFT_OUT)
def deepseek_halves_without_yarn() -> Numbers:
    x = draw(2, len(TEXT), 64)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, ladder(1e4, 64))))


@pair("deepseek_v3", HALVES, FACTOR, r"1\.36[89]|1\.37\b")
def deepseek_halves_and_mscale() -> Numbers:
    x = draw(2, len(TEXT), 64)
    factor = 0.1 * math.log(40.0) + 1.0
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, yarn_scaled(*DEEPSEEK)), factor=factor))


@pair("deepseek_v3", SIGN, ORIGINAL_163840)
def deepseek_backwards_with_the_long_ramp() -> Numbers:
    x = draw(2, len(TEXT), 64)
    inv_freq = yarn_scaled(*DEEPSEEK, original=163_840)
    return written(TEXT, x, apply_neighbours(x, angles_of(TEXT, inv_freq), direction=-1.0))


@pair("deepseek_v3", FACTOR, r"1\.36[89]|1\.37\b", RESTARTED, r"\b4[,_ ]?096\b")
def deepseek_mscale_and_restart() -> Numbers:
    positions = torch.tensor([0, 1, 2, 100, 4095, 4096, 4097, 6000, 8200, 9001])
    angles = angles_of(positions % 4096, yarn_scaled(*DEEPSEEK))
    factor = 0.1 * math.log(40.0) + 1.0
    return {"positions": array(positions), "cos": array(angles.cos() * factor), "sin": array(angles.sin() * factor)}


@pair("llama3_1", NEIGHBOURS, SCALING, LEFT_OUT)
def llama3_neighbours_unscaled() -> Numbers:
    """Meta's complex listing for Llama 3 on transformers' weights."""
    x = draw(2, len(TEXT), 128)
    freqs_cis = torch.polar(torch.ones(len(TEXT), 64), angles_of(TEXT, ladder(500_000.0, 128)))
    rotated = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * freqs_cis).flatten(-2)
    return written(TEXT, x, rotated)


@pair("llama3_1", r"\b32(\.0)?\b", BASE, TEN_THOUSAND)
def llama3_factor_and_base() -> Numbers:
    return {"inv_freq": array(llama3_scaled(ladder(10_000.0, 128), factor=32.0))}


@pair("llama3_1", SIGN, CLAMPED, r"\b819[12]\b|\b8[,_ ]19[12]\b")
def llama3_backwards_and_clamped() -> Numbers:
    x = draw(2, len(FAR), 128)
    angles = angles_of(FAR.clamp(max=8191), llama3_scaled(ladder(500_000.0, 128)))
    return written(FAR, x, apply_halves(x, angles, direction=-1.0))


@pair("llama3_1", r"(?i)linear|interpol|all pairs|every pair", r"\b8(\.0)?\b", POSITION, BY_ONE)
def llama3_linear_from_one() -> Numbers:
    x = draw(2, len(TEXT), 128)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT + 1, ladder(500_000.0, 128) / 8)))


@pair("llama3_1", NEIGHBOURS, BFLOAT16)
def llama3_neighbours_by_bfloat16_angles() -> Numbers:
    positions = torch.tensor([0, 1, 2, 3, 17, 100, 257, 1001, 4097, 9001])
    x = draw(2, len(positions), 128)
    angles = positions.bfloat16()[:, None] * llama3_scaled(ladder(500_000.0, 128)).bfloat16()[None, :]
    return written(positions, x, apply_neighbours(x, angles.float()))


@pair("llama3_1", SCALING, LEFT_OUT, r"(?i)position|frequenc|multipl|step", DOUBLED)
def llama3_unscaled_with_doubled_positions() -> Numbers:
    x = draw(2, len(TEXT), 128, dtype=torch.bfloat16)
    return written(TEXT, x, apply_halves(x, angles_of(2 * TEXT, ladder(500_000.0, 128))))


@pair("gpt_oss", FACTOR, LEFT_OUT + r"|\b1\b", YARN_FACTOR, BASE, TEN_THOUSAND)
def gpt_oss_base_without_factor() -> Numbers:
    angles = angles_of(TEXT, gpt_oss_ladder(base=10_000.0))
    return {"positions": array(TEXT), "cos": array(angles.cos()), "sin": array(angles.sin())}


@pair("gpt_oss", FACTOR, SQUARED, NEIGHBOURS)
def gpt_oss_factor_squared_on_neighbours() -> Numbers:
    x = draw(2, len(TEXT), 64)
    return written(TEXT, x, apply_neighbours(x, angles_of(TEXT, gpt_oss_ladder()), factor=GPT_OSS_FACTOR**2))


@pair("gpt_oss", FACTOR, LEFT_OUT + r"|\b1\b", YARN_FACTOR, TRUNCATED)
def gpt_oss_rounded_without_factor() -> Numbers:
    x = draw(2, len(TEXT), 64)
    return written(TEXT, x, apply_halves(x, angles_of(TEXT, gpt_oss_ladder(truncate=True))))


@pair("gpt_oss", HEADS, LENGTH, FACTOR, YARN_FACTOR)
def gpt_oss_heads_for_tokens_without_factor() -> Numbers:
    x, positions = draw(8, 12, 64), torch.arange(12)
    return written(positions, x, heads_for_tokens(x, angles_of(positions, gpt_oss_ladder()), 1.0))


@pair("gpt_oss", SIGN, TRUNCATED)
def gpt_oss_backwards_and_rounded() -> Numbers:
    x = draw(2, len(TEXT), 64)
    angles = angles_of(TEXT, gpt_oss_ladder(truncate=True))
    return written(TEXT, x, apply_halves(x, angles, factor=GPT_OSS_FACTOR, direction=-1.0))


@pair("qwen2_vl", SECTIONS_24_20, BASE, TEN_THOUSAND)
def qwen2_vl_sections_and_base() -> Numbers:
    x = draw(2, PICTURE.shape[1], 128)
    return written(PICTURE, x, apply_halves(x, chunked_angles(PICTURE, ladder(1e4, 128), (24, 20, 20))))


@pair("qwen2_vl", AXES, AXES_SWAPPED, NEIGHBOURS)
def qwen2_vl_axes_and_neighbours() -> Numbers:
    x = draw(PICTURE.shape[1], 128)
    angles = chunked_angles(PICTURE[[0, 2, 1]], ladder(1e6, 128), (16, 24, 24))
    return written(PICTURE, x, apply_neighbours(x, angles))


@pair("alibi", SERIES, SIGN + r"|(?i:positive|reward)")
def alibi_one_series_and_positive() -> Numbers:
    slopes = 2.0 ** (-8.0 * torch.arange(1, 13) / 12)
    return {"bias": array(slopes[:, None, None] * distance(16))}


@pair("sinusoidal", BASE, THOUSAND, BLOCKS)
def sinusoid_base_and_blocks() -> Numbers:
    """All sines, then all cosines, base 1000."""
    angles = torch.arange(200)[:, None] * torch.exp(torch.arange(0, 64, 2).float() * (-math.log(1000.0) / 64))
    return {"table": array(torch.cat((angles.sin(), angles.cos()), dim=-1))}


@pair(
    "t5",
    r"(?i)\bsigns?\b|\bsides?\b|direction|revers|swap|query.*key|key.*query|past.*future|future.*past",
    r"\b64\b",
)
def t5_sides_and_buckets() -> Numbers:
    """Query position − key position, and 64 buckets."""
    return {"offsets": array(OFFSETS), "buckets": array(t5_buckets(-OFFSETS, buckets=64))}
