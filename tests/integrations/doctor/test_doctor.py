"""Every planted mistake is named with its value, no right port is blamed, and no random table is explained."""

import re
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from integrations.doctor import models, plants_other_models, plants_porters, plants_reader, plants_trim
from integrations.doctor.models import inverse_frequencies
from integrations.doctor.plants_porters import GRID, TEXT, Plant, bf16, query
from integrations.doctor.plants_porters import rotated as written_down
from posenc.encodings.t5 import T5
from posenc.errors import InvalidArgument
from posenc.integrations.doctor import diagnose
from posenc.integrations.doctor.doctor import expected, search
from posenc.integrations.doctor.search import Diagnosis
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.model_positions import ModelPositions
from support.places import CONFIGS

PLANTS = (*plants_porters.PLANTS, *plants_reader.PLANTS, *plants_trim.PLANTS, *plants_other_models.PLANTS)
"""Two halves, the second by somebody who had not seen the search, and what was written after it."""


@cache
def model_of(name: str) -> ModelPositions | str:
    config = models.CONFIGS.get(name)
    if name == "t5":
        return "t5(two_sided=True)"
    return name if config is None else read(CONFIGS / config if isinstance(config, str) else config)


def diagnosis(plant: Plant) -> Diagnosis:
    name, _, layer = plant.model.partition(" ")
    return diagnose(model_of(name), plant.numbers(), layer=layer or None)


@pytest.mark.parametrize(
    "plant",
    [
        *(plant for plant in PLANTS if plant.says),
        *(pytest.param(plant, marks=pytest.mark.slow) for plant in plants_reader.PAIRS),  # two mistakes at once
    ],
    ids=lambda plant: plant.name,
)
def test_a_planted_mistake_is_named(plant: Plant) -> None:
    answer = diagnosis(plant)
    assert not answer.right
    assert plant.found_in(str(answer)), answer


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if not plant.says], ids=lambda plant: plant.name)
def test_a_right_port_is_right(plant: Plant) -> None:
    answer = diagnosis(plant)
    assert answer.right, answer
    assert not answer.causes
    assert "multiplied by 1;" not in str(answer)  # is no mistake


QUOTED = [
    "deepseek_halves",
    "mistral_second_half_with_the_wrong_sign",
    "mistral_sine_and_cosine_swapped",
    "mistral_frequencies_in_the_reverse_order",
    "gemma4_prefix_pairs",
    "qwen35_whole_head_turns",
    "llama31_base_of_llama2",
    "gemma4_full_layer_by_sliding_ladder",
    "gemma4_exponent_over_what_turns",
    "llama31_plain",
    "llama3_factor_of_llama3_2",
    "deepseek_linear_for_yarn",
    "llama31_table_ends",
    "llama31_angles_in_bfloat16",
    "gptoss_without_factor",
    "gptoss_ramp_rounded",
    "llama31_counts_from_one",
    "llama_padding_of_five_counted",
    "qwen2vl_height_for_width",
    "qwen35_text_positions_alone",
    "llama31_heads_for_length",
]


@pytest.mark.slow
def test_the_page_quotes_answers() -> None:
    """Every answer in its table of symptoms is one that a planted mistake gets, word for word."""
    page = (Path(__file__).parents[3] / "docs" / "my-port-is-wrong.md").read_text()
    rows = page[page.index("| symptom") :].partition("\n\n")[0].split("\n")[2:]
    quotes = [quote for row in rows for quote in re.findall("`([^`]+)`", row.split("|")[2])]
    named = {plant.name: plant for plant in PLANTS}
    answers = [str(diagnosis(named[name])) for name in QUOTED]
    assert len(quotes) == len(QUOTED)
    assert [quote for quote in quotes if not any(quote in answer for answer in answers)] == []


@pytest.mark.parametrize("seed", [pytest.param(i, marks=[pytest.mark.slow] if i else []) for i in range(20)])
def test_a_random_table_is_not_named(seed: int) -> None:
    random = np.random.default_rng(seed)
    name = ("llama3_1", "gpt_oss", "qwen2_vl", "deepseek_v3")[seed % 4]
    layer = models.LAYERS[name]
    positions = GRID if name == "qwen2_vl" else TEXT
    x, y = random.standard_normal((2, positions.shape[-1], layer.head_dim))
    numbers = {"positions": positions, "x": x, "rotated": y}
    if seed % 5 == 0:
        numbers = {"inv_freq": np.sort(random.uniform(0, 1, len(layer.theta)))[::-1].copy()}
    answer = diagnose(model_of(name), numbers)
    assert not answer.right
    assert not answer.causes, answer
    assert "nothing that was tried" in str(answer)


@pytest.mark.parametrize("name", ["llama3_1", "gpt_oss", "deepseek_v3"])
def test_every_mistake_explains_its_own_numbers(name: str) -> None:
    """Also in 16 bits, and with another mistake; a search never rejects it early."""
    (asked,) = expected(model_of(name)).values()
    x = query(len(TEXT), models.LAYERS[name].head_dim)
    numbers = {"positions": TEXT, "x": x, "rotated": x}
    own = search(asked, numbers)
    pairs = [first | second for first, second in combinations(own.single, 2)]
    for change in (*own.single, *pairs[::89]):
        with suppress(InvalidArgument), np.errstate(all="ignore"):  # some changes do not fit this head
            rotated, _ = replace(own.right, **change).predict(own.rows[0])
            for written in (rotated, bf16(rotated)):
                port = search(asked, numbers | {"rotated": written})
                assert port.fits(change), change
                assert list(port.kind.plausible(port, [{}, change]))[-1:] == [change]


def test_frequencies_that_fall_at_once_are_not_named() -> None:
    """The exponent is divided by nothing; as over 1 channel, whose powers of the base exceed float64."""
    inv_freq = 5e5 ** -np.minimum(2.0 * np.arange(64), 40)
    assert "nothing that was tried" in str(diagnose(model_of("llama3_1"), {"inv_freq": inv_freq}))


@pytest.mark.parametrize(
    ("denominator", "says", "never"),
    [
        (
            16,
            "divided by 16 instead of 8",
            "16 of 8",
        ),  # sixteen channels that rotate give them too, and are not there
        (4, "divided by 4 instead of 8", "base"),  # the ladder runs on below 1/base
    ],
)
def test_an_exponent_over_other_channels_is_named(denominator: int, says: str, never: str) -> None:
    """Frequencies base^(−2i/denominator) of a head of 8."""
    theta = 1e4 ** (-2.0 * np.arange(4) / denominator)
    answer = str(diagnose("rotary(base=10000, pairing=half)", {"inv_freq": theta}))
    assert says in answer
    assert never not in answer


def test_what_changes_no_number_is_no_part_of_an_answer() -> None:
    """Frequencies do not say which channels rotate, nor a table of 32 pairs how many."""
    theta = inverse_frequencies(1e4, 32, 128)
    angles = TEXT[:, None] * theta
    for numbers in ({"inv_freq": theta}, {"positions": TEXT, "cos": np.cos(angles), "sin": np.sin(angles)}):
        answer = diagnose("rotary(base=10000, head_dim=128, rotary_dim=64, pairing=interleaved)", numbers)
        assert str(answer).startswith("its exponent is divided by 128 instead of 64; this reproduces")


def test_heads_may_stand_behind_the_tokens_in_a_file() -> None:
    """As (B, T, H, D) and (T, B, H, D), where T is the length of no other axis."""
    layer = models.LAYERS["llama3_1"]
    x = query(len(TEXT), 128)
    rotated = layer.rotate(x, TEXT)
    for axes in ((None, slice(None), None), (slice(None), None, None)):
        assert diagnose(model_of("llama3_1"), {"positions": TEXT, "x": x[axes], "rotated": rotated[axes]}).right


def test_pairs_that_are_written_elsewhere_than_they_are_read_are_named() -> None:
    """As in code that views neighbours as complex numbers and joins real and imaginary parts."""
    layer = models.LAYERS["llama3_1"]
    x, at = query(len(TEXT), 128), TEXT
    halves = np.concatenate((x[:, ::2], x[:, 1::2]), -1)
    turned = layer.rotate(x, at)
    dealt = np.stack((turned[:, :64], turned[:, 64:]), -1).reshape(x.shape)
    read_so = diagnose(model_of("llama3_1"), {"positions": at, "x": x, "rotated": layer.rotate(halves, at)})
    assert "rotates channels (2i, 2i+1) instead of (i, i+64)" in str(read_so)
    assert "writes a rotated pair to channels (i, i+64): scores stay right" in str(read_so)
    written_so = diagnose(model_of("llama3_1"), {"positions": at, "x": x, "rotated": dealt})
    assert str(written_so).startswith("writes a rotated pair to channels (2i, 2i+1)")


@pytest.mark.parametrize("name", ["gemma4 full_attention", "deepseek_v3"])
def test_tables_are_right_in_every_layout_that_ports_have(name: str) -> None:
    """A column a pair, or two, half a width apart or side by side; with the pairs that stand still or without."""
    model, _, layer_type = name.partition(" ")
    theta = models.LAYERS[name].theta
    for pairs in (len(theta), models.LAYERS[name].head_dim // 2):
        angles = TEXT[:, None] * np.pad(theta, (0, pairs - len(theta)))
        for laid_out, columns in (
            (angles, "one column per pair"),
            (angles[None], "one column per pair"),
            (angles.repeat(2, -1), "columns repeated (0, 0, 1, 1, …), as for interleaved pairs"),
            (np.tile(angles, 2), "columns tiled (0, 1, …, 0, 1, …), as for half pairs"),
        ):
            numbers = {"positions": TEXT, "cos": np.cos(laid_out), "sin": np.sin(laid_out)}
            answer = diagnose(model_of(model), numbers, layer=layer_type or None)
            assert answer.right
            assert f", from tables (which do not show a port's pairs) with {columns}" in str(answer)
        swapped = diagnose(
            model_of(model), numbers | {"cos": numbers["sin"], "sin": numbers["cos"]}, layer=layer_type or None
        )
        assert "cos and sin are swapped" in str(swapped)


def test_channels_of_a_pair_may_have_different_tables() -> None:
    angles = TEXT[:, None] * 1e4 ** (-np.arange(64) / 64)
    tables = {"positions": TEXT, "cos": np.cos(angles), "sin": np.sin(angles)}
    answer = diagnose("rotary(base=10000, pairing=interleaved, head_dim=64)", tables)
    assert str(answer).startswith(
        "every channel has its own frequency, but the channels of a pair should share one; "
    )


@pytest.mark.parametrize(
    ("exponent", "said"),
    [
        (128 / 126, "right; "),
        (1.0, "its base is multiplied by NTK's factor itself, without the exponent d/(d − 2); "),
    ],
)
def test_a_scaling_by_length_counts_positions_beyond_the_longest_input(exponent: float, said: str) -> None:
    """In dynamic NTK, the base grows with the input."""
    theta = inverse_frequencies(1e4 * (2 * (TEXT.max() + 1) / 2048 - 1) ** exponent, 64, 128)
    config = {
        "model_type": "llama",
        "head_dim": 128,
        "max_position_embeddings": 2048,
        "rope_theta": 10000.0,
        "rope_scaling": {"rope_type": "dynamic", "factor": 2.0},
    }
    numbers = written_down("llama3_1", lambda x: models.Layer(128, theta, 64).rotate(x, TEXT))
    answer = diagnose(read(config), numbers)
    assert answer.text.startswith(said)
    assert len(answer.causes) == (not answer.right)


@pytest.mark.parametrize(
    ("channels", "causes"),
    [
        (32, ("",)),
        (64, ("its ramp is computed over twice as many channels as rotate",)),
        (48, ("its ramp is computed over all channels of the head",)),
    ],
)
def test_a_ramp_over_other_channels_is_named(channels: int, causes: tuple[str, ...]) -> None:
    low, high = (channels * np.log(4096 / (turns * 2 * np.pi)) / (2 * np.log(1e4)) for turns in (32, 1))
    ramp = np.clip((np.arange(16) - np.floor(low)) / (np.ceil(high) - np.floor(low)), 0, 1)
    plain = inverse_frequencies(1e4, 16, 32)
    model = "rotary(base=10000, pairing=half, head_dim=48, rotary_dim=32, scaling=yarn(8, 4096))"
    answer = diagnose(model, {"inv_freq": plain * (1 - ramp) + plain / 8 * ramp})
    assert (answer.causes or ("",)) == causes
    assert answer.right == (channels == 32)


@pytest.mark.parametrize("shift", [1, -1])
def test_buckets_of_offsets_that_are_off_by_one_are_named(shift: int) -> None:
    offsets = torch.arange(-300, 301)
    buckets = T5(1, two_sided=True).bucket(offsets + shift)
    answer = diagnose("t5(two_sided=True)", {"offsets": offsets, "buckets": buckets})
    assert answer.causes == (f"its offsets are off by {shift:+d}",)


def test_what_an_alias_does_not_state_is_free_too() -> None:
    assert diagnose("rope", {"inv_freq": inverse_frequencies(5e5, 32, 64)}).right
    assert not diagnose("rope(base=10000)", {"inv_freq": inverse_frequencies(5e5, 32, 64)}).right


def test_codes_of_the_authors_spacing_are_right_where_it_is_asked_for() -> None:
    """Exponents over D − 2, as in tensor2tensor and Whisper."""
    angles = np.arange(40.0)[:, None] * inverse_frequencies(1e4, 32, 62)
    table = np.stack((np.sin(angles), np.cos(angles)), -1).reshape(40, 64)
    assert diagnose("sinusoidal(spacing=tensor2tensor)", {"table": table}).right
    assert "2i/62 instead of 2i/64" in str(diagnose("sinusoidal", {"table": table}))


def test_slopes_with_a_wrong_sign_may_have_another_mistake() -> None:
    """With 8 heads, each slope is twice the next one, so that a factor of −2 would explain these slopes too."""
    causes = ("its slopes are off by one head: they begin at 1, and its sign is wrong: far keys get larger scores",)
    assert diagnose("alibi", {"slopes": -(0.5 ** np.arange(8))}).causes == causes


def test_where_the_error_starts_is_said_of_what_nothing_explains() -> None:
    layer = models.LAYERS["llama3_1"]
    numbers = written_down("llama3_1", lambda x: layer.rotate(x, TEXT))
    numbers["rotated"][TEXT > 100] += 0.1
    answer = str(diagnose(model_of("llama3_1"), numbers))
    assert "starting at position 1,000, by" in answer
    assert "positions up to 100 agree" in answer


@pytest.mark.parametrize(
    ("model", "numbers", "layer", "message"),
    [
        (
            "llama3_1",
            {"cosine": [1.0]},
            None,
            "arrays cannot be compared; got cosine; pass positions and x and rotated, or ",
        ),
        ("llama3_1", dict.fromkeys(("cos", "sin"), np.ones((3, 64))), None, "positions and cos and sin"),
        (
            "llama3_1",
            {"positions": [0], "rotated": np.ones((1, 128))},
            None,
            "cannot be compared; got positions and rotated; pass positions and x and rotated",
        ),
        ("llama3_1", {"positions": [0], **dict.fromkeys(("x", "rotated"), np.ones((1, 64)))}, None, "128"),
        ("gemma4", {"inv_freq": np.ones(8)}, None, "layer types; pass layer as one of"),
        (
            "qwen2_vl",
            {"positions": GRID[:2], "x": query(9, 128), "rotated": query(9, 128)},
            None,
            "positions have 2 axes; pass positions on one axis, or on all 3 axes of the model",
        ),
        (
            "alibi",
            {"bias": np.zeros((8, 1, 1))},
            None,
            r"bias has shape \(8, 1, 1\); pass shape \(heads, tokens, tokens\) with two",
        ),
        ("qwen3_5", {"inv_freq": np.ones(8)}, "linear_attention", "linear_attention"),
        ("learned", {"table": np.ones((8, 8))}, None, "learned"),
    ],
)
def test_what_is_no_port_is_refused_by_name(
    model: str, numbers: dict[str, object], layer: str | None, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        diagnose(model_of(model), numbers, layer=layer)


def test_falcons_slopes_are_those_that_the_model_states() -> None:
    """Divided with the scores; a port with the paper's own is off by √D."""
    falcon = read(CONFIGS.parent / "field" / "falcon-alibi.json")
    stated = np.array(falcon.recipes[falcon.layer_types[0]].get("slopes"))
    assert diagnose(falcon, {"slopes": stated}).right
    undivided = diagnose(falcon, {"slopes": 8 * stated})
    assert not undivided.right
    assert "multiplied by 8" in str(undivided)
    with pytest.raises(InvalidArgument, match="the port has 4 heads, but the model has 8"):
        diagnose(falcon, {"slopes": stated[:4]})
