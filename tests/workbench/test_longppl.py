"""LongPPL: key tokens and perplexity as the authors' package has them, and their evaluator named everywhere."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from posenc.scaling import Default
from posenc.workbench.extension.decision import Candidate, Extension
from posenc.workbench.extension.longppl import Evaluator, longppl, other_tokens
from posenc.workbench.extension.measure import Request, measure
from posenc.workbench.extension.methods import methods
from posenc.workbench.extension.models import open_model, open_pretrained
from posenc.workbench.run.job import in_process
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.tasks.text import Text
from support.command_line import said
from support.extensions import words
from support.pretrained import LETTERS, save_llama
from support.served import PROGRAMS

NAMES = ("none", "linear", "yarn")


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluator that reads all of 257, with opinions; its tokens are other numbers for other characters."""
    folder = tmp_path_factory.mktemp("long")
    save_llama(folder, "zyxwvutsrqponmlkjihgfedcba", trained=320)
    state = load_file(folder / "model.safetensors")
    for name in ("lm_head", "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"):
        state[f"{name}.weight"] *= 3
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def measured(llama: Path, folder: Path, ledgers: Callable[[Path], Ledger], evaluator: Path | None = None) -> Any:
    model, data, text = open_model(llama, llama / "text.txt", "cpu", "float32")
    by = model if evaluator is None else open_pretrained(evaluator, "cpu", "float32")
    request, read, whole = Request(256, 3, methods(NAMES, model.scaling, 64, 4.0)), list[float](), list[float]()
    found = measure(
        model, data, text, request, ledgers(folder), in_process, read.append, Evaluator(by), whole.append
    )
    assert [sum(read)] == pytest.approx(whole)
    return model, by, found


def losses(model: Any, ids: Tensor, scaling: Any, length: int) -> Tensor:
    """By transformers, whole."""
    with torch.no_grad(), model.placed(model.with_scaling(scaling, length)):
        logits = model.model(ids[None, :-1]).logits[0]
    return torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")


def test_key_tokens_by_the_rule_spelled_out(llama: Path, tmp_path: Path, ledgers: Callable[[Path], Ledger]) -> None:
    """Token by token. Past its trained length the evaluator reads windows of it, a quarter of it at a time."""
    model, by, found = measured(llama, tmp_path, ledgers)
    assert (Evaluator(by).long, Evaluator(by).short, Evaluator(by).stride) == (64, 16, 4)
    ids, want = model.encode(LETTERS)[:257], []
    from_ = cache(lambda start: losses(model, ids[start : start + 65], model.scaling, 64))
    for target in range(1, 257):
        start = 0 if target <= 64 else min(65 + (target - 65) // 16 * 16 + 16, 257) - 65
        near = (target - 16) // 4 * 4
        long = float(from_(start)[target - start - 1])
        want.append(near >= 0 and float(from_(near)[target - near - 1]) - long > 2 and long < 2)
    assert found.key[0].tolist() == want
    assert 5 < sum(want) < 128
    curve = found.curves[2]
    whole = losses(model, ids, curve.method.scaling, 256)
    assert curve.tokens[0].tolist() == pytest.approx(whole.tolist(), abs=1e-4)
    torch.testing.assert_close(curve.losses, curve.tokens.view(3, -1, 16).mean(2), rtol=0, atol=0)


@pytest.mark.programs
@pytest.mark.skipif(
    not (PROGRAMS / "longppl-0.3.0").exists(), reason="the authors' longppl 0.3.0 is not here; type: make programs"
)
def test_the_authors_package_says_the_same(
    llama: Path, long: Path, tmp_path: Path, ledgers: Callable[[Path], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """longppl 0.3.0 on one document: its key tokens, and its number for every method.

    It reads a document at once, so the evaluator here is trained to all of it.
    """
    monkeypatch.syspath_prepend(PROGRAMS / "longppl-0.3.0")
    from longppl.longppl import compute_longppl, find_key_token

    monkeypatch.setattr("posenc.workbench.extension.longppl.SHORT", 18)  # their code fails where one target is left
    model, by, found = measured(llama, tmp_path, ledgers, long)
    assert (Evaluator(by).short, Evaluator(by).stride) == (18, 4)
    text, lengths = LETTERS[:257].decode(), {"trunc_len": 18, "sliding_window": 4}
    one = replace(found, key=found.key[:1], window=found.window[:1], curves=tuple(map(first, found.curves)))
    for curve in one.curves:
        with model.placed(curve.method.positions(model, 256)):
            theirs = compute_longppl(text, model.model, by.model, model.tokenizer, by.tokenizer, **lengths)
        assert int(one.key.sum()) == theirs["n_key_token"] > 5
        assert longppl(one, curve).value == pytest.approx(float(theirs["longppl"]), rel=1e-5)
    spans = find_key_token(text, by.model, by.tokenizer, **lengths)
    assert {i for start, end in spans.tolist() for i in range(start, end)} == set(
        (1 + one.key[0].nonzero()[:, 0]).tolist()
    )


def first(curve: Candidate) -> Candidate:
    """On the first document alone."""
    return replace(curve, losses=curve.losses[:1], tokens=curve.tokens[:1])


def test_a_token_is_key_where_all_its_characters_are(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judged model's tokens are of one, two and three characters; the evaluator's of one."""
    by = open_pretrained(llama, "cpu", "float32")
    monkeypatch.setattr(Evaluator, "key", lambda self, ids, tick: torch.tensor([0, 1, 1, 0, 1, 1, 1, 0]).bool())
    spans = torch.tensor([[0, 1], [1, 3], [3, 5], [5, 6], [6, 6], [6, 8]])
    assert other_tokens(by, lambda share: None, text="abcdefgh", spans=spans) == [[1, 0, 1, 0, 0]]


def test_documents_are_averaged_by_their_key_tokens_and_paired() -> None:
    """Two documents of 2 and 1 key tokens, one without; worked out by hand."""
    key = torch.tensor([[1, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]]).bool()
    tokens = torch.tensor([[1.0, 9, 9, 3], [9, 9, 4, 9], [9, 9, 9, 9]]).double()
    own = [Candidate(m, tokens + i, None, tokens + i) for i, m in enumerate(methods(NAMES, Default(), 2, 2.0))]
    text = Text("test", "0" * 64, torch.zeros(1), torch.zeros(1))
    extension = Extension("a model", "token", 2, 4, 1, tuple(own), torch.zeros(3), text, key=key)
    found = longppl(extension, own[1])
    assert found.value == pytest.approx((2 * math.exp(3) + math.exp(5)) / 3)
    assert found.beyond == pytest.approx((math.exp(4) + math.exp(5)) / 2)
    assert found.to_unchanged.mean == pytest.approx(1)
    none = longppl(replace(extension, key=key & False), own[1])
    assert all(map(math.isnan, (none.value, none.beyond, none.to_unchanged.mean)))


def test_page_terminal_and_json_name_the_evaluator(llama: Path, long: Path, tmp_path: Path) -> None:
    asked = words(llama, llama / "text.txt", "4x", "--documents", "1", "--methods", "yarn")

    def numbers(evaluator: str) -> Any:
        output = said(*asked, "--output", tmp_path / "out", "--longppl", evaluator)
        name = llama.name if evaluator == "self" else long.name
        for shown in (output, (tmp_path / "out" / "report.html").read_text()):
            assert f"{name} as evaluator" in " ".join(shown.split())
        found = json.loads((tmp_path / "out" / "extension.json").read_text())
        assert found["longppl"]["evaluator"]["model"] == name
        methods = {each["name"]: each["longppl"] for each in found["candidates"] if each["longppl"]}
        return {"key_tokens": found["longppl"]["key_tokens"], "methods": methods}

    own, other = numbers("self"), numbers(str(long))
    assert set(own["methods"]) == set(other["methods"]) == {"none", "yarn"}
    assert own["key_tokens"] != other["key_tokens"]
    assert own["methods"]["yarn"]["value"] != other["methods"]["yarn"]["value"]
