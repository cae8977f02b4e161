"""Ports by a fresh reader: 30 with one planted mistake, 10 right ones, 30 with two mistakes, in plain PyTorch.

``PLANTS`` holds the single mistakes and the right ports, ``PAIRS`` those with two mistakes. The code has the styles
of real ports: float32 or bfloat16, cached tables, complex numbers, ``rotate_half``, einsum, several layouts.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from integrations.doctor.models import LAYERS
from integrations.doctor.plants_porters import Plant, entered

Numbers = dict[str, Any]

PLANTS: list[Plant] = []
"""Ports with one mistake, and right ones, of which nothing must be said."""
PAIRS: list[Plant] = []
"""Ports with two mistakes."""
port, pair = partial(entered, PLANTS), partial(entered, PAIRS)


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
SHORT = torch.tensor([0, 1, 2, 3, 17, 100, 257, 1001, 4097, 9001])
PAST_1024 = torch.tensor([0, 1, 2, 40, 500, 1023, 1024, 3000, 7000])
CHUNKS = torch.tensor([0, 1, 2, 100, 4095, 4096, 4097, 5000, 8191, 8192, 9001, 12_300])
TWELVE = torch.arange(12)
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


LLAMA3 = llama3_scaled(ladder(500_000.0, 128))
DEEPSEEK = (10_000.0, 64, 40.0)
DEEPSEEK_FACTOR = 0.1 * math.log(40.0) + 1.0
GPT_OSS_FACTOR = 0.1 * math.log(32.0) + 1.0


def gpt_oss_ladder(base: float = 150_000.0, truncate: bool = False) -> Tensor:
    return yarn_scaled(base, 64, 32.0, 4096, truncate)


def angles_of(positions: Tensor, inv_freq: Tensor) -> Tensor:
    """``(T, P)`` in float32."""
    return positions.float()[:, None] * inv_freq[None, :]


def bfloat16_angles(positions: Tensor, inv_freq: Tensor) -> Tensor:
    return (positions.bfloat16()[:, None] * inv_freq.bfloat16()[None, :]).float()


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


def apply_to_the_tail(x: Tensor, angles: Tensor) -> Tensor:
    """Channels from 192 on rotate."""
    return torch.cat((x[..., :192], apply_halves(x[..., 192:], angles)), dim=-1)


def padded(inv_freq: Tensor, pairs: int) -> Tensor:
    """Zeros for the pairs that stand still, as transformers pads proportional RoPE."""
    return torch.cat((inv_freq, torch.zeros(pairs - len(inv_freq))))


def heads_for_tokens(x: Tensor, table: Tensor, factor: float = 1.0) -> Tensor:
    """A rotation for (T, H, D), which is given (H, T, D)."""
    return apply_halves(x, table[: x.shape[0], None, :], factor)


def alibi_bias(slopes: Tensor, length: int) -> Tensor:
    distance = (torch.arange(length)[None, :] - torch.arange(length)[:, None]).abs().float()
    return -slopes[:, None, None] * distance


def alibi_slopes(heads: int) -> Tensor:
    """The authors' code."""
    if math.log2(heads).is_integer():
        start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
        return torch.tensor([start * start**h for h in range(heads)])
    closest = 2 ** math.floor(math.log2(heads))
    return torch.cat((alibi_slopes(closest), alibi_slopes(2 * closest)[0::2][: heads - closest]))


ONE_SERIES = 2.0 ** (-8.0 * torch.arange(1, 13) / 12)


def sinusoids(length: int, log_base: float, interleaved: bool = True) -> Tensor:
    """64 channels: a sine and a cosine in turn, or all sines and then all cosines."""
    angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, 64, 2).float() * (log_base / 64))
    return torch.stack((angles.sin(), angles.cos()), dim=2 if interleaved else 1).flatten(1)


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


def array(x: Tensor) -> np.ndarray[Any, Any]:
    return x.float().numpy() if x.is_floating_point() else x.numpy()


def written(positions: Tensor, x: Tensor, rotated: Tensor) -> Numbers:
    return {"positions": array(positions), "x": array(x), "rotated": array(rotated)}


# Ports with code of their own


@port("gpt_oss", FACTOR, SQUARED)
def gpt_oss_factor_squared() -> Numbers:
    """The factor on the tables and once more on q."""
    x = draw(2, len(TEXT), 64)
    rotated = apply_halves(x, angles_of(TEXT, gpt_oss_ladder()), factor=GPT_OSS_FACTOR)
    return written(TEXT, x, rotated * GPT_OSS_FACTOR)


@port("llama3_1")
def right_llama3_by_complex_numbers() -> Numbers:
    """(B, T, H, D), halves viewed as complex numbers."""
    x = draw(1, len(FAR), 3, 128)
    freqs_cis = torch.polar(torch.ones(len(FAR), 64), angles_of(FAR, LLAMA3))
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


@port("gemma4 sliding_attention")
def right_gemma4_sliding_by_matrices() -> Numbers:
    """2 × 2 matrices and einsum."""
    x = draw(2, len(TEXT), 256)
    angles = angles_of(TEXT, ladder(1e4, 256))
    cos, sin = angles.cos(), angles.sin()
    matrices = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
    rotated = torch.einsum("tpij,htpj->hipt", matrices, torch.stack(x.chunk(2, dim=-1), dim=-1))
    return written(TEXT, x, rotated.flatten(1, 2).transpose(1, 2).contiguous())


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


@pair("llama3_1", NEIGHBOURS, SCALING, LEFT_OUT)
def llama3_neighbours_unscaled() -> Numbers:
    """Meta's complex listing for Llama 3 on transformers' weights."""
    x = draw(2, len(TEXT), 128)
    freqs_cis = torch.polar(torch.ones(len(TEXT), 64), angles_of(TEXT, ladder(500_000.0, 128)))
    rotated = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * freqs_cis).flatten(-2)
    return written(TEXT, x, rotated)


# Ports that differ in a few values


def rotation(
    name: str,
    model: str,
    angles: Tensor,
    *says: str,
    positions: Tensor = TEXT,
    heads: tuple[int, ...] = (2,),
    apply: Callable[..., Tensor] = apply_halves,
    dtype: torch.dtype = torch.float32,
    **how: float,
) -> Plant:
    """A port that rotates x ``(*heads, T, channels)`` by these angles."""

    def numbers() -> Numbers:
        x = draw(*heads, positions.shape[-1], LAYERS[model].head_dim, dtype=dtype)
        return written(positions, x, apply(x, angles, **how))

    return Plant(name, model, numbers, says)


def given(name: str, model: str, *says: str, **numbers: Tensor) -> Plant:
    """A port of which these numbers are given."""
    return Plant(name, model, lambda: {key: array(x) for key, x in numbers.items()}, says)


def tables(
    name: str, model: str, angles: Tensor, *says: str, positions: Tensor = TEXT, factor: float = 1.0
) -> Plant:
    """A port of which cos and sin of these angles are given, times a factor."""
    return given(name, model, *says, positions=positions, cos=angles.cos() * factor, sin=angles.sin() * factor)


PLANTS += [
    # Gemma 4
    # The first 128 channels as a partial rotary of its own: (i, i+64) for (i, i+256).
    rotation(
        "gemma4_rotates_its_prefix",
        "gemma4 full_attention",
        angles_of(TEXT, ladder(1e6, 512, 64)),
        CHANNELS,
        r"(?i)i ?\+ ?64\b|\b64 (channels? )?apart|distance\D{0,12}64\b|first 128",
        r"\b256\b|\b512\b",
    ),
    given(
        "gemma4_exponent_over_rotated_channels",
        "gemma4 full_attention",
        EXPONENT,
        r"\b128\b",
        r"\b512\b",
        inv_freq=ladder(1e6, int(512 * 0.25)),
    ),
    # partial_rotary_factor is not read, in bfloat16.
    rotation(
        "gemma4_rotates_every_channel",
        "gemma4 full_attention",
        angles_of(TEXT, ladder(1e6, 512)),
        CHANNELS,
        r"(?i)\ball\b|every|whole|\b256\b|\b512\b|full",
        r"(?<!\+)(?<!\+ )\b64\b|\b128\b|\b192\b|(?i:quarter)|\b0?\.25\b",
        dtype=torch.bfloat16,
    ),
    # The offset of the cache is added to positions that hold it already.
    rotation(
        "gemma4_sliding_doubles_positions",
        "gemma4 sliding_attention",
        angles_of(TEXT + TEXT, ladder(1e4, 256)),
        r"(?i)position|frequenc|scal|multipl|step",
        DOUBLED,
        heads=(),
    ),
    # One ladder for all layers.
    given(
        "gemma4_full_layer_by_sliding_ladder",
        "gemma4 full_attention",
        r"(?i)sliding|other layer|layer type|local",
        inv_freq=ladder(1e4, 256),
    ),
    # Qwen 3.5
    # mrope_interleaved is not read: Qwen2-VL's layout of the sections.
    rotation(
        "qwen3_5_sections_in_blocks",
        "qwen3_5",
        chunked_angles(PICTURE, ladder(1e7, 64), (11, 11, 10)),
        AXES + r"|(?i:section|interleav)",
        CHUNKED,
        positions=PICTURE,
        heads=(),
    ),
    rotation(
        "qwen3_5_width_before_height",
        "qwen3_5",
        interleaved_angles(PICTURE[[0, 2, 1]], ladder(1e7, 64)),
        AXES,
        AXES_SWAPPED,
        positions=PICTURE,
        dtype=torch.bfloat16,
    ),
    # The last 64 channels rotate, as in DeepSeek's layout of nope and rope.
    rotation(
        "qwen3_5_rotates_its_tail",
        "qwen3_5",
        interleaved_angles(PICTURE, ladder(1e7, 64)),
        CHANNELS,
        r"(?i)\b192\b|last 64|\btail\b|\bend\b",
        positions=PICTURE,
        heads=(),
        apply=apply_to_the_tail,
    ),
    # DeepSeek-V3
    # rotate_half without the permutation before it, in bfloat16.
    rotation(
        "deepseek_pairs_halves",
        "deepseek_v3",
        angles_of(TEXT, yarn_scaled(*DEEPSEEK)),
        r"(?i)pair|channel|interleav|half",
        HALVES,
        NEIGHBOURS,
        dtype=torch.bfloat16,
    ),
    # YaRN's factor on cos and sin, although mscale / mscale_all_dim is 1.
    tables(
        "deepseek_mscale_on_the_tables",
        "deepseek_v3",
        angles_of(TEXT, yarn_scaled(*DEEPSEEK)),
        FACTOR,
        r"1\.36[89]|1\.37\b",
        factor=DEEPSEEK_FACTOR,
    ),
    rotation(
        "deepseek_without_yarn",
        "deepseek_v3",
        angles_of(TEXT, ladder(1e4, 64)),
        SCALING,
        LEFT_OUT,
        apply=apply_neighbours,
    ),
    # The ramp from max_position_embeddings in place of original_max_position_embeddings.
    given(
        "deepseek_ramp_from_the_long_length",
        "deepseek_v3",
        r"(?i)original|trained|length|yarn|max_position",
        ORIGINAL_163840,
        inv_freq=yarn_scaled(*DEEPSEEK, original=163_840),
    ),
    # Llama 3.1
    given(
        "llama3_factor_of_llama3_2",
        "llama3_1",
        r"(?i)factor|scal",
        r"\b32(\.0)?\b",
        r"\b8(\.0)?\b",
        inv_freq=llama3_scaled(ladder(500_000.0, 128), factor=32.0),
    ),
    # The loader scales the buffer, and the kernel scales what it is given.
    tables("llama3_scaled_twice", "llama3_1", angles_of(FAR, llama3_scaled(LLAMA3)), SCALING, TWICE, positions=FAR),
    # A table of 8192 rows, read by positions.clamp(max=rows − 1).
    rotation(
        "llama3_clamps_at_its_table",
        "llama3_1",
        angles_of(torch.arange(8192), LLAMA3)[FAR.clamp(max=8191)],
        CLAMPED,
        r"\b819[12]\b|\b8[,_ ]19[12]\b",
        positions=FAR,
    ),
    # Chunked prefill counts from 0 in each chunk of 4096 tokens.
    rotation(
        "llama3_restarts_at_every_chunk",
        "llama3_1",
        angles_of(CHUNKS % 4096, LLAMA3),
        RESTARTED,
        r"\b4[,_ ]?096\b",
        positions=CHUNKS,
        heads=(),
    ),
    rotation(
        "llama3_counts_from_one",
        "llama3_1",
        angles_of(TEXT + 1, LLAMA3),
        POSITION,
        BY_ONE,
        heads=(4,),
        dtype=torch.bfloat16,
    ),
    rotation("llama3_rotates_backwards", "llama3_1", angles_of(TEXT, LLAMA3), SIGN, direction=-1.0),
    # The product of frequencies and positions runs under autocast.
    rotation("llama3_angles_in_bfloat16", "llama3_1", bfloat16_angles(SHORT, LLAMA3), BFLOAT16, positions=SHORT),
    # gpt-oss
    # truncate is not read: the ends of the ramp are rounded to whole pairs.
    given("gpt_oss_rounds_its_ramp", "gpt_oss", TRUNCATED, inv_freq=gpt_oss_ladder(truncate=True)),
    # rope_theta is not read, for the ladder and for the ramp, in bfloat16.
    rotation(
        "gpt_oss_default_base",
        "gpt_oss",
        angles_of(TEXT, gpt_oss_ladder(base=1e4)),
        BASE,
        TEN_THOUSAND,
        GPT_OSS_BASE,
        dtype=torch.bfloat16,
        factor=GPT_OSS_FACTOR,
    ),
    rotation(
        "gpt_oss_heads_for_tokens",
        "gpt_oss",
        angles_of(TWELVE, gpt_oss_ladder()),
        HEADS,
        LENGTH,
        positions=TWELVE,
        heads=(8,),
        apply=heads_for_tokens,
        factor=GPT_OSS_FACTOR,
    ),
    # Qwen2-VL
    rotation(
        "qwen2_vl_sections_of_qwen3_vl",
        "qwen2_vl",
        chunked_angles(PICTURE, ladder(1e6, 128), (24, 20, 20)),
        r"(?i)section|ax[ei]s",
        SECTIONS_24_20,
        positions=PICTURE,
    ),
    # ALiBi, sinusoids, T5
    # 2^(−8h/12): the formula for a power of two.
    given(
        "alibi_one_series_for_twelve_heads",
        "alibi",
        SERIES,
        r"\b12\b|(?i:power of (two|2)|geometric)",
        slopes=ONE_SERIES,
    ),
    # Eight heads, h from 0.
    given(
        "alibi_eight_heads_from_zero",
        "alibi",
        HEADS,
        r"(?i)\bone\b|\b1\b|h ?= ?0|from 0|shift|start|before|earlier|off by",
        bias=alibi_bias(2 ** -torch.arange(8.0), 20),
    ),
    # The bias is added before the division by √64, in bfloat16.
    given(
        "alibi_divided_with_the_scores",
        "alibi",
        FACTOR + r"|(?i:divided|scaled|times|slopes)",
        r"\b8(\.0)?\b|\b0?\.125\b|√ ?64|sqrt\(64\)",
        bias=alibi_bias(alibi_slopes(12), 16).bfloat16() / math.sqrt(64),
    ),
    given(
        "sinusoid_by_log10",
        "sinusoidal",
        r"(?i)\blog|\bln\b",
        r"10\b|₁₀",
        table=sinusoids(200, -math.log10(10_000.0)),
    ),
    # exp(+2i·ln(10000)/64).
    given(
        "sinusoid_without_the_minus",
        "sinusoidal",
        SIGN + r"|(?i:\+log|positive|grow)",
        table=sinusoids(50, math.log(10_000.0)),
    ),
    given(
        "t5_encoder_by_the_decoders_buckets",
        "t5",
        r"(?i)one[- ]?sided|causal|unidirectional|decoder|bidirectional|two[- ]?sided|future|\bside",
        offsets=OFFSETS,
        buckets=t5_buckets(OFFSETS, two_sided=False),
    ),
    *(
        given(
            f"t5_{name.replace(' ', '_')}_{model}",
            model,
            says,
            offsets=OFFSETS,
            buckets=changed(t5_buckets(OFFSETS), OFFSETS.abs().float()),
        )
        for model in ("t5", "t5(buckets=32)")  # two-sided, and both
        for name, says, changed in (
            (
                "bound",
                "^its max_distance is 64 instead of 128, and the sign of its offsets is wrong",
                lambda right, n: t5_buckets(-OFFSETS, maximum=64),
            ),
            (
                "unclamped",
                "^its last buckets are not clamped",
                lambda right, n: right.where(
                    n < 128, torch.where(OFFSETS > 0, 16, 0) + 8 + (torch.log(n / 8) / math.log(16) * 8).long()
                ),
            ),
            (
                "own position",
                "^the query's own position is in the upper half of the buckets",
                lambda right, n: right + 16 * (n == 0),
            ),
            (
                "logarithm",
                r"^its logarithm is divided by log\(max_distance\) instead of log\(max_distance/max_exact\)",
                lambda right, n: right.where(
                    n < 8,
                    torch.where(OFFSETS > 0, 16, 0)
                    + (8 + torch.log(n / 8) / math.log(128) * 8).long().clamp(max=15),
                ),
            ),
            (
                "rounded",
                "^its buckets are rounded to the nearest instead of down",
                lambda right, n: right.where(
                    n < 8,
                    torch.where(OFFSETS > 0, 16, 0)
                    + (8 + (torch.log(n / 8) / math.log(16) * 8).round().long()).clamp(max=15),
                ),
            ),
            (
                "halves",
                "^its number of buckets is not halved",
                lambda right, n: torch.where(OFFSETS > 0, 16, 0) + t5_buckets(-n.long(), two_sided=False),
            ),
        )
    ),
    # Right ports
    rotation(
        "right_gemma4_rotate_half_with_still_pairs",
        "gemma4 full_attention",
        angles_of(TEXT, padded(ladder(1e6, 512, 64), 256)),
        heads=(1, 2),
    ),
    rotation(
        "right_qwen3_5_in_bfloat16",
        "qwen3_5",
        interleaved_angles(PICTURE, ladder(1e7, 64)),
        positions=PICTURE,
        dtype=torch.bfloat16,
    ),
    given("right_alibi_twelve_heads", "alibi", bias=alibi_bias(alibi_slopes(12), 24)),
    given("right_sinusoid_by_exp_and_log", "sinusoidal", table=sinusoids(512, -math.log(10_000.0))),
    given("right_t5_buckets", "t5", offsets=OFFSETS, buckets=t5_buckets(OFFSETS)),
]

PAIRS += [
    # The first 128 channels in pairs (i, i+64), exponent over 128.
    rotation(
        "gemma4_as_plain_partial_rotary",
        "gemma4 full_attention",
        angles_of(TEXT, ladder(1e6, 128)),
        r"\b64\b",
        r"\b256\b",
        EXPONENT,
        r"\b128\b",
        r"\b512\b",
    ),
    rotation(
        "gemma4_neighbours_from_one",
        "gemma4 full_attention",
        angles_of(TEXT + 1, ladder(1e6, 512, 64)),
        NEIGHBOURS,
        POSITION,
        BY_ONE,
        apply=apply_neighbours,
    ),
    rotation(
        "gemma4_base_and_prefix",
        "gemma4 full_attention",
        angles_of(TEXT, ladder(1e4, 512, 64)),
        BASE,
        TEN_THOUSAND,
        CHANNELS,
        r"\b64\b",
        r"\b256\b",
        heads=(),
    ),
    rotation(
        "gemma4_exponent_and_backwards",
        "gemma4 full_attention",
        angles_of(TEXT, padded(ladder(1e6, 128), 256)),
        EXPONENT,
        r"\b128\b",
        r"\b512\b",
        SIGN,
        direction=-1.0,
    ),
    rotation(
        "gemma4_sliding_base_and_neighbours",
        "gemma4 sliding_attention",
        angles_of(TEXT, ladder(1e6, 256)),
        BASE + r"|(?i:full)",
        MILLION + r"|(?i:\bfull)",
        NEIGHBOURS,
        apply=apply_neighbours,
        dtype=torch.bfloat16,
    ),
    rotation(
        "gemma4_sliding_backwards_and_clamped",
        "gemma4 sliding_attention",
        angles_of(PAST_1024.clamp(max=1023), ladder(1e4, 256)),
        SIGN,
        CLAMPED,
        r"\b102[34]\b|\b1[,_ ]02[34]\b",
        positions=PAST_1024,
        direction=-1.0,
    ),
    # Pairs (i, i+128) for (i, i+32), exponent over 256 for 64.
    rotation(
        "qwen3_5_as_a_full_head",
        "qwen3_5",
        interleaved_angles(PICTURE, padded(ladder(1e7, 256, 32), 128)),
        EXPONENT,
        r"\b256\b",
        CHANNELS,
        r"\b128\b",
        r"\b32\b|\b64\b",
        positions=PICTURE,
        heads=(),
    ),
    rotation(
        "qwen3_5_axes_and_base",
        "qwen3_5",
        interleaved_angles(PICTURE[[0, 2, 1]], ladder(1e6, 64)),
        AXES,
        AXES_SWAPPED,
        BASE,
        MILLION,
        positions=PICTURE,
    ),
    rotation(
        "qwen3_5_blocks_from_one",
        "qwen3_5",
        chunked_angles(PICTURE + 1, ladder(1e7, 64), (11, 11, 10)),
        CHUNKED,
        POSITION,
        BY_ONE,
        positions=PICTURE,
    ),
    rotation(
        "qwen3_5_blocks_in_its_tail",
        "qwen3_5",
        chunked_angles(PICTURE, ladder(1e7, 64), (11, 11, 10)),
        CHUNKED,
        CHANNELS,
        r"(?i)\b192\b|last 64|\btail\b|\bend\b",
        positions=PICTURE,
        heads=(),
        apply=apply_to_the_tail,
    ),
    rotation(
        "deepseek_halves_without_yarn", "deepseek_v3", angles_of(TEXT, ladder(1e4, 64)), HALVES, SCALING, LEFT_OUT
    ),
    rotation(
        "deepseek_halves_and_mscale",
        "deepseek_v3",
        angles_of(TEXT, yarn_scaled(*DEEPSEEK)),
        HALVES,
        FACTOR,
        r"1\.36[89]|1\.37\b",
        factor=DEEPSEEK_FACTOR,
    ),
    rotation(
        "deepseek_backwards_with_the_long_ramp",
        "deepseek_v3",
        angles_of(TEXT, yarn_scaled(*DEEPSEEK, original=163840)),
        SIGN,
        ORIGINAL_163840,
        apply=apply_neighbours,
        direction=-1.0,
    ),
    tables(
        "deepseek_mscale_and_restart",
        "deepseek_v3",
        angles_of(CHUNKS % 4096, yarn_scaled(*DEEPSEEK)),
        FACTOR,
        r"1\.36[89]|1\.37\b",
        RESTARTED,
        r"\b4[,_ ]?096\b",
        positions=CHUNKS,
        factor=DEEPSEEK_FACTOR,
    ),
    given(
        "llama3_factor_and_base",
        "llama3_1",
        r"\b32(\.0)?\b",
        BASE,
        TEN_THOUSAND,
        inv_freq=llama3_scaled(ladder(10_000.0, 128), factor=32.0),
    ),
    rotation(
        "llama3_backwards_and_clamped",
        "llama3_1",
        angles_of(FAR.clamp(max=8191), LLAMA3),
        SIGN,
        CLAMPED,
        r"\b819[12]\b|\b8[,_ ]19[12]\b",
        positions=FAR,
        direction=-1.0,
    ),
    rotation(
        "llama3_linear_from_one",
        "llama3_1",
        angles_of(TEXT + 1, ladder(500_000.0, 128) / 8),
        r"(?i)linear|interpol|all pairs|every pair",
        r"\b8(\.0)?\b",
        POSITION,
        BY_ONE,
    ),
    rotation(
        "llama3_neighbours_by_bfloat16_angles",
        "llama3_1",
        bfloat16_angles(SHORT, LLAMA3),
        NEIGHBOURS,
        BFLOAT16,
        positions=SHORT,
        apply=apply_neighbours,
    ),
    rotation(
        "llama3_unscaled_with_doubled_positions",
        "llama3_1",
        angles_of(2 * TEXT, ladder(500_000.0, 128)),
        SCALING,
        LEFT_OUT,
        r"(?i)position|frequenc|multipl|step",
        DOUBLED,
        dtype=torch.bfloat16,
    ),
    tables(
        "gpt_oss_base_without_factor",
        "gpt_oss",
        angles_of(TEXT, gpt_oss_ladder(base=1e4)),
        FACTOR,
        LEFT_OUT + r"|\b1\b",
        YARN_FACTOR,
        BASE,
        TEN_THOUSAND,
    ),
    rotation(
        "gpt_oss_factor_squared_on_neighbours",
        "gpt_oss",
        angles_of(TEXT, gpt_oss_ladder()),
        FACTOR,
        SQUARED,
        NEIGHBOURS,
        apply=apply_neighbours,
        factor=GPT_OSS_FACTOR**2,
    ),
    rotation(
        "gpt_oss_rounded_without_factor",
        "gpt_oss",
        angles_of(TEXT, gpt_oss_ladder(truncate=True)),
        FACTOR,
        LEFT_OUT + r"|\b1\b",
        YARN_FACTOR,
        TRUNCATED,
    ),
    rotation(
        "gpt_oss_heads_for_tokens_without_factor",
        "gpt_oss",
        angles_of(TWELVE, gpt_oss_ladder()),
        HEADS,
        LENGTH,
        FACTOR,
        YARN_FACTOR,
        positions=TWELVE,
        heads=(8,),
        apply=heads_for_tokens,
    ),
    rotation(
        "gpt_oss_backwards_and_rounded",
        "gpt_oss",
        angles_of(TEXT, gpt_oss_ladder(truncate=True)),
        SIGN,
        TRUNCATED,
        factor=GPT_OSS_FACTOR,
        direction=-1.0,
    ),
    rotation(
        "qwen2_vl_sections_and_base",
        "qwen2_vl",
        chunked_angles(PICTURE, ladder(1e4, 128), (24, 20, 20)),
        SECTIONS_24_20,
        BASE,
        TEN_THOUSAND,
        positions=PICTURE,
    ),
    rotation(
        "qwen2_vl_axes_and_neighbours",
        "qwen2_vl",
        chunked_angles(PICTURE[[0, 2, 1]], ladder(1e6, 128), (16, 24, 24)),
        AXES,
        AXES_SWAPPED,
        NEIGHBOURS,
        positions=PICTURE,
        heads=(),
        apply=apply_neighbours,
    ),
    given(
        "alibi_one_series_and_positive",
        "alibi",
        SERIES,
        SIGN + r"|(?i:positive|reward)",
        bias=-alibi_bias(ONE_SERIES, 16),
    ),
    # All sines, then all cosines, base 1000.
    given(
        "sinusoid_base_and_blocks",
        "sinusoidal",
        BASE,
        THOUSAND,
        BLOCKS,
        table=sinusoids(200, -math.log(1000.0), interleaved=False),
    ),
    # Query position − key position, and 64 buckets.
    given(
        "t5_sides_and_buckets",
        "t5",
        r"(?i)\bsigns?\b|\bsides?\b|direction|revers|swap|query.*key|key.*query|past.*future|future.*past",
        r"\b64\b",
        offsets=OFFSETS,
        buckets=t5_buckets(-OFFSETS, buckets=64),
    ),
]
