"""Tasks by forced choice: what a reader finds in a text, and nobody else."""

import re
from collections import Counter

import pytest
import torch

from posenc.errors import StudyError
from posenc.workbench.extension.forced_choice import DATA, DEPTHS, TASKS, Sheet

TEXT = torch.tensor(list(b"All work and no play makes a dull text. " * 4000))


def encode(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode()))


def solved(text: str, question: str) -> str:
    """The answer that a person reads from a text."""
    words = question.split()
    if match := re.match(r"The answer to the (\w+) request for a number for (\w+) was", question):
        alike = re.findall(rf"a number for {match[2]}. Answer: (\d+)", text)
        return str(alike[("first", "second", "third").index(match[1])])
    if match := re.match(r"Of all words in the lists of (\w+),", question):
        listed = ", ".join(re.findall(rf"A list of {match[1]}: ([^.]+)\.", text)).split(", ")
        return Counter(listed).most_common(1)[0][0]
    if match := re.match(r"The three secret numbers of (\w+) are (\d+), (\d+) and", question):
        values = set(re.findall(rf"One of the secret numbers of {match[1]} is (\d+)", text))
        return str((values - {match[2], match[3]}).pop())
    if "house" in question:
        return str(re.findall(rf"{' '.join(words[4:])} (\d+)", text)[0])
    place = words[4]
    while match := re.search(rf"number of {place} is the same as that of (\w+)\.", text):
        place = match[1]
    return str(re.findall(rf"number of {place} is (\d+)", text)[0])


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_solved_by_a_reader_and_by_nobody_else(task: str) -> None:
    """A favourite answer is right once in as many questions as there are options, over nine texts."""
    right, options = Counter[str](), set[int]()
    for number in range(9):
        sheet = Sheet(task, number)
        text = bytes(sheet.haystack(encode, TEXT, 16_384).tolist()).decode()
        assert len(sheet.asked) == (3 if task in ("chains", "words") else 9)
        for question, choices, answer in sheet.asked:
            assert solved(text, question.split("{answer}")[0].strip()) == answer
            right[answer] += 1
            options.add(len(choices))
    assert len(set(right.values())) == 1, right
    assert options == {{"values": 7, "chains": 3}.get(task, 9)}


def test_options_begin_otherwise_and_every_number_lies_at_every_depth_once() -> None:
    for options in (DATA["numbers"], *DATA["words"].values()):
        assert len({option[0] for option in options}) == 9
    for depth in range(9):
        sentences = [Sheet("needle", haystack).sentences[depth] for haystack in range(9)]
        assert len({re.findall(r"\d+", sentence)[0] for sentence in sentences}) == 9


def test_sentences_lie_where_the_depth_says() -> None:
    text = bytes(Sheet("needle", 0).haystack(encode, TEXT, 4096).tolist()).decode()
    at = [match.start() for match in re.finditer(r"\nThe secret number of \w+ is \d{4}\.\n", text)]
    assert len(set(at)) == 9
    assert [a / len(text) for a in at] == pytest.approx(DEPTHS, abs=0.1)
    assert at[0] == 0
    assert text.endswith(".\n")
    assert len(text) + len("\nThe secret number of Quito is 1739.\n") == 4096


@pytest.mark.parametrize(("number", "length", "fix"), [(40, 4096, "fewer texts"), (0, 300, "a larger length")])
def test_nothing_is_cut_in_silence(number: int, length: int, fix: str) -> None:
    message = f"haystack number {number}, with a length of {length}, has room for .*; pass {fix}"
    with pytest.raises(StudyError, match=message):
        Sheet("needle", number).haystack(encode, TEXT, length)
