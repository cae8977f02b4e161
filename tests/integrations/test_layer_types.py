"""Configs that leave ``layer_types`` out: read as transformers' class makes them, or refused, in every family."""

import copy
import json
from typing import Any

import pytest
from tools.walk_type import completed
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import measure, read, write
from posenc.integrations.huggingface.families import FAMILIES
from posenc.scaling import Default, Llama3
from support.small_models import check_read

HERE = [name for name in FAMILIES if name in CONFIG_MAPPING]


def silent(name: str, **more: Any) -> dict[str, Any]:
    """The JSON of a default config without its layer types."""
    config = completed(name, copy.deepcopy(CONFIG_MAPPING[name]().to_dict()))
    return {**{key: value for key, value in json.loads(json.dumps(config)).items() if key != "layer_types"}, **more}


@pytest.mark.parametrize("name", HERE)
def test_json_without_layer_types_is_read(name: str) -> None:
    assert read(silent(name)).layer_types


def test_where_only_some_layers_attend_only_they_turn() -> None:
    config = silent("qwen3_next", full_attention_interval=4, num_hidden_layers=8)
    assert read(config).layer_types == ("nope", "nope", "nope", "rotary") * 2
    assert any(
        note.startswith("layer_types computed by the class of transformers") for note in read(config).assumed
    )
    with pytest.raises(InvalidArgument, match="did you mean 'full_attention_interval'"):
        read(silent("qwen3_next", full_attention_intervall=4))


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        *(  # which the code does not ask for
            (name, {"sliding_window_pattern": 3}, r"unknown key .* 'sliding_window_pattern'.*remove it")
            for name in ("gemma2", "gpt_oss")
        ),
        (  # of which the class makes no layer types
            "granitemoehybrid",
            {"layers_block_type": None, "position_embedding_type": "rope"},
            "has no 'layer_types', and a default would be a guess",
        ),
    ],
)
def test_what_says_nothing_of_layer_types_is_refused(name: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read(silent(name, **more))


def test_a_json_of_which_the_class_makes_something_else_is_refused() -> None:
    """MiMo's class reads neither its pattern of windows nor the bases of its flat spelling."""
    config = silent("mimo_v2_flash", rope_theta=5e6, swa_rope_theta=1e4, partial_rotary_factor=0.334)
    del config["rope_parameters"]
    for key, value, message in (
        (
            "hybrid_layer_pattern",
            [0] * config["num_hidden_layers"],
            "hybrid_layer_pattern has no .*; replace the key",
        ),
        ("rope_theta", 1e4, "rope_theta=10000.* no effect: .*uses base 5000000.*save_pretrained"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            read({**config, key: value})


STEP: dict[str, Any] = {
    "model_type": "step3p5",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_hidden_layers": 3,
    "max_position_embeddings": 262_144,
    "sliding_window": 512,
    "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
    "rope_theta": [5e6, 1e4, 1e4],
    "partial_rotary_factors": [0.5, 1.0, 1.0],
    "yarn_only_types": ["full_attention"],
    "rope_scaling": {"rope_type": "llama3", "factor": 2.0, "original_max_position_embeddings": 131_072}
    | {"low_freq_factor": 1.0, "high_freq_factor": 32.0},
}


NEEDS_STEP = pytest.mark.skipif(
    "step3p5" not in CONFIG_MAPPING, reason="this version of transformers has no step3p5"
)


@NEEDS_STEP
def test_bases_and_shares_listed_for_every_layer_are_those_of_its_type() -> None:
    """As in the released Step 3.5, whose lists go on with the layers that predict further tokens."""
    more = {key: [*STEP[key], STEP[key][-1]] for key in ("layer_types", "rope_theta", "partial_rotary_factors")}
    for config in (STEP, {**STEP, **more, "num_nextn_predict_layers": 1}):
        full, sliding = map(read(config).recipes.get, ("full_attention", "sliding_attention"))
        assert (full.get("base"), full.get("rotary_dim"), full.get("scaling")) == (
            5e6,
            32,
            Llama3(2, 131_072, 1, 32),
        )
        assert (sliding.get("base"), sliding.get("rotary_dim"), sliding.get("scaling")) == (1e4, 64, Default())
        assert read(write(read(config))).recipes == read(config).recipes
        check_read(measure(config))


@NEEDS_STEP
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"rope_theta": [5e6, 1e4, 2e4]},
            "rope_theta must have one value for each layer, the same for all",
        ),
        ({"partial_rotary_factors": [0.5, 1.0]}, "partial_rotary_factors must have one value for each layer"),
        ({"yarn_only_types": ["sliding_attention"]}, r"yarn_only_types=\['sliding_attention'\] has no effect"),
    ],
)
def test_lists_that_the_class_of_step_reads_otherwise_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read({**STEP, **more})
