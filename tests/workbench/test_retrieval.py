"""Tasks by forced choice: a model that reads gets all right, one that ignores the text is at chance."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from string import ascii_letters, digits

import pytest
import torch
import typer
from typer.testing import CliRunner

import posenc
from posenc.commands.extend import extend as command
from posenc.errors import InvalidArgument, StudyError, UnknownName
from posenc.pictures.view import Heatmap
from posenc.scaling import Default, LengthScaling, Scaling, YaRN, planned
from posenc.workbench.extend.extend import Request
from posenc.workbench.extend.forced_choice import DATA, DEPTHS, TASKS, Sheet, chosen
from posenc.workbench.extend.methods import methods
from posenc.workbench.extend.models import StudyModel, Tick, open_model
from posenc.workbench.extend.retrieval import Retrieval, reader, retrieve, spans, work
from posenc.workbench.report.extension import write
from posenc.workbench.report.retrieval import answer, over_depth, table
from posenc.workbench.run.job import in_process
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.transformer import Transformer, TransformerConfig
from posenc.workbench.tasks.text import Text
from support.pretrained import save_llama
from workbench.test_extend_verdict import made as extension_of

TEXT_BYTES = b"All work and no play makes a dull text. " * 1000
TEXT = Text("dull", "0" * 64, torch.empty(0).long(), torch.empty(0).long())
ROTARY = posenc.Rotary(16, pairing="half")


class Known:
    """Reads bytes and answers as told: with the number after the place in its context, or always the same."""

    name, identity, unit, learning_rate, model = "a known model", "known", "byte", 1e-3, None
    scaling: Scaling | LengthScaling = Default()
    calls, fail_at, original_length, pretrained_length = 0, -1, 2048, 2048
    beginning = torch.zeros(0, dtype=torch.int64)

    def __init__(self, sees: Callable[[posenc.Encoding], int], trained: int = 2048) -> None:
        self.sees, self.contexts, self.original_length = sees, list[str](), trained

    def encode(self, data: bytes) -> torch.Tensor:
        return torch.tensor(list(data), dtype=torch.int64)

    def answers(
        self,
        context: torch.Tensor,
        questions: Sequence[torch.Tensor],
        encoding: posenc.Encoding,
        tick: Tick = lambda share: None,
        state: Path | None = None,
    ) -> torch.Tensor:
        if self.calls == self.fail_at:
            raise KeyboardInterrupt
        self.calls += 1
        tick(1.0)
        text = bytes(context.tolist()).decode()
        self.contexts.append(text)
        logits = torch.zeros(len(questions), 256)
        logits[:, ord("4")] = 1.0  # what it says when it sees nothing
        for row, question in zip(logits, questions, strict=True):
            after = text[-self.sees(encoding) :].partition(bytes(question.tolist()).decode())[2]
            if after:
                row[ord(after[0])] = 2.0
        return logits

    def with_scaling(self, scaling: Scaling | LengthScaling | None, total_length: int) -> posenc.Encoding:
        assert scaling is not None
        return ROTARY.with_scaling(planned(scaling, total_length))

    def check_memory(self, length: int, *, cached: bool = False) -> None:
        assert cached

    def losses(
        self, tokens: torch.Tensor, encoding: posenc.Encoding, tick: Tick = ..., state: Path | None = None
    ) -> torch.Tensor:  # type: ignore[assignment]
        raise AssertionError("tasks need no losses")

    def placed(self, encoding: posenc.Encoding) -> AbstractContextManager[None]:
        return nullcontext()

    def logits(self, rows: torch.Tensor) -> torch.Tensor:
        raise AssertionError("tasks need no gradients")

    def copied(self, identity: str) -> "Known":
        raise AssertionError("no task is tuned for")


def asked(length: int = 4096, documents: int = 9) -> Request:
    return Request(length, documents, methods(("yarn",), Default(), 2048, 2.0))


def everything(encoding: posenc.Encoding) -> int:
    return 10**9


def nothing(encoding: posenc.Encoding) -> int:
    return 1


def far_with_yarn(encoding: posenc.Encoding) -> int:
    """The whole text under YaRN, and the last 2048 bytes without."""
    return 10**9 if isinstance(encoding, posenc.Rotary) and isinstance(encoding.scaling, YaRN) else 2048


def test_a_model_that_copies_finds_every_number(tmp_path: Path, ledgers: Callable[[Path], Ledger]) -> None:
    model, read = Known(everything), [0.0]

    def progress(tokens: float) -> None:
        read[0] += tokens

    found = retrieve(reader(model, ["needle"]), TEXT_BYTES, TEXT, asked(), ledgers(tmp_path), in_process, progress)
    assert found.lengths == (1024, 2048, 4096)
    assert found.correct.shape == (2, 3, 9, len(DEPTHS))
    assert found.correct.all()
    assert read[0] == work(2048, asked()) == 2 * 9 * (1024 + 2048 + 4096)


def test_a_model_that_ignores_the_text_is_at_chance_at_every_depth(
    tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    found = retrieve(Known(nothing), TEXT_BYTES, TEXT, asked(), ledgers(tmp_path), in_process).correct.double()
    assert float(found.mean()) == pytest.approx(1 / 9)
    assert (found.sum(-1) == 1).all()  # its favourite number is right once in each haystack
    assert found.sum(2).tolist() == torch.ones(2, 3, 9).tolist()  # and over nine haystacks once at each depth


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


class Reads(Known):
    """Solves every task, and knows which questions it was asked."""

    def answers(self, context, questions, encoding, tick=..., state=None):  # type: ignore[no-untyped-def]
        text = bytes(context.tolist()).decode()
        logits = torch.zeros(len(questions), 256)
        for row, question in zip(logits, questions, strict=True):
            row[ord(solved(text, bytes(question.tolist()).decode().strip())[0])] = 1.0
        return logits


class Prefers(Known):
    """Likes some options more than others, whatever the text says."""

    identity = "blind"

    def answers(self, context, questions, encoding, tick=..., state=None):  # type: ignore[no-untyped-def]
        return torch.arange(256.0).expand(len(questions), 256)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_solved_by_a_reader_and_by_nobody_else(
    task: str, tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    ask = 4 * TEXT_BYTES, TEXT, asked(16_384), ledgers(tmp_path), in_process, lambda tokens: None, task
    found = retrieve(reader(Reads(everything, 8192), [task]), *ask)
    assert found.correct.all()
    assert found.correct.shape == (2, 3, 9, 3 if task in ("chains", "words") else 9)
    assert found.to_baseline(1, -1).mean == 0
    share = float(retrieve(reader(Prefers(nothing, 8192), [task]), *ask).correct.double().mean())
    assert share == pytest.approx(found.chance, abs=0.035)  # its favourite is one of nine, also of seven options
    assert found.chance == {"values": 1 / 7, "chains": 1 / 3}.get(task, 1 / 9)


def test_the_baseline_is_the_unscaled_model_at_its_trained_length_on_the_same_questions(
    tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    model = reader(Known(far_with_yarn), ["needle"])
    found = retrieve(model, TEXT_BYTES, TEXT, asked(), ledgers(tmp_path), in_process)
    assert found.to_baseline(1, -1).mean == 0
    lost = found.to_baseline(0, -1)
    assert lost.mean == pytest.approx(float(found.correct[0, -1].double().mean()) - 1)
    assert lost.high < 0


def test_tasks_by_name() -> None:
    assert chosen("keys, nth,keys") == ("keys", "nth")
    with pytest.raises(UnknownName, match="unknown task 'key'; did you mean 'keys'"):
        chosen("key")
    with pytest.raises(InvalidArgument, match=r"tasks=' ' must name at least one of needle, keys"):
        chosen(" ")


def test_options_begin_otherwise_and_every_number_lies_at_every_depth_once() -> None:
    for options in (DATA["numbers"], *DATA["words"].values()):
        assert len({option[0] for option in options}) == 9
    for depth in range(9):
        sentences = [Sheet("needle", haystack).sentences[depth] for haystack in range(9)]
        assert len({re.findall(r"\d+", sentence)[0] for sentence in sentences}) == 9


def test_a_haystack_begins_with_the_one_token_that_the_tokenizer_puts_first(
    tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    model = Known(everything)
    model.beginning = torch.tensor([7])
    retrieve(reader(model, ["needle"]), TEXT_BYTES, TEXT, asked(documents=1), ledgers(tmp_path), in_process)
    for context, length in zip(model.contexts, (1024, 2048, 4096), strict=False):
        assert context.count("\x07") == 1
        assert context[0] == "\x07"
        assert len(context) + len("\nThe secret number of Lima is ") <= length


def test_a_model_without_a_preference_finds_nothing(tmp_path: Path, ledgers: Callable[[Path], Ledger]) -> None:
    class Even(Known):
        def answers(self, context, questions, encoding, tick=..., state=None):  # type: ignore[no-untyped-def]
            return torch.zeros(len(questions), 256)

    found = retrieve(Even(nothing), TEXT_BYTES, TEXT, asked(documents=1), ledgers(tmp_path), in_process)
    assert not found.correct.any()


def test_sentences_lie_where_the_depth_says(tmp_path: Path, ledgers: Callable[[Path], Ledger]) -> None:
    model = Known(far_with_yarn)
    found = retrieve(model, TEXT_BYTES, TEXT, asked(documents=2), ledgers(tmp_path), in_process)
    none, yarn = found.correct.double().mean(2)
    assert yarn.tolist() == torch.ones(3, 9).tolist()
    assert none[:2].tolist() == torch.ones(2, 9).tolist()
    assert none[2, 5:].tolist() == [1, 1, 1, 1]  # the last half of 4096 bytes
    assert float(none[2, :4].max()) < 1
    text = model.contexts[4]  # the first haystack of 4096 under no scaling
    at = [match.start() for match in re.finditer(r"\nThe secret number of \w+ is \d{4}\.\n", text)]
    assert len(at) == len(set(at)) == 9
    assert [a / len(text) for a in at] == pytest.approx(DEPTHS, abs=0.1)
    assert at[0] == 0
    assert text.endswith(".\n")
    assert len(text) + len("\nThe secret number of Quito is ") == 4096
    assert len(set(re.findall(r"of (\w+) is", text))) == len(set(re.findall(r"is (\d)", text))) == 9


def test_stopped_and_resumed_asks_only_what_is_missing(tmp_path: Path, ledgers: Callable[[Path], Ledger]) -> None:
    stopped = Known(everything)
    stopped.fail_at = 4
    with pytest.raises(KeyboardInterrupt):
        retrieve(stopped, TEXT_BYTES, TEXT, asked(documents=2), ledgers(tmp_path), in_process)
    resumed = Known(everything)
    found = retrieve(resumed, TEXT_BYTES, TEXT, asked(documents=2), ledgers(tmp_path), in_process)
    assert resumed.calls == 2 * 3 * 2 - 4
    again, read = Known(everything), list[float]()
    same = retrieve(again, TEXT_BYTES, TEXT, asked(documents=2), ledgers(tmp_path), in_process, read.append)
    assert again.calls == 0
    assert torch.equal(found.correct, same.correct)
    assert sum(read) == work(2048, asked(documents=2))
    other = Known(everything)
    retrieve(other, TEXT_BYTES, replace(TEXT, sha256="1" * 64), asked(documents=2), ledgers(tmp_path), in_process)
    assert other.calls == 12


def made(none: float, yarn: float, inside: float = 1.0) -> Retrieval:
    """A retrieval over ten haystacks with these shares past the trained 2048, and ``inside`` within it."""
    shares = torch.tensor([[inside, inside, none], [inside, inside, yarn]])
    found = torch.arange(10)[None, None, :, None] < (10 * shares).round()[:, :, None, None]
    return Retrieval("a model", 2048, asked().methods, (1024, 2048, 4096), found.expand(2, 3, 10, 9))


def test_the_answer_in_words() -> None:
    assert answer(made(0.1, 0.9)) == (
        "Task needle at 4096 tokens: YaRN answers 90% right, no scaling 10%; "
        "within the trained 2048 no scaling answers 100% (chance 11%)."
    )
    assert "no scaling answers 90% right and no method more; within" in answer(made(0.9, 0.9))
    assert "no scaling answers 90% right and no method more; within" in answer(made(0.9, 0.3))
    assert answer(made(0.1, 0.9, inside=0.4)) == (
        "Task needle: a model answers 40% right even within its trained 2048 tokens (chance 11%), "
        "so this task says nothing about scaling here."
    )


def test_the_view_is_a_heatmap_per_method() -> None:
    view = over_depth(made(0.1, 0.9))
    assert view.title == "Task needle by length and depth; trained to 2048 tokens, chance 0.11"
    assert [panel.name for panel in view.panels] == ["no scaling", "YaRN"]
    for panel, last in zip(view.panels, (0.1, 0.9), strict=True):
        assert isinstance(panel, Heatmap)
        assert (panel.scale, panel.limit, panel.values.shape) == ("magnitude", 1.0, (3, 9))
        assert panel.rows.values == (1024, 2048, 4096)
        assert panel.columns.values == (0, 12.5, 25, 37.5, 50, 62.5, 75, 87.5, 100)
        assert panel.values[2].tolist() == pytest.approx([last] * 9)


def test_the_page_has_the_figure_its_numbers_and_how(tmp_path: Path) -> None:
    extension = extension_of(none=[2, 2, 3, 5, 7, 7], yarn=[2, 2, 2, 2, 2, 2], window=[2.5])
    page = write(extension, tmp_path, "posenc extend x", 3.0, None, [made(0.1, 0.9)]).read_text()
    assert '<a href="#needle">Task a number of each of nine places</a>' in page
    assert "data:image/svg+xml" in page
    assert (tmp_path / "figures" / "needle.png").stat().st_size > 10_000
    assert "<td>0.90<br><small>0.82 … 0.95</small></td>" in page  # Wilson's interval of 81 of 90
    assert "The secret number of Lima is 1739." in page
    shown = table(made(0.1, 0.9))
    assert [str(column.header) for column in shown.columns] == [
        "method",
        "at 1024",
        "at 2048",
        "at 4096",
        "minus no scaling at 2048",
    ]
    assert "chance 0.11" in str(shown.caption)


def test_lengths_start_within_the_trained_one_and_end_at_the_asked() -> None:
    assert spans(8192, 12_288) == (4096, 8192, 12_288)
    assert spans(8192, 32_768) == (4096, 8192, 16_384, 32_768)
    assert spans(8191, 16_382) == (4095, 8191, 16_382)


def test_refusals(tmp_path: Path, ledgers: Callable[[Path], Ledger]) -> None:
    small = Transformer(TransformerConfig(256, width=32, heads=2), posenc.Rotary(16, pairing="half"))
    with pytest.raises(InvalidArgument, match=r"pass a Hugging Face folder or a \.gguf file, or .* --tasks needle"):
        reader(StudyModel(small, "x", 128, "the small model of study"), ["needle"])
    short = Known(everything)
    short.original_length = 1024
    with pytest.raises(InvalidArgument, match=r"hides \d+ bytes in half the trained length of a known model, 512"):
        reader(short, ["needle"])
    with pytest.raises(StudyError, match="text 'dull' has 400 bytes; one haystack of 4096 needs as many"):
        retrieve(Known(everything), TEXT_BYTES[:400], TEXT, asked(), ledgers(tmp_path), in_process)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    save_llama(folder, ascii_letters + digits + " .\n", trained=2048)
    (folder / "text.txt").write_bytes(TEXT_BYTES)
    return folder


def test_questions_after_cached_keys_are_questions_in_one_piece(llama: Path) -> None:
    """Each question alone after the context, under a scaling: as one pass over both gives it."""
    model, _, _ = open_model(llama, llama / "text.txt", "cpu", "float32")
    context = model.encode(TEXT_BYTES[:300])
    questions = [model.encode(b"The secret of Lima is "), model.encode(b"Oslo is "), model.encode(b"Lima")]
    encoding = posenc.Rotary(16, pairing="half", scaling=YaRN(2, 2048), phases="float32")
    shares = list[float]()
    logits = reader(model, ["needle"]).answers(context, questions, encoding, shares.append)
    assert shares == [0, 0.5, 0.5]  # a layer each, and questions cost nothing worth counting
    for question, got in zip(questions, logits, strict=True):
        with torch.no_grad(), model.placed(encoding):
            whole = model.logits(torch.cat((context, question))[None])[0, -1]
        torch.testing.assert_close(got, whole, rtol=1e-4, atol=1e-4)  # float32 sums in another order


def test_a_tokenizer_without_digits_is_refused(tmp_path: Path) -> None:
    save_llama(tmp_path, ascii_letters + " .\n", trained=2048)
    model, _, _ = open_model(tmp_path, None, "cpu", "float32")
    with pytest.raises(StudyError, match="does not tell answers apart; leave --tasks out"):
        reader(model, ["needle"])


def test_memory_counts_the_cached_keys(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from posenc.integrations.huggingface import load

    model, _, _ = open_model(llama, None, "cpu", "float32")
    assert isinstance(model, load.Pretrained)
    plain, cached = model.memory(8192), model.memory(8192, cached=True)
    assert cached - plain == 8192 * 2 * 2 * 2 * 16 * 4  # keys and values of 2 layers, 2 heads of 16 numbers
    monkeypatch.setattr(load, "free_memory", lambda device: (plain + cached) // 2)
    model.check_memory(8192)
    with pytest.raises(StudyError, match="about 7168 tokens fit"):
        reader(model, ["needle"]).check_memory(8192, cached=True)


def test_the_command_asks_where_told_to(llama: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(command)
    text = ["--text", str(llama / "text.txt"), "--documents", "1", "--methods", "yarn"]
    text += ["--tasks", "needle,nth", "--output", str(tmp_path)]
    result = CliRunner().invoke(app, [str(llama), "--to", "2560", *text])
    assert result.exit_code == 0, result.output
    assert "needle: share of 9 answers right at each length, chance 0.11; trained to 2048" in result.stdout
    assert "nth: share of 9 answers right at each length, chance 0.11; trained to 2048" in result.stdout
    assert "Task the n-th of requests that are alike" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "figures" / "needle.svg").exists()
    numbers = json.loads((tmp_path / "extension.json").read_text())
    assert list(numbers["effective_length_by_task"]) == ["needle", "nth"]
    said = re.sub(r"[\s│]+", " ", CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout)
    assert "Also ask, by length and depth: needle, keys, values, chains, words, nth, separated by commas;" in said
