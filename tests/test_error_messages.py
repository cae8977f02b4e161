"""The page of error messages: the code below each sentence provokes it."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import posenc
from posenc.errors import PosencError
from posenc.integrations import huggingface
from posenc.positions import arange
from support.checking import annotations_unchecked

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"
SECTIONS = re.findall(r"^### (.+)\n\n(?:.+\n)+\n```py\n((?:.*\n)+?)```$", PAGE.read_text("utf-8"), re.MULTILINE)


def space() -> dict[str, Any]:
    q, k, v = torch.randn(3, 1, 8, 10, 64)
    rope = posenc.Rotary(head_dim=64, pairing="half")
    modules = {"posenc": posenc, "torch": torch, "transformers": transformers, "huggingface": huggingface}
    return modules | {"arange": arange, "q": q, "k": k, "v": v, "rope": rope, "placed": rope.at(arange(10))}


@pytest.mark.parametrize(("sentence", "code"), SECTIONS, ids=[sentence[:60] for sentence, _ in SECTIONS])
def test_the_code_below_a_sentence_provokes_it(sentence: str, code: str) -> None:
    words = ".*".join(re.escape(part.strip()) for part in sentence.split("…"))
    with pytest.raises(PosencError, match=f"(?s){words}"), annotations_unchecked():
        exec(compile(code, PAGE.name, "exec"), space())


def test_every_sentence_has_its_code() -> None:
    assert len(SECTIONS) == PAGE.read_text("utf-8").count("\n### ") > 25
