"""The example study's models on a text: their losses are the study's, and Python prints the picture's numbers."""

from pathlib import Path

import pytest
import torch

from posenc.errors import UnknownName
from posenc.teaching.lab import trained
from posenc.teaching.lessons.example import EXAMPLE
from posenc.workbench.run.training import evaluate, task_of
from posenc.workbench.study.trained_weights import language_models
from posenc.workbench.tasks.text import load
from support.blocks import strays
from support.studies import runs_in


@pytest.mark.parametrize(
    ("study", "length"),
    [
        pytest.param(EXAMPLE, 128, id="once"),
        pytest.param(EXAMPLE / "twice", 256, id="twice", marks=pytest.mark.slow),
    ],
)
def test_kept_weights_repeat_what_their_ledger_measured(study: Path, length: int) -> None:
    """Weights in 16 bits are off by at most 2^-11 of each, and so are losses of this size; most by 1.1e-4."""
    models = language_models(study)
    runs = {run.plan.encoding: run for run in runs_in(study) if run.plan.task == "language"}
    assert models.keys() == runs.keys() == {"nope", "sinusoidal", "learned(past_end=clamp)", "alibi", "rotary"}
    for name, run in runs.items():
        assert run.plan.train_length == length
        again = evaluate(models[name], task_of(run.plan, load()), (length,), run.plan.test_count)
        assert again[0].value == pytest.approx(run.cell(length, "loss").value, abs=2**-11), name


def test_every_window_ends_at_the_same_byte_and_with_what_the_reader_wrote() -> None:
    ends = {tuple(trained.window("code", "", length)[1][-64:].tolist()) for length in (128, 500, 1024)}
    assert len(ends) == 1
    inputs, targets = trained.window("prose", "déjà vu", 128)
    assert bytes(targets.tolist()).endswith("\n\ndéjà vu".encode())
    assert torch.equal(inputs[1:], targets[:-1])
    assert len(inputs) == 128
    with pytest.raises(UnknownName, match="code"):
        trained.window("poem", "", 128)


@pytest.mark.parametrize("name", ["nope", "sinusoidal", "learned(past_end=clamp)", "alibi", "rotary"])
def test_attention_that_is_shown_is_what_the_models_attend_by(name: str) -> None:
    """The values, weighted by it, are what the layer itself hands to its last map."""
    inputs, _ = trained.window("code", "", 128)
    model = trained.models("")[name]
    layer = model.layers[1]
    normed: list[torch.Tensor] = []
    mixed: list[torch.Tensor] = []
    hooks = (
        layer.attention_norm.register_forward_hook(lambda _, given, normal: normed.append(normal)),
        layer.attention.out.register_forward_pre_hook(lambda _, given: mixed.append(given[0])),
    )
    with torch.inference_mode():
        model(inputs[None])
        for hook in hooks:
            hook.remove()
        values = layer.attention.heads(normed[0])[2]
        weighted = trained.attention_weights(model, inputs, 1) @ values[0]
    torch.testing.assert_close(weighted.transpose(0, 1).flatten(1), mixed[0][0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("view", [trained.reading, trained.looks], ids=lambda view: view.__name__)
def test_python_prints_numbers_of_the_picture(view: object) -> None:
    assert strays(view("prose", 'The cat\'s "tail".', 130)) == []  # type: ignore[operator]


def test_the_penalty_reads_on_where_the_rotation_fails() -> None:
    """What the stage says: RoPE is best at its length and fails past it; ALiBi stays."""
    short, long = (trained.reading(length=length).panels[1].values[:, 0] for length in (128, 1024))
    alibi, rope = 3, 4
    assert int(short.argmin()) == rope
    assert int(long.argmin()) == alibi
    assert long[rope] > 2 * short[rope]
    assert long[alibi] < 1.1 * short[alibi]
