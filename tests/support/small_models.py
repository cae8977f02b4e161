"""Small random models of all families from default configs, and their positions as posenc's encodings."""

import copy
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
import transformers
from tools.walk_type import completed, merged
from torch import Tensor, nn
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.encodings.encoding import Encoding
from posenc.encodings.nope import NoPE
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import Measured, differences, measure, patched, read
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.language_model import language
from posenc.integrations.huggingface.measuring.probe import shown
from posenc.integrations.huggingface.measuring.shrink import built, shrunk

transformers.logging.set_verbosity_error()


def small(model_type: str, **more: Any) -> Any:
    """Create the base model of a type with smaller sizes, or skip the test if transformers lacks the type."""
    if model_type not in CONFIG_MAPPING:
        pytest.skip(f"this version of transformers has no {model_type}")
    config = CONFIG_MAPPING[model_type]()
    said = merged(completed(model_type, copy.deepcopy(config.to_dict())), more)
    try:
        model = built(type(config).from_dict(shrunk(said)))
        if "input_ids" not in inspect.signature(model.forward).parameters:
            shown(model)
    except Exception:  # a class may raise anything for widths that must fit others, as in CSM's codec
        model = built(type(config).from_dict(shrunk(said, widths=False)))
    for name, parameter in model.named_parameters():
        if name.endswith(".temp"):  # Zaya's keys are multiplied by it, and it starts at 0
            torch.nn.init.ones_(parameter)
    return model


def own(model: Any, length: int, phases: str = "float32") -> dict[str, Encoding]:
    """Return the model's own positions by layer type, including T5's biases."""
    positions = read(model.config)
    encodings = positions.encodings(length, phases)  # type: ignore[arg-type]
    if positions.rotary_recipes:
        return {kind: one for kind, one in encodings.items() if one.acts_on}
    tables = [module.weight for name, module in language(model).items() if name.endswith("relative_attention_bias")]
    for encoding, table in zip(encodings.values(), tables, strict=False):
        encoding.weight = nn.Parameter(table.detach().clone())
    return encodings


def other(encodings: dict[str, Encoding]) -> dict[str, Encoding]:
    """Return encodings that change the results of the model: no rotation, or biases that are drawn in place."""
    found = {kind: NoPE() if "queries_keys" in one.acts_on else one for kind, one in encodings.items()}
    for encoding in found.values():
        for parameter in encoding.parameters():
            nn.init.normal_(parameter)
    return found


def answers(model: Any, **given: Any) -> Tensor:
    """Return the output of the last layer."""
    with torch.no_grad():
        found = model(**given)[0]
    return (found[0] if isinstance(found, tuple) else found).float()


def check_swapped(
    model: Any,
    ours: dict[str, Encoding],
    others: dict[str, Encoding],
    answer: Callable[[], Tensor],
    *,
    most: float | None = None,
    least: float | None = None,
) -> None:
    """Check that ``ours`` keep a model's answers, that ``others`` change them, and that patching is undone.

    Args:
        answer: a function that returns the model's answers.
        most: the tolerance for equal answers; by default 2e-5 of the largest answer, a few units of 2^-23 per
            layer.
        least: the smallest difference of changed answers; by default a thousandth of the largest answer.
    """
    before = answer()
    largest = float(before.abs().max())
    with patched(model, ours):
        torch.testing.assert_close(answer(), before, rtol=0, atol=2e-5 * largest if most is None else most)
    with patched(model, others):
        assert (answer() - before).abs().max() > (1e-3 * largest if least is None else least)
    assert torch.equal(answer(), before)


def check_refused(model: Any, encoding: Any, message: str) -> None:
    """Check that an encoding for a model is refused in these words."""
    with pytest.raises(InvalidArgument, match=message), patched(model, encoding):
        pytest.fail("the model was patched")


@cache
def _measured(model_type: str, more: str) -> Measured:
    return measure(small(model_type, **json.loads(more)))


def measured(model_type: str, **more: Any) -> Measured:
    """Measure the small model of a type, once per process."""
    return _measured(model_type, json.dumps(more))


def check_read(found: Measured) -> None:
    """Check that a measured model does what is read of its config."""
    assert differences(found, read(found.config)) == []


def check_found_out(model_type: str, wrong: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a family measures as it is read, and that a wrong row is reported in these words."""
    found = measured(model_type)
    check_read(found)
    monkeypatch.setitem(FAMILIES, model_type, replace(FAMILIES[model_type], **wrong))
    assert re.search(said, " ".join(differences(found, read(found.config))))
