"""Wrong ports of eight models of which no other plant is, as a reader of the field's threads would write them.

Each comes with its right port, so that a mistake is named against a description that is right itself.
"""

import json
import math
from collections.abc import Callable

import numpy as np
import torch

from integrations.doctor.models import LAYERS, Array, inverse_frequencies, llama3, yarn
from integrations.doctor.plants_porters import GRID, TEXT, Plant, angles32, bf16, halves, neighbours, query
from support.places import CONFIGS

FAR = np.array([0, 1, 2, 3, 64, 1023, 2047, 2048, 4095, 4096, 8193, 20_000])
PYTHIA = inverse_frequencies(1e4, 16, 32)
"""A quarter of 128 channels rotates."""
GPT_J = inverse_frequencies(1e4, 32, 64)
"""64 of 256 channels, as neighbours."""
GEMMA_FAR = inverse_frequencies(1e6, 128, 256) / 8
GEMMA_NEAR = inverse_frequencies(1e4, 128, 256)
QWEN = yarn(inverse_frequencies(1e6, 64, 128), 1e6, 4.0, 32768, 32, 1, True)
QWEN_FACTOR = 0.1 * math.log(4.0) + 1
MISTRAL = inverse_frequencies(1e4, 64, 128)
MANY = np.arange(300)
PIXTRAL = inverse_frequencies(1e4, 32, 64)
OSS, L3 = LAYERS["gpt_oss"], LAYERS["llama3_1"].theta
L3_PLAIN = inverse_frequencies(5e5, 64, 128)
KEYS = np.arange(12.0, dtype=np.float32)[None, None].repeat(12, 1)
CODES = np.arange(60.0)[:, None] * inverse_frequencies(1e4, 32, 64)
PHI3_FACTOR = math.sqrt(1 + math.log(131072 / 4096) / math.log(4096))


def _phi3(name: str) -> Array:
    """Frequencies divided by the long or the short factors of its config."""
    config = json.loads((CONFIGS / "phi-3-mini-128k.json").read_text())
    return inverse_frequencies(1e4, 48, 96) / np.array(config["rope_scaling"][f"{name}_factor"])


def _rotated(channels: int, rotate: Callable[[Array], Array], positions: Array = FAR) -> dict[str, Array]:
    x = query(len(positions), channels)
    return {"positions": positions, "x": x, "rotated": rotate(x)}


def _on_axes(theta: Array, first: Array, second: Array | None = None) -> dict[str, Array]:
    """Half pairs whose channels rotate by the positions on these axes, times theta."""
    axes = (first, first if second is None else second)
    at, P = GRID[: int(np.max(axes)) + 1], len(theta)
    x = query(at.shape[1], 2 * P)
    near, far = (halves(x, at[axis].T * theta, P) for axis in axes)
    return {"positions": at, "x": x, "rotated": np.concatenate((near[:, :P], far[:, P:]), -1)}


def codes(
    angles: Array, first: Callable[[Array], Array] = np.sin, second: Callable[[Array], Array] = np.cos
) -> Array:
    return np.stack((first(angles), second(angles)), -1).reshape(len(angles), -1)


def _bias(slopes: Array, tokens: int = 12) -> dict[str, Array]:
    at = np.arange(float(tokens))
    return {"bias": slopes[:, None, None] * (at[None] - at[:, None])}


def _series(heads: int, first: int = 1) -> Array:
    """2^(−8i/n), in float32."""
    return (2.0 ** (-8 * np.arange(first, heads + first) / heads)).astype(np.float32)


TWELVE = np.concatenate((_series(8), _series(16)[:8:2]))


def _table(angles: Array, positions: Array) -> dict[str, Array]:
    both = torch.from_numpy(angles).tile(2)
    return {"positions": positions, "cos": both.cos().numpy(), "sin": both.sin().numpy()}


def _by_a_table_in_float16(x: Array) -> Array:
    angles = FAR[:, None] * MISTRAL  # in float64: float32 rounds some to the next number of float16
    cos, sin = (turn(angles).astype(np.float16).astype(np.float32) for turn in (np.cos, np.sin))
    a, b = x[:, :64], x[:, 64:]
    return np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)


def _over_192() -> Array:
    plain = inverse_frequencies(1e4, 32, 64)
    return inverse_frequencies(1e4, 32, 192) * yarn(plain, 1e4, 40.0, 4096, 32, 1, True) / plain


def _ramp(channels: int, fast: float, slow: float) -> Array:
    """DeepSeek's code with its ramp over these channels and between these numbers of turns."""
    low, high = (channels * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(1e4)) for turns in (fast, slow))
    smooth = 1 - np.clip((np.arange(32) - math.floor(low)) / (math.ceil(high) - math.floor(low)), 0, 1)
    plain = inverse_frequencies(1e4, 32, 64)
    return plain / 40 * (1 - smooth) + plain * smooth


PLANTS = (
    Plant("pythia", "pythia", lambda: _rotated(128, lambda x: halves(x, angles32(FAR, PYTHIA), 16)), ()),
    Plant(
        "pythia_over_the_head",
        "pythia",
        lambda: _rotated(128, lambda x: halves(x, angles32(FAR, inverse_frequencies(1e4, 16, 128)), 16)),
        (r"exponent is divided by 128 instead of 32",),
    ),
    Plant(
        "pythia_all_channels",
        "pythia",
        lambda: _rotated(128, lambda x: halves(x, angles32(FAR, MISTRAL), 64)),
        (r"rotates 128 of 128 channels instead of 32",),
    ),
    Plant("gpt_j", "gpt_j", lambda: _rotated(256, lambda x: neighbours(x, angles32(FAR, GPT_J))), ()),
    Plant(
        "gpt_j_in_halves",
        "gpt_j",
        lambda: _rotated(256, lambda x: halves(x, angles32(FAR, GPT_J), 32)),
        (r"\(i, i\+32\) instead of \(2i, 2i\+1\)",),
    ),
    Plant(
        "gpt_j_positions_in_bfloat16",
        "gpt_j",
        lambda: _rotated(256, lambda x: neighbours(x, angles32(bf16(FAR), GPT_J))),
        (r"positions are rounded to bfloat16",),
    ),
    Plant(
        "gemma3",
        "gemma3 full_attention",
        lambda: _rotated(256, lambda x: halves(x, angles32(FAR, GEMMA_FAR), 128)),
        (),
    ),
    Plant(
        "gemma3_far_without_its_scaling",
        "gemma3 full_attention",
        lambda: _rotated(256, lambda x: halves(x, angles32(FAR, 8 * GEMMA_FAR), 128)),
        (r"omits the model's linear\(factor=8\)",),
    ),
    Plant(
        "gemma3_far_scaled_twice",
        "gemma3 full_attention",
        lambda: {"inv_freq": (GEMMA_FAR / 8).astype(np.float32)},
        (r"applies linear\(factor=8\) twice",),
    ),
    Plant(
        "gemma3_near_scaled_too",
        "gemma3 sliding_attention",
        lambda: {"inv_freq": (GEMMA_NEAR / 8).astype(np.float32)},
        (r"linear\(factor=8\)|divided by 8",),
    ),
    Plant(
        "gemma3_near_by_the_far_base",
        "gemma3 sliding_attention",
        lambda: _rotated(256, lambda x: halves(x, angles32(FAR, 8 * GEMMA_FAR), 128)),
        (r"base is 1000000 instead of 10000",),
    ),
    Plant(
        "qwen_yarn",
        "qwen_yarn",
        lambda: _rotated(128, lambda x: halves(x, angles32(FAR, QWEN), 64, QWEN_FACTOR)),
        (),
    ),
    Plant(
        "qwen_yarn_as_linear",
        "qwen_yarn",
        lambda: _rotated(
            128, lambda x: halves(x, angles32(FAR, inverse_frequencies(1e6, 64, 128) / 4), 64, QWEN_FACTOR)
        ),
        (r"linear\(factor=4\)|omits.*divided by 4",),
    ),
    Plant(
        "qwen_yarn_factor_in_natural_units",
        "qwen_yarn",
        lambda: _rotated(128, lambda x: halves(x, angles32(FAR, QWEN), 64, math.log(4.0) + 1)),
        (r"factor is 2\.38",),
    ),
    Plant(
        "qwen_yarn_ramp_the_wrong_way",
        "qwen_yarn",
        lambda: {"inv_freq": (inverse_frequencies(1e6, 64, 128) * 1.25 - QWEN).astype(np.float32)},
        (r"ramp",),
    ),
    Plant(
        "mistral_restarts_at_its_window",
        "mistral",
        lambda: _rotated(128, lambda x: halves(x, angles32(FAR % 4096, MISTRAL), 64)),
        (r"restart every 4,096",),
    ),
    Plant(
        "mistral_restarts_at_no_power_of_two",
        "mistral",
        lambda: _rotated(128, lambda x: halves(x, angles32(FAR % 3000, MISTRAL), 64)),
        (r"restart every 3,000",),
    ),
    Plant(
        "mistral_table_of_5000_rows",
        "mistral",
        lambda: _rotated(128, lambda x: halves(x, angles32(np.minimum(FAR, 4999), MISTRAL), 64)),
        (r"clamped at 4,999",),
    ),
    Plant(
        "mistral_neighbours_from_one_at_many_positions",
        "mistral",
        lambda: _rotated(128, lambda x: neighbours(x, angles32(MANY + 1, MISTRAL)), MANY),
        (r"\(2i, 2i\+1\) instead of \(i, i\+64\)", r"off by \+1"),
    ),
    Plant(
        "phi3_long",
        "phi3",
        lambda: _rotated(96, lambda x: halves(x, angles32(FAR, _phi3("long")), 48, PHI3_FACTOR)),
        (),
    ),
    Plant(  # its inputs are shorter than 4,096 tokens
        "phi3_short_factors_right",
        "phi3",
        lambda: _rotated(96, lambda x: halves(x, angles32(MANY, _phi3("short")), 48, PHI3_FACTOR), MANY),
        (),
    ),
    Plant("phi3_first_frequencies_right", "phi3", lambda: {"inv_freq": _phi3("short").astype(np.float32)}, ()),
    Plant(
        "phi3_short_factors_in_a_long_context",
        "phi3",
        lambda: _rotated(96, lambda x: halves(x, angles32(FAR, _phi3("short")), 48, PHI3_FACTOR)),
        (r"LongRoPE's factors for another length: 1\.05, 1\.05",),
    ),
    Plant(
        "llama3_factors_swapped_in_the_blend",
        "llama3_1",
        lambda: {"inv_freq": np.where((L3 > L3_PLAIN / 7.99) & (L3 < L3_PLAIN), L3_PLAIN * 1.125 - L3, L3)},
        (r"blend between low_freq_factor and high_freq_factor is reversed",),
    ),
    Plant(
        "llama3_factors_swapped",  # in the code of transformers, pairs below the higher one are then divided
        "llama3_1",
        lambda: {"inv_freq": np.where(8192 * L3_PLAIN / (2 * np.pi) < 4, L3_PLAIN / 8, L3_PLAIN)},
        (r"low_freq_factor is 4\.0 instead of 1\.0",),
    ),
    Plant(
        "deepseek_exponent_over_the_whole_head",  # the ramp is still over 64 channels
        "deepseek_v3",
        lambda: _rotated(64, lambda x: neighbours(x, angles32(FAR, _over_192()))),
        (r"exponent is divided by 192 instead of 64", r"ramp is still computed over the channels that rotate"),
    ),
    Plant(
        "deepseek_ramp_over_the_channels_without_rotation",
        "deepseek_v3",
        lambda: _rotated(64, lambda x: neighbours(x, angles32(FAR, _ramp(128, 32, 1)))),
        (r"ramp is computed over twice as many channels as rotate",),
    ),
    Plant(
        "deepseek_betas_swapped",
        "deepseek_v3",
        lambda: _rotated(64, lambda x: neighbours(x, angles32(FAR, _ramp(64, 1, 32)))),
        (r"its beta_fast and beta_slow are swapped",),
    ),
    Plant(
        "gemma3_far_multiplied",
        "gemma3 full_attention",
        lambda: _rotated(256, lambda x: halves(x, angles32(FAR, 64 * GEMMA_FAR), 128)),
        (r"linear\(factor=8\) is inverted",),
    ),
    Plant(
        "gpt_oss_divided_by_its_factor",
        "gpt_oss",
        lambda: _rotated(64, lambda x: halves(x, angles32(FAR, OSS.theta), 32, 1 / OSS.factor)),
        (r"attention factor is 0\.742626 instead of 1\.34657 \(inverted\)",),
    ),
    Plant(
        "phi3_without_factors",
        "phi3",
        lambda: _rotated(96, lambda x: halves(x, angles32(FAR, inverse_frequencies(1e4, 48, 96)), 48)),
        (r"^omits the model's LongRoPE scaling, and its attention factor is 1 instead",),
    ),
    Plant(
        "mistral_positions_in_float16",  # 70,000 overflows
        "mistral",
        lambda: _table(angles32(torch.tensor([*FAR, 70_000]).half().numpy(), MISTRAL), np.append(FAR, 70_000)),
        (r"^its positions are rounded to float16",),
    ),
    Plant(
        "mistral_table_in_float16",
        "mistral",
        lambda: _rotated(128, _by_a_table_in_float16),
        (r"^its cos and sin are rounded to float16",),
    ),
    Plant(
        "mistral_turns",
        "mistral",
        lambda: _rotated(128, lambda x: halves(x, angles32(FAR, MISTRAL * 2 * np.pi), 64)),
        (r"in turns",),
    ),
    Plant(
        "mistral_degrees",
        "mistral",
        lambda: _rotated(128, lambda x: halves(x, angles32(FAR, MISTRAL * np.pi / 180), 64)),
        (r"in degrees",),
    ),
    Plant(
        "mistral_float16_arithmetic",
        "mistral",
        lambda: _rotated(128, lambda x: halves(x, angles32(FAR, MISTRAL.astype(np.float16)), 64)),
        (r"frequencies are rounded to float16",),
    ),
    Plant(
        "mistral_sine_and_cosine_swapped",
        "mistral",
        lambda: {
            "positions": FAR,
            "cos": np.sin(angles32(FAR, MISTRAL)),
            "sin": np.cos(angles32(FAR, MISTRAL)),
        },
        (r"cos and sin are swapped",),
    ),
    Plant(
        "mistral_frequencies_in_the_reverse_order",
        "mistral",
        lambda: {"inv_freq": MISTRAL[::-1].astype(np.float32).copy()},
        (r"reverse order",),
    ),
    Plant(
        "mistral_minus_left_out",
        "mistral",
        lambda: {"inv_freq": (1 / MISTRAL).astype(np.float32)},
        (r"its exponent lacks the minus sign",),
    ),
    Plant(
        "mistral_index_from_one",
        "mistral",
        lambda: {"inv_freq": inverse_frequencies(1e4, 65, 128)[1:].astype(np.float32)},
        (r"off by one pair",),
    ),
    Plant(
        "mistral_exponent_without_the_two",
        "mistral",
        lambda: {"inv_freq": inverse_frequencies(1e4, 64, 256).astype(np.float32)},
        (r"by 256 instead of 128",),
    ),
    Plant(
        "mistral_second_half_with_the_wrong_sign",
        "mistral",
        lambda: _rotated(128, _reflected),
        (r"lacks its minus sign",),
    ),
    Plant(
        "smollm3_other_base",
        "smollm3",
        lambda: _rotated(128, lambda x: halves(x, angles32(TEXT, inverse_frequencies(2e6, 64, 128)), 64), TEXT),
        (r"base is 2000000 instead of 5000000",),
    ),
    Plant(
        "mistral_as_llama3",
        "mistral",
        lambda: _rotated(128, lambda x: halves(x, angles32(FAR, llama3(MISTRAL, 8.0, 1.0, 4.0, 8192)), 64)),
        (r"llama3",),
    ),
    Plant(
        "qwen_betas_swapped_in_ggml",
        "qwen_yarn",
        lambda: _rotated(
            128,
            lambda x: halves(
                x,
                angles32(FAR, yarn(inverse_frequencies(1e6, 64, 128), 1e6, 4.0, 32768, 1, 1, True)),
                64,
                QWEN_FACTOR,
            ),
        ),
        (r"^its beta_fast and beta_slow are equal or swapped: its ramp is a step",),
    ),
    Plant(
        "qwen_sections_doubled",
        "qwen2_vl",
        lambda: _on_axes(inverse_frequencies(1e6, 64, 128), *np.repeat((0, 1, 2), (32, 48, 48)).reshape(2, 64)),
        (r"^its sections are doubled, so that the two channels of a pair belong to different axes;",),
    ),
    Plant(
        "pixtral_right",
        "pixtral",
        lambda: _on_axes(np.concatenate((PIXTRAL[::2], PIXTRAL[1::2])), np.repeat((0, 1), 16)),
        (),
    ),
    Plant(
        "pixtral_first_frequencies_twice",
        "pixtral",
        lambda: _on_axes(np.tile(PIXTRAL[:16], 2), np.repeat((0, 1), 16)),
        (r"^its pairs have the same first frequencies for each axis instead of one list",),
    ),
    Plant(
        "pixtral_a_list_for_each_axis",
        "pixtral",
        lambda: _on_axes(np.tile(PIXTRAL[::2], 2), np.repeat((0, 1), 16)),
        (r"^its pairs have a list of frequencies for each axis instead of one list",),
    ),
    Plant("bloom_rewards_distance", "bloom", lambda: _bias(-(2.0 ** -(np.arange(1.0, 33) / 4))), (r"sign",)),
    Plant(
        "bloom_divided_with_the_scores",
        "bloom",
        lambda: _bias(2.0 ** -(np.arange(1.0, 33) / 4) / math.sqrt(128)),
        (r"multiplied by 0\.0883883",),
    ),
    Plant("bloom_in_one_row", "bloom", lambda: {"bias": np.array(_series(32)[:, None, None] * KEYS[:, :1])}, ()),
    Plant(
        "codes_at_positions", "sinusoidal", lambda: {"positions": np.arange(5, 60), "table": codes(CODES[5:])}, ()
    ),
    Plant("bloom_by_key_positions", "bloom", lambda: {"bias": np.array(_series(32)[:, None, None] * KEYS)}, ()),
    Plant(
        "bloom_off_by_one_head", "bloom", lambda: {"slopes": _series(32, 0)}, (r"^its slopes are off by one head",)
    ),
    Plant(
        "mpt_by_blooms_slopes", "mpt", lambda: {"slopes": _series(32)}, (r"^the exponents of its slopes are half",)
    ),
    Plant("bloom_linear_slopes", "bloom", lambda: {"slopes": np.arange(1, 33) / 32}, (r"^its slopes are h/n",)),
    Plant(
        "mistral_added_rotation",
        "mistral",
        lambda: _rotated(128, lambda x: x + halves(x, angles32(FAR, MISTRAL), 64)),
        (r"^the rotated vectors are added to the vectors themselves; ",),
    ),
    Plant(
        "qwen_sections_of_nobody",
        "qwen2_vl",
        lambda: _on_axes(inverse_frequencies(1e6, 64, 128), np.repeat((0, 1, 2), (23, 22, 19))),
        (r"^nothing .*; positions that are equal on all axes agree: check the sections and the order of",),
    ),
    Plant("alibi_sorted", "alibi", lambda: {"slopes": np.sort(TWELVE)[::-1].copy()}, (r"slopes are sorted",)),
    Plant("alibi_last_heads_first", "alibi", lambda: {"slopes": np.roll(TWELVE, 4)}, (r"come first",)),
    Plant("alibi_of_sixteen_heads", "alibi", lambda: {"slopes": _series(16)[:12]}, (r"next power of two",)),
    Plant(
        "alibi_every_second_slope_from_the_wrong_start",
        "alibi",
        lambda: {"slopes": np.concatenate((_series(8), _series(16)[1:8:2]))},
        (r"repeat the slopes of the first heads, as with \[1::2\] instead of \[0::2\]",),
    ),
    Plant(
        "llama31_frequencies_in_bfloat16",
        "llama3_1",
        lambda: {"inv_freq": bf16(L3)},
        (r"^its frequencies are rounded to bfloat16, 16 bits; this",),
    ),
    *(
        Plant(
            f"gptoss_factor_on_{name}_alone",
            "gpt_oss",
            lambda name=name: (table := _table(FAR[:, None] * OSS.theta, FAR)) | {name: OSS.factor * table[name]},
            (rf"^only {name} is multiplied by the attention factor; this",),
        )
        for name in ("cos", "sin")
    ),
    Plant(
        "codes_cosine_first_in_blocks",
        "sinusoidal",
        lambda: {"table": np.concatenate((np.cos(CODES), np.sin(CODES)), -1)},
        (r"^sine and cosine are swapped; .*; accepted: sines and cosines are in two blocks",),
    ),
    Plant(
        "llama31_cos_repeated_and_sin_tiled",
        "llama3_1",
        lambda: {
            "positions": FAR,
            "cos": np.cos(FAR[:, None] * L3).repeat(2, -1),
            "sin": np.tile(np.sin(FAR[:, None] * L3), 2),
        },
        (r"columns repeated \(0, 0, 1, 1, …\), as for interleaved pairs in cos, and columns tiled .* in sin: ",),
    ),
    *(
        Plant(name, model, lambda theta=theta: {"inv_freq": theta}, (f"^{says}",))
        for name, model, theta, says in (
            (
                "llama3_without_blend",
                "llama3_1",
                np.where(L3_PLAIN * 4096 / np.pi < 1, L3_PLAIN / 8, L3_PLAIN),
                r"its high_freq_factor is 1\.0 instead of 4\.0, as without the smooth blend between them, or ",
            ),
            (
                "llama3_another_low_factor",
                "llama3_1",
                llama3(L3_PLAIN, 8.0, 2.0, 4.0, 8192),
                r"its low_freq_factor is 2\.0 instead of 1\.0; ",
            ),
            (
                "llama3_wavelengths_without_2_pi",
                "llama3_1",
                llama3(L3_PLAIN, 8.0, 1.0, 4.0, 8192 * 2 * np.pi),
                r"its wavelengths lack the factor 2π; ",
            ),
            (
                "llama3_constants_of_llama3",
                "rotary(base=500000,pairing=half,scaling=llama3(16,8192,low_freq_factor=1,high_freq_factor=1))",
                llama3(L3_PLAIN, 16.0, 1.0, 4.0, 8192),
                r"its high_freq_factor is 4\.0 instead of 1; ",
            ),
            (
                "llama3_factor_alone",
                "rotary(base=500000,pairing=half,scaling=llama3(16,8192,low_freq_factor=1,high_freq_factor=1))",
                np.where(L3_PLAIN * 4096 / np.pi < 1, L3_PLAIN / 8, L3_PLAIN),
                r"its factor is 8\.0 instead of 16; ",
            ),
            (
                "qwen_original_length_of_its_config_divided",
                "qwen_yarn",
                yarn(inverse_frequencies(1e6, 64, 128), 1e6, 4.0, 8192, 32, 1, True),
                r"its original_length is 8192 instead of 32768; ",
            ),
            (
                "qwen_blended_wavelengths",
                "qwen_yarn",
                1
                / (
                    1 / inverse_frequencies(1e6, 64, 128)
                    + 4 * (inverse_frequencies(1e6, 64, 128) - QWEN) / inverse_frequencies(1e6, 64, 128) ** 2
                ),
                r"its ramp blends wavelengths instead of",
            ),
            (
                "gemma4_sliding_base_over_the_turning_channels",
                "gemma4 full_attention",
                np.pad(inverse_frequencies(1e4, 64, 128), (0, 192)),
                "its exponent is divided by 128 instead of 512, and its base is 10000 instead of 1000000; ",
            ),
            (
                "gemma4_still_pairs_first",
                "gemma4 full_attention",
                np.pad(inverse_frequencies(1e6, 64, 512), (192, 0)),
                "its pairs with frequency 0 come before the pairs that rotate, instead of after them; ",
            ),
            ("llama31_zeros", "llama3_1", np.zeros(64), "nothing .* at pair 0; the port's numbers are all zero$"),
            (
                "llama31_nan",
                "llama3_1",
                np.full(64, np.nan),
                "nothing .*; some of the port's numbers are not finite$",
            ),
        )
    ),
    Plant(
        "phi3_factors_reversed",
        "phi3",
        lambda: {
            "inv_freq": inverse_frequencies(1e4, 48, 96) * (_phi3("short") * 1e4 ** (np.arange(48) / 48))[::-1]
        },
        ("^its LongRoPE factors are in the reverse order; ",),
    ),
    Plant(
        "llama31_products_exchanged",
        "llama3_1",
        lambda: _rotated(
            128,
            lambda x: np.concatenate(
                (halves(x, FAR[:, None] * L3, 64)[:, :64], halves(x, np.pi / 2 - FAR[:, None] * L3, 64)[:, 64:]), -1
            ),
        ),
        ("^cos and sin are swapped in the second channel of each pair: b·sin \\+ a·cos; ",),
    ),
    Plant(
        "qwen2vl_equal_sections",
        "qwen2_vl",
        lambda: _on_axes(inverse_frequencies(1e6, 64, 128), np.repeat((0, 1, 2), (22, 21, 21))),
        ("^its pairs use 3 axes, in chunked sections of 22, 21, 21 instead of",),
    ),
    Plant(
        "llama31_complex", "llama3_1", lambda: {"positions": FAR, "freqs_cis": np.exp(1j * FAR[:, None] * L3)}, ()
    ),
    Plant(
        "whisper_divided_by_half_minus_one",
        "sinusoidal",
        lambda: {"table": codes(np.arange(60.0)[:, None] * inverse_frequencies(1e4, 32, 62))},
        (r"2i/62.*2i/64",),
    ),
    Plant(
        "codes_cosine_first",
        "sinusoidal",
        lambda: {"table": codes(np.arange(60.0)[:, None] * inverse_frequencies(1e4, 32, 64), np.cos, np.sin)},
        (r"sine and cosine are swapped",),
    ),
)
"""Of each the kind and the value, as whoever wrote it expected them before the first run."""


def _reflected(x: Array) -> Array:
    """(a·cos + b·sin, b·cos + a·sin): `rotate_half` without its minus."""
    angles = angles32(FAR, MISTRAL)
    cos, sin, a, b = np.cos(angles), np.sin(angles), x[:, :64], x[:, 64:]
    return np.concatenate((a * cos + b * sin, b * cos + a * sin), -1)
