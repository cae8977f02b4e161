"""What is written is what was meant: transformers turns a written config's layers as we do, in both spellings."""

import json
from importlib.util import find_spec

import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import patched, read, write
from posenc.integrations.huggingface.model_positions import ModelPositions, softmax_factor
from posenc.integrations.programs import transformers
from posenc.scaling import (
    NTK,
    Default,
    DynamicNTK,
    LengthScaling,
    Linear,
    Llama3,
    LongRoPE,
    PerPair,
    Proportional,
    Scaling,
    YaRN,
)
from support.fuzzing import CONFIGS, from_json, rotations
from support.tiny_models import MODELS, logits, tiny, tokens

SCALINGS = [
    None,
    Default(),
    Linear(4.0),
    NTK(4.0),
    DynamicNTK(2.0, 64),
    YaRN(4.0, 64),
    YaRN(4.0, 64, truncate=False),
    Llama3(8.0, 64),
    Proportional(0.5),
    PerPair((2.0, 1.5)),
]
OF_LLAMA = [
    NTK(4.0, form="fixed"),
    NTK(4.0, form="abf"),
    YaRN(4.0, 64, ramp="rotations"),
    LongRoPE((1.0,) * 8, (2.0,) * 8, 64, 4.0),
]
"""Further ones, which are asked of a Llama alone."""
STILL = ("gptj", "bloom", "mpt", "gpt2", "bert")
ALIKE = ("smollm2", "mistral", "qwen2", "qwen3", "olmo2", "starcoder2", "granite", "cohere", "gemma")
"""Written as llama's are; ``make slow`` asks them too."""
TURNING = [
    pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in MODELS if name not in STILL
]


NO_PLACE = ("use spelling='v5'", "cannot express", "do not rotate")
"""The reasons for which a scaling has no place in a config."""


@pytest.mark.parametrize("family", TURNING)
def test_every_schedule_in_every_family_and_spelling(family: str) -> None:
    """Bit for bit where transformers has the type, else within float32 of a base or of one factor per pair."""
    positions = read(tiny(family).config)
    pairs = positions.rotary.get("rotary_dim") // 2
    for scaling in (*SCALINGS, *(OF_LLAMA if family == "llama-2" else ())):
        if isinstance(scaling, PerPair):
            scaling = PerPair(tuple(1 + i / pairs for i in range(pairs)))
        for spelling in ("v5", "v4"):
            try:
                written = write(positions, scaling, spelling=spelling, max_length=_length(positions, scaling))
            except InvalidArgument as error:
                if not any(reason in str(error) for reason in NO_PLACE):
                    raise
                continue
            loaded = from_json(json.loads(json.dumps(written)))
            wanted = positions if scaling is None else positions.with_scaling(scaling)
            again = read(loaded)
            assert again.layer_types == positions.layer_types
            if scaling is None:
                lengths = (positions.original_length, positions.max_length)
                assert (again.original_length, again.max_length) == lengths
            found = list(rotations(loaded, wanted))
            assert len(found) == len(positions.rotary_recipes)
            for theirs, ours in found:
                torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-5, msg=f"{scaling} {spelling}")


def _length(positions: ModelPositions, scaling: Scaling | LengthScaling | None) -> int | None:
    """Stated for scalings that reach no further than a model was pretrained, whatever it was released for."""
    return positions.original_length if isinstance(scaling, DynamicNTK | Proportional | PerPair) else None


SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 64, "truncate": False}


def test_null_is_not_written_where_it_means_something() -> None:
    """A gpt-oss without rope_scaling is scaled by 32 in transformers."""
    oss = read({"model_type": "gpt_oss", "head_dim": 16, "rope_theta": 1.5e5, "rope_scaling": YARN, **SIZES})
    for scaling in (Default(), NTK(4.0)):
        written = write(oss, scaling, spelling="v4")
        assert written["rope_scaling"] == {"rope_type": "default"}
        assert read(written).rotary.get("scaling") == read(from_json(written)).rotary.get("scaling") == Default()


@pytest.mark.parametrize("model_type", ["dinov3_vit", "pixtral"])
def test_a_tower_is_written_in_the_older_spelling(model_type: str) -> None:
    config = from_json({"model_type": model_type}).to_dict()
    assert read(write(read(config), spelling="v4")).recipes == read(config).recipes


def test_the_language_model_of_a_composite_is_written_by_its_own_name() -> None:
    inner = {"head_dim": 16, "rope_theta": 1e6, **SIZES}
    written = write(read({"model_type": "gemma3", "text_config": inner}))
    assert written["model_type"] == "gemma3_text"
    assert from_json(written).hidden_size == 64


def test_a_ramp_that_is_not_rounded_is_written_by_pair_under_layer_types() -> None:
    gemma = read({"model_type": "gemma3_text", "head_dim": 64, "rope_theta": 1e6, **SIZES, "num_hidden_layers": 6})
    entry = write(gemma, YaRN(4.0, 64, truncate=False))["rope_parameters"]["full_attention"]
    assert entry["rope_type"] == "longrope"
    given = write(gemma, YaRN(4.0, 64))
    given["rope_parameters"]["full_attention"]["truncate"] = False
    assert any(
        "ignores truncate=false under 'full_attention'" in note
        for note in {*read(given).assumed} & {*transformers.read(given).notes}
    )
    assert read(given).rotary.get("scaling") == YaRN(4.0, 64)


def test_what_has_no_place_is_refused() -> None:
    phi = {"model_type": "phi3", "rope_theta": 1e4, "original_max_position_embeddings": 64, **SIZES}
    half = {"model_type": "phi", "rope_theta": 1e4, "partial_rotary_factor": 0.5, **SIZES}
    for config, scaling, message in (
        (phi, Proportional(0.5, 4.0), "has pairs that do not rotate, which longrope cannot express"),
        (phi, 4, "scaling is 4; expected a scaling"),
        *[
            (
                from_json({"model_type": "gemma4_text"}),
                YaRN(2.0, 64, truncate=False),
                "yarn.*truncate=False.* cannot be written for model_type 'gemma4_text', so use another",
            )
        ]
        * bool(find_spec("transformers.integrations.heterogeneity")),  # since its class reads this, it refuses it
        (half, Proportional(0.5), "partial_rotary_factor already gives the share"),
        (
            tiny("deepseek-v3").config,
            DynamicNTK(1.0, 64),
            "factor 1, with which mscale_all_dim has no effect, .* cannot express .*; use Default",
        ),
    ):
        with pytest.raises(InvalidArgument, match=message):
            write(read(config), scaling, max_length=64)


@pytest.mark.parametrize(
    "scaling",
    [None, Linear(4.0), NTK(4.0), YaRN(4.0, 64), Llama3(8.0, 64), DynamicNTK(2.0, 64), Default()],
    ids=str,
)
def test_deepseek_keeps_its_factor_on_scores(scaling: Scaling | LengthScaling | None) -> None:
    """The patched model and the model reloaded from what is written compute the same."""
    model, ids = tiny("deepseek-v3"), tokens()
    positions = read(model.config)
    assert softmax_factor(positions.rotary) > 1.8
    ours = positions if scaling is None else positions.with_scaling(scaling)
    with patched(model, ours.as_layers(48, "float32")):
        want = logits(model, ids)
    written = write(positions, scaling, max_length=_length(positions, scaling))
    assert softmax_factor(read(written).rotary) == pytest.approx(softmax_factor(positions.rotary))
    other = type(model)(from_json(json.loads(json.dumps(written)))).eval()
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(logits(other, ids), want, rtol=0, atol=1e-4 * want.abs().max().item())


def test_what_a_model_was_released_for_is_not_cut_without_a_word() -> None:
    """Llama 3.1: pretrained to 8192, tuned to 131 072 under a scaling that another one would replace."""
    positions = read(json.loads((CONFIGS / "llama-3.1-8b.json").read_text()))
    assert (positions.original_length, positions.tuned_length) == (8192, 131_072)
    for shorter in (Linear(2.0), NTK(4.0), DynamicNTK(2.0, 8192)):
        with pytest.raises(InvalidArgument, match="but the model's own Llama3 reaches 131072; pass max_length"):
            write(positions, shorter)
    assert write(positions, Linear(2.0), max_length=16_384)["max_position_embeddings"] == 16_384
    assert write(positions, YaRN(32.0, 8192))["max_position_embeddings"] == 262_144
    assert write(positions, Default())["max_position_embeddings"] == 8192  # to scale nothing is no extension
    assert write(positions, positions.rotary.get("scaling"))["max_position_embeddings"] == 131_072
    plain = read(json.loads((CONFIGS / "smollm2-135m.json").read_text()))
    assert plain.tuned_length == plain.original_length
    assert write(plain, Linear(2.0))["max_position_embeddings"] == 2 * plain.original_length
