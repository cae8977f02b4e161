"""Models whose positions have three axes: sections are read, written back, and turned by in a patched model."""

from typing import Any

import pytest
import torch

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import read, write
from posenc.scaling import YaRN
from support.small_models import answers, check_swapped, other, own, small

SIZES = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 64}
ROPE = {"rope_type": "default", "rope_theta": 1e6}


def config(**more: Any) -> dict[str, Any]:
    return {"model_type": "qwen2_vl_text", **SIZES, "rope_parameters": {**ROPE, **more}}


OLDER = {"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [20, 22, 22]}}


@pytest.mark.parametrize(
    ("given", "axes"),
    [
        (config(mrope_section=[20, 22, 22]), "chunked(20, 22, 22)"),
        ({"model_type": "qwen2_vl_text", **SIZES, **OLDER}, "chunked(20, 22, 22)"),
        (config(), "chunked(16, 24, 24)"),  # those of the code
    ],
)
def test_sections_are_read_as_axes(given: dict[str, Any], axes: str) -> None:
    assert str(read(given).rotary.get("axes")) == axes


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ([16, 48], "mrope_section=\\[16, 48\\] must have 3 entries"),
        ([16, 24, 0], "mrope_section=\\[16, 24, 0\\] must be a list in which each entry is a whole number from 1"),
        ([16, 24, 25], "mrope_section=\\[16, 24, 25\\] has 65 pairs, but 128 channels of a head rotate"),
    ],
)
def test_sections_that_cannot_be_are_refused(section: list[int], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read(config(mrope_section=section))


def test_sections_are_written_beside_another_scaling() -> None:
    positions = read(config(mrope_section=[16, 24, 24]))
    written = write(positions, YaRN(4.0, 64))
    assert written["rope_parameters"]["mrope_section"] == [16, 24, 24]
    assert read(written).rotary.get("axes") == positions.rotary.get("axes")


def test_a_retriever_is_read_by_the_model_around_its_text() -> None:
    inner = {"model_type": "qwen2_vl", "text_config": config()}
    assert read({"model_type": "colqwen2", "vlm_config": inner}).model_type == "qwen2_vl_text"
    with pytest.raises(InvalidArgument, match=r"rope_theta=5\.0 is outside"):
        read({"model_type": "colqwen2", "rope_theta": 5.0, "vlm_config": inner})


@pytest.mark.usefixtures("recent_transformers")
@pytest.mark.parametrize("family", ["qwen2_vl_text", "qwen3_vl_text"])
def test_a_patched_model_turns_by_three_rows_of_position_ids(family: str) -> None:
    model = small(family)
    ids = torch.randint(4, 60, (2, 12), generator=torch.Generator().manual_seed(3))
    rows = torch.randint(0, 40, (3, 2, 12), generator=torch.Generator().manual_seed(4))
    encodings = own(model, 64)
    check_swapped(model, encodings, other(encodings), lambda: answers(model, input_ids=ids, position_ids=rows))
