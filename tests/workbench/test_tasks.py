"""Tasks: what a right answer is, balance, and that nothing but the answer gives it away."""

import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from posenc.errors import PositionOutOfRange, StudyError
from posenc.workbench.run.settings import TASKS
from posenc.workbench.run.training import build, evaluate
from posenc.workbench.study.study import Study
from posenc.workbench.tasks import IGNORE, DrawnTask, Task, flip_flop, language, mqar, task, task_class
from posenc.workbench.tasks.language import TARGETS, Language
from posenc.workbench.tasks.needle import NOISE, QUESTION, Needle
from posenc.workbench.tasks.neighbours import SIDES, Neighbours
from posenc.workbench.tasks.text import Text, load
from support.studies import plan_of


@pytest.fixture(scope="module")
def text() -> Text:
    return load()


def drawn(name: str, length: int = 32, rows: int = 256):
    return task_class(name)().draw(torch.Generator().manual_seed(1), rows, length)  # type: ignore[attr-defined]


def test_ordering_answers_say_whether_the_prefix_ascends() -> None:
    batch = drawn("ordering", 16)
    for row, answers in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert answers == [int(row[: i + 1] == sorted(row[: i + 1])) for i in range(len(row))]


def test_ordering_is_balanced_and_half_its_negatives_are_one_swap_from_ascending() -> None:
    batch = drawn("ordering", 16, 400)
    last = batch.targets[:, -1]
    assert abs(int(last.sum()) - 200) <= 1
    descents = (batch.tokens[:, 1:] < batch.tokens[:, :-1]).sum(1)[last == 0]
    swaps = int((descents <= 3).sum())  # a swap of neighbours makes one descent, at most three with its own
    assert 95 <= swaps <= 110


def test_needle_asks_for_the_one_value() -> None:
    batch = drawn("needle")
    values = [[t - NOISE for t in row if NOISE <= t < QUESTION] for row in batch.tokens.tolist()]
    assert [v for row in values for v in row] == batch.targets[:, -1].tolist()
    assert (batch.tokens[:, -1] == QUESTION).all()
    assert (batch.targets[:, :-1] == IGNORE).all()
    assert min(batch.depth) < 0.1
    assert max(batch.depth) > 0.9


def test_recent_asks_for_the_last_of_four_values() -> None:
    batch = drawn("recent")
    for row, answer in zip(batch.tokens.tolist(), batch.targets[:, -1].tolist(), strict=True):
        values = [t - NOISE for t in row if NOISE <= t < QUESTION]
        assert len(values) == 4
        assert values[-1] == answer


def test_copying_asks_for_the_symbols_again() -> None:
    batch = drawn("copying", 20)
    assert torch.equal(batch.targets[:, 10:], batch.tokens[:, :10])
    assert (batch.targets[:, :10] == IGNORE).all()
    assert torch.equal(batch.tokens[:, 11:], batch.tokens[:, :9])


def test_reverse_asks_for_the_symbols_backwards() -> None:
    batch = drawn("reverse", 20)
    backwards = batch.tokens[:, :10].flip(1)
    assert torch.equal(batch.targets, torch.cat((torch.full_like(backwards, IGNORE), backwards), 1))
    assert torch.equal(batch.tokens[:, 11:], backwards[:, :-1])
    assert (batch.tokens[:, 10] == 16).all()


def test_flip_flop_asks_for_the_bit_written_last() -> None:
    batch, asked = drawn("flip-flop", 64), 0
    for row, answers, depth in zip(batch.tokens.tolist(), batch.targets.tolist(), batch.depth, strict=True):
        memory = last = None
        for place in range(0, 63, 2):
            instruction, bit = row[place], [*row, answers[62]][place + 1]
            if instruction == flip_flop.WRITE:
                memory, last = bit, place // 2
            if instruction == flip_flop.READ:
                assert answers[place] == memory == bit
                asked += 1
            else:
                assert answers[place] == IGNORE
        assert row[62] == flip_flop.READ
        assert depth == pytest.approx(last / 30)
    assert asked == pytest.approx(256 * (1 + 0.1 * 30), rel=0.1)  # a read at the end, and a tenth of thirty others


def test_mqar_asks_once_for_the_value_of_each_key_most_often_soon() -> None:
    batch, distances = drawn("mqar", 200), []
    for row, answers in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        memory = {row[2 * i]: row[2 * i + 1] - mqar.KEYS for i in range(4)}
        asked = [place for place, answer in enumerate(answers) if answer != IGNORE]
        assert sorted(row[place] for place in asked) == sorted(memory)
        assert len(memory) == 4
        assert all(answers[place] == memory[row[place]] for place in asked)
        assert all(row[p] >= mqar.KEYS + mqar.VALUES for p in range(8, 200) if p not in asked)
        distances += [(place - 8) // 2 for place in asked]
    near = sum(distance < 10 for distance in distances) / len(distances)
    assert near == pytest.approx(
        0.523, abs=0.06
    )  # of 80,000 by numpy.random.choice(96, 4, False, p), as the authors draw
    assert max(distances) > 85


def test_s5_multiplies_permutations() -> None:
    elements = list(itertools.permutations(range(5)))
    batch = drawn("s5", 12, 32)
    for row, answers in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        things = (0, 1, 2, 3, 4)
        for token, answer in zip(row, answers, strict=True):
            things = tuple(elements[token][i] for i in things)
            assert elements[answer] == things


@pytest.mark.parametrize("name", ["addition", "addition-reversed", "addition-hints", "addition-coupled"])
@pytest.mark.parametrize("length", [9, 32, 63, 200])
def test_addition_asks_for_the_digits_of_the_sum(name: str, length: int) -> None:
    made, batch = task(name, None, 200), drawn(name, length, 64)
    n = made.digits(length)  # type: ignore[attr-defined]
    for tokens, answers in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert len(tokens) <= length < len(tokens) + 6
        text, columns = [*tokens, answers[-1]], []
        scored = [place + 1 for place, answer in enumerate(answers) if answer != IGNORE]
        assert all(text[place] == answers[place - 1] for place in scored)
        if name == "addition-hints":
            hints = [text[i - 1] for i, token in enumerate(text) if token < 10]
            columns = [hint - min(hints) for hint in hints]
            text = [token for token in text if token < 12]
        one, two, total = "".join("0123456789+="[token] for token in text).replace("=", "+").split("+")
        assert [len(one), len(two), len(total), len(scored)] == [n, n, n + 1, n + 1]
        assert int(one) + int(two) == int(total if name == "addition" else total[::-1])
        significance = [*range(n)][::-1] * 2 + [*range(n + 1)]
        assert columns in ([], significance)
        if name == "addition-coupled":
            (at,) = batch.positions.tolist()
            assert at[n] == at[2 * n + 1] == at[n - 1] + 1
            digits = at[:n] + at[n + 1 : 2 * n + 1] + at[2 * n + 2 :]
            assert [at[n] - place for place in digits] == [column + 1 for column in significance[:-1]]


def test_hints_that_run_out_are_refused_and_positions_of_columns_move() -> None:
    with pytest.raises(PositionOutOfRange, match="numbers with 166 digits need 167 hints, but there are only 128"):
        drawn("addition-hints", 1000)
    generator, coupled = torch.Generator().manual_seed(0), task("addition-coupled", None, 64)
    starts = {int(coupled.draw(generator, 1, 17).positions.min()) for _ in range(400)}  # type: ignore[attr-defined]
    assert starts == set(range(1, 27))  # 6 of columns and signs, all below 32
    single = drawn("addition-coupled", 17, 2)
    assert torch.equal(single.on_axes(1).positions, single.positions[0])  # type: ignore[arg-type]
    assert torch.equal(single.on_axes(3).positions, single.positions.expand(3, -1))  # type: ignore[arg-type]


def test_neighbours_asks_for_the_symbol_on_a_side_and_nothing_of_the_edge() -> None:
    batch = drawn("neighbours", 30, 3)  # 5 rows of 6
    for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
        cells = dict(zip(map(tuple, batch.positions.T.tolist()), tokens.tolist(), strict=True))
        assert len(cells) == 30
        for ((row, column), token), answer in zip(cells.items(), targets.tolist(), strict=True):
            down, right = SIDES[token % 4]
            beside = cells.get((row + down, column + right))
            assert answer == (IGNORE if beside is None else beside // 4)


def test_neighbours_are_learnt_on_every_grid_that_fits_and_tested_on_the_squarest() -> None:
    made, generator = Neighbours(), torch.Generator().manual_seed(0)
    shapes = {tuple((made.train_batch(generator, 1).positions.amax(1) + 1).tolist()) for _ in range(400)}
    assert shapes == {(rows, columns) for rows in range(2, 9) for columns in range(2, 9)}
    assert [made.places(length) for length in (64, 128, 256, 512)] == [(8, 8), (11, 11), (16, 16), (22, 23)]


def test_places_stand_on_the_last_axes_and_one_axis_has_none() -> None:
    batch = drawn("neighbours", 6, 1)
    rows, columns = [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]
    assert batch.on_axes(1).positions is None
    for axes, before in ((2, []), (3, [[0] * 6]), (4, [[0] * 6] * 2)):
        assert batch.on_axes(axes).positions.tolist() == [*before, rows, columns]
    text = drawn("needle")
    assert text.on_axes(3) is text


@pytest.mark.parametrize("name", [name for name in TASKS if issubclass(task_class(name), DrawnTask)])
def test_test_sequences_are_the_same_on_every_call_and_bounded_in_size(name: str) -> None:
    made = task(name, None, 600)
    assert made.name == name
    first, again = (list(made.test_batches(600, 20)) for _ in range(2))
    assert sum(len(b.tokens) for b in first) == 20
    assert all(torch.equal(a.tokens, b.tokens) for a, b in zip(first, again, strict=True))
    assert max(b.tokens.numel() for b in first) <= 4096


def test_language_scores_the_same_bytes_at_every_length(text: Text) -> None:
    made = Language(text, 512)
    targets = [
        torch.cat([b.targets[:, -TARGETS:] for b in made.test_batches(length, 10)]) for length in (128, 256, 512)
    ]
    assert all(torch.equal(targets[0], longer) for longer in targets[1:])
    batch = next(made.test_batches(512, 10))
    assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1])


@pytest.mark.parametrize(
    "make", [lambda text: Language(text, 32, 16), lambda text: type("Judged", (Needle,), {"measure": "loss"})(16)]
)
def test_a_trained_length_below_64_scores_as_many_targets_at_every_length(
    make: Callable[[Text], Task], text: Text
) -> None:
    """And the ledger counts them, without the positions that a custom task does not score."""
    plan = plan_of("nope", task="language", train_length=16, lengths=(16, 32), width=16, heads=2, layers=1)
    made = make(text)
    cells = evaluate(build(plan, made).eval(), made, (16, 32), 5)
    for cell, length in zip([c for c in cells if c.measure == "loss"], (16, 32), strict=True):
        batch = next(made.test_batches(length, 5))
        with torch.inference_mode():
            logits = build(plan, made).eval()(batch.tokens)[:, -16:]
        losses = torch.nn.functional.cross_entropy(logits.mT, batch.targets[:, -16:])
        assert cell.value == pytest.approx(float(losses), rel=1e-5)
        assert cell.count == int((batch.targets[:, -16:] != IGNORE).sum())


def of_length(train: int, validation: int) -> Text:
    """A text whose every validation token is its own place."""
    return Text("mine", "0" * 64, torch.zeros(train, dtype=torch.uint8), torch.arange(validation))


@pytest.fixture
def losses_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of guessing, which are not computed of these texts."""
    monkeypatch.setattr(language, "_token_loss", lambda text: 5.0)
    monkeypatch.setattr(language, "_pair_loss", lambda text: 4.0)


@pytest.mark.usefixtures("losses_known")
@pytest.mark.parametrize(
    ("validation", "blocks"),
    [(1200, 3), (1089, 2), (1024 + 64 * 63, 63), (1025 + 64 * 63, 64), (58_623, 64)],
)
def test_no_two_blocks_share_a_target(validation: int, blocks: int) -> None:
    text = of_length(2000, validation)
    for length in (128, 1024):
        batches = list(Language(text, 1024).test_batches(length, 64))
        targets = torch.cat([batch.targets[:, -TARGETS:] for batch in batches])
        assert len(targets) == blocks
        assert len(targets.unique()) == blocks * TARGETS
    study = Study(tasks=("language",), lengths=(1, 8), encodings=("nope",))
    assert study.blocks == 64
    assert [plan.test_count for plan in study.plans(text)] == [blocks]


@pytest.mark.usefixtures("losses_known")
def test_windows_of_a_text_past_what_float32_counts_lie_in_it() -> None:
    many = 2**25 + 3
    text = replace(of_length(2000, 0), validation=torch.zeros(1, dtype=torch.uint8).expand(many))
    (batch,) = Language(text, 128).test_batches(128, 8)
    assert batch.targets.shape == (8, 128)


def test_languages_gate_lies_below_its_chance(text: Text) -> None:
    made = Language(text, 256)
    assert 0 < made.gate < made.chance < 5.6  # log 256, the loss of knowing nothing
    assert made.passes(made.gate)
    assert not made.passes(made.gate + 0.01)


def test_the_default_text_is_the_same_bytes_in_every_version(text: Text) -> None:
    assert text.sha256 == "c72cd6fa195014c1be6628b7892604ae83248709af34bf6ad5e2483aff28b034"


def test_no_topic_is_in_both_halves_and_a_tenth_is_held_out(text: Text) -> None:
    whole = len(text.train) + len(text.validation)
    assert 0.08 < len(text.validation) / whole < 0.2
    held_out, train = bytes(text.validation.tolist()), bytes(text.train.tolist())
    assert held_out[:2000] not in train


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (0, "is empty"),
        (2000, r"200 validation bytes, but length 512 needs at least 577.*--lengths"),
        (3, r"2 training bytes"),
        (None, "cannot be read: No such file"),
    ],
)
def test_bad_texts_are_refused(length: int | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "text"
    if length is not None:
        path.write_bytes(b"abcd" * 500)
        os.truncate(path, length)
    with pytest.raises(StudyError, match=message):
        Language(load(path), 512)
