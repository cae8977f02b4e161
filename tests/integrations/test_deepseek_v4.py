"""DeepSeek-V4: two bases, YaRN on one, and outputs rotated back, held to transformers' own code."""

import importlib
import json
from typing import Any

import pytest
import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import posenc
from integrations.test_published import PUBLISHED, layers
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import measure, read, write
from posenc.integrations.huggingface.measuring.measured import differences
from posenc.scaling import Default, YaRN
from support.small_models import answers, check_swapped, own, small

FLASH: dict[str, Any] = PUBLISHED["deepseek-ai/DeepSeek-V4-Flash"]["config"]
pytestmark = pytest.mark.skipif("deepseek_v4" not in CONFIG_MAPPING, reason="an older transformers")


def test_layers_that_compress_have_a_base_and_a_scaling_of_their_own() -> None:
    positions = read(FLASH)
    assert positions.layer_types == ("main",) * 2 + ("compress",) * 41
    main, compress = positions.recipes["main"], positions.recipes["compress"]
    assert (main.get("base"), main.get("scaling"), main.get("head_dim")) == (10_000, Default(), 64)
    assert (compress.get("base"), compress.get("head_dim")) == (160_000, 64)
    assert compress.get("scaling") == YaRN(16, 65_536, attention_factor=1.0)
    assert set(positions.windows) == {128}
    assert (positions.original_length, positions.max_length, positions.stretched) == (
        65_536,
        1_048_576,
        ("compress",),
    )
    assert any("unrotate" in note for note in positions.assumed)


@pytest.mark.parametrize("name", ["DeepSeek-V4-Flash", "DeepSeek-V4-Pro"])
def test_what_is_written_is_read_again_and_loaded(name: str) -> None:
    positions = read(PUBLISHED[f"deepseek-ai/{name}"]["config"])
    written = json.loads(json.dumps(write(positions, YaRN(32, 65_536, attention_factor=1.0))))
    longer = read(written)
    assert longer.recipes["main"] == positions.recipes["main"]
    assert longer.rotary.get("scaling").factor == 32
    assert layers(read(CONFIG_MAPPING["deepseek_v4"].from_dict(written))) == layers(longer)


def test_a_ratio_that_no_layer_has_is_refused() -> None:
    with pytest.raises(
        InvalidArgument, match=r"compress_ratios=.* must be a list in which each entry is 0, 4 or 128"
    ):
        read({**FLASH, "compress_ratios": [7] * 44})


def test_a_dictionary_without_its_share_is_refused() -> None:
    """The class writes it into both; a module whose config lost it rotates the whole head."""
    config = CONFIG_MAPPING["deepseek_v4"].from_dict({**FLASH, "rope_scaling": None})
    del config.rope_parameters["compress"]["partial_rotary_factor"]
    module = importlib.import_module("transformers.models.deepseek_v4.modeling_deepseek_v4")
    cos, _ = module.DeepseekV4RotaryEmbedding(config)(torch.zeros(1), torch.arange(3)[None], layer_type="compress")
    assert cos.shape[-1] == config.head_dim // 2
    with pytest.raises(InvalidArgument, match="partial_rotary_factor=None must be a number"):
        read(config)


def test_the_model_answers_alike_with_its_own_positions_put_in() -> None:
    """All three kinds of layers, compressed keys and the indexer among them; and as they are measured."""
    kinds = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]
    model = small("deepseek_v4", layer_types=[kinds[i % 3] for i in range(43)])
    assert differences(measure(model), read(model.config)) == []
    ids = torch.randint(4, 60, (2, 23), generator=torch.Generator().manual_seed(3))
    encodings = own(model, 64)
    others = {**encodings, "compress": encodings["main"]}
    check_swapped(model, encodings, others, lambda: answers(model, input_ids=ids))


def test_outputs_are_rotated_back_as_its_code_does() -> None:
    theirs = importlib.import_module("transformers.models.deepseek_v4.modeling_deepseek_v4")
    rope = posenc.Rotary(64, pairing="interleaved", phases="float32")
    placed, y = rope.at(posenc.positions.arange(9)), torch.randn(2, 3, 9, 512)
    cos, sin = (table.squeeze()[None] for table in rope.tables(posenc.positions.arange(9)))
    whole = theirs.apply_rotary_pos_emb(y, cos, -sin)
    ours = torch.cat((y[..., :-64], placed.unrotate(y[..., -64:])), -1)
    torch.testing.assert_close(ours, whole, rtol=0, atol=1e-6)
