"""Trained models leave as Hugging Face folders: transformers computes their losses, others are refused by name."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc.errors import StudyError
from posenc.workbench.extension.models import open_model
from posenc.workbench.run.checkpoint import load_weights, path_of, save_weights
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.training import build, task_of
from posenc.workbench.study.export import export
from posenc.workbench.study.study import Study, as_toml
from support.studies import TINY, python_text, ran, runs_in

SMALL = replace(TINY, tasks=("language",), encodings=("rotary(base=500)", "alibi"), lengths=(1,), train_length=64)
LLAMA: dict[str, Any] = {"norm": "rms", "activation": "swiglu", "kv_heads": 2}
MODELS = {
    "gpt-neox": {},
    "gpt-neox-without-biases": {"biases": False},
    "llama": {**LLAMA, "biases": False},
    "llama-tied": {**LLAMA, "tied": True},
}


def trained(study: Study, folder: Path) -> Path:
    ran(study, folder)
    (folder / "study.toml").write_text(as_toml(study, folder))
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_transformers_computes_the_same_logits_from_the_folder(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    study, text = replace(SMALL, encodings=("rotary(base=500)",), **MODELS[name]), python_text()
    folder = export(trained(study, tmp_path / "study"), tmp_path / "model", "rotary(base=500)")
    (plan,) = study.plans(text)
    model = build(plan, task_of(plan, text)).eval()
    model.load_state_dict(load_weights(tmp_path / "study", plan))
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    assert type(loaded).__name__ == ("LlamaForCausalLM" if "llama" in name else "GPTNeoXForCausalLM")
    words = "Größe, 東京 and\ttabs"
    tokens = torch.tensor(transformers.AutoTokenizer.from_pretrained(folder)(words)["input_ids"])
    assert bytes(tokens.tolist()) == words.encode()
    with torch.inference_mode():
        torch.testing.assert_close(loaded(tokens[None]).logits, model(tokens[None]), atol=1e-5, rtol=1e-4)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(SMALL, tmp_path_factory.mktemp("small"))


def test_extend_reads_the_folder(small: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = export(small, tmp_path / "model", "rotary(base=500)")
    model, _, _ = open_model(folder, None, "cpu", "float32")
    assert model.original_length == 64
    assert model.positions.rotary.get("base") == 500  # type: ignore[union-attr]
    with pytest.raises(StudyError, match="exists already; choose a new folder"):
        export(small, folder)


@pytest.mark.parametrize(
    ("encoding", "change", "message"),
    [
        ("alibi", {}, "because of its encoding alibi, which is not rotary without scaling; export"),
        ("rotary(base=500)", {"norm": "rms"}, "norm=rms, activation=gelu and kv_heads=None; export"),
        ("rotary(base=500)", {"qk_norm": True}, "window=None and qk_norm=True; export"),
        ("rotary", {}, r"has no run of rotary with seed 0 on the task 'language'; it has (alibi|rotary)"),
    ],
)
def test_what_transformers_has_no_class_for_is_refused(
    encoding: str, change: dict[str, Any], message: str, small: Path, tmp_path: Path
) -> None:
    """Of a run whose plan says so and whose weights fit."""
    pytest.importorskip("transformers")
    with Ledger(tmp_path, write=True) as ledger:
        for run in runs_in(small):
            changed = replace(run, plan=replace(run.plan, **change))
            ledger.add(changed)
            save_weights(build(changed.plan, task_of(changed.plan, python_text())), path_of(tmp_path, changed.plan))
    with pytest.raises(StudyError, match=message):
        export(tmp_path, tmp_path / "model", encoding)
    assert not (tmp_path / "model").exists()
