"""Ten more wrong ports, written after the search and before it was made smaller, to see that it was not fitted."""

import numpy as np

from integrations.doctor.models import GPT_OSS_THETA, LAYERS, inverse_frequencies, llama3, yarn
from integrations.doctor.plants_other_models import L3, L3_PLAIN, codes
from integrations.doctor.plants_porters import (
    GRID,
    TEXT,
    Plant,
    angles32,
    frequencies,
    neighbours,
    rotated,
    turned,
)

PLANTS = (
    turned(
        "llama_base_of_nobody",
        "llama3_1",
        angles32(TEXT, llama3(inverse_frequencies(3e5, 64, 128), 8.0, 1.0, 4.0, 8192)),
        64,
        r"base is 300000 instead of 500000",
    ),
    turned("llama_padding_of_five_counted", "llama3_1", angles32(TEXT + 5, L3), 64, r"off by \+5"),
    frequencies(
        "llama_blend_of_another_length",
        "llama3_1",
        llama3(L3_PLAIN, 8.0, 1.0, 4.0, 131072),
        r"131,?072",
        r"8,?192",
    ),
    turned("llama_table_of_2048_rows", "llama3_1", angles32(np.minimum(TEXT, 2047), L3), 64, r"clamped at 2,047"),
    turned("llama_cos_and_sin_halved", "llama3_1", angles32(TEXT, L3), 64, r"factor is 0\.5 ", factor=0.5),
    frequencies(
        "gpt_oss_ramp_made_whole",
        "gpt_oss",
        yarn(GPT_OSS_THETA, 150_000.0, 32.0, 4096, 32, 1, True),
        r"truncate|whole|rounded",
    ),
    Plant(
        "deepseek_angles_negated",
        "deepseek_v3",
        lambda: rotated("deepseek_v3", lambda x: neighbours(x, -angles32(TEXT, LAYERS["deepseek_v3"].theta))),
        (r"backwards",),
    ),
    Plant(
        "qwen_time_and_width_swapped",
        "qwen2_vl",
        lambda: rotated("qwen2_vl", lambda x: LAYERS["qwen2_vl"].rotate(x, GRID[[2, 1, 0]]), GRID),
        (r"\(2, 1, 0\)|axis 2.*axis 0",),
    ),
    Plant(
        "alibi_slopes_in_base_two",
        "alibi",
        lambda: {"slopes": 2.0 ** -np.arange(1.0, 9.0) / np.log(2)},
        (r"multiplied by 1\.442",),
    ),
    Plant(
        "codes_doubled_index",
        "sinusoidal",
        lambda: {"table": codes(np.arange(50.0)[:, None] * inverse_frequencies(1e4, 32, 32))},
        (r"2i/32.*2i/64",),
    ),
)
"""Of each the kind and the value, as whoever wrote it expected them before the first run."""
