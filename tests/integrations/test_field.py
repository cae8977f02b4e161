"""The field's cases: posenc's answers to questions from threads and files of other projects."""

import re
from collections import Counter

import pytest

from support.field import CASES
from support.field.case import Case

pytest.importorskip("transformers")


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_it_is_answered(case: Case) -> None:
    answer = case.answer()
    assert case.verdict(answer) == "answered", answer


def test_every_case_of_the_report_is_here() -> None:
    """But those that laws hold, and F22, which was about a trainer that left.

    A cache beside ALiBi (F01) and T5 (F02) is ``whole_is_pieces``; keys that move (F05) are in test_rerotate; F06
    is in test_model_laws; scores that depend on the offset alone (F20, F25) are ``sees_only_the_offset``.
    """
    asked = {int(found[1]) for case in CASES if (found := re.match(r"F(\d+)", case.id))}
    assert asked == set(range(1, 60)) - {1, 2, 5, 6, 20, 22, 25}
    assert {case.id.split()[1] for case in CASES if case.id.startswith("bug")} == {"7", "8", "9", "10", "11"}
    assert [name for name, count in Counter(case.id for case in CASES).items() if count > 1] == []


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("64 of 128 rotate", "answered"),
        ("64 of 128 rotate, and 0 stand still", "wrong"),
        ("error: unknown model_type", "refused"),
        ("vllm 0.33.0\n  note: refused: would differ", "refused"),
        ("rotary positions", "silent"),
        ("64 of 128: nothing that was tried gives these numbers", "silent"),
    ],
)
def test_verdicts(answer: str, verdict: str) -> None:
    assert Case("F00", "", "", ("64 of 128",), ("0 stand",)).verdict(answer) == verdict
