"""LongPPL, the perplexity of tokens that distant text helps to predict (Fang et al. 2024, arXiv 2410.23771).

An evaluator picks the key tokens of a document. With the evaluator's loss −log P(x | context) in nats, a token x is
a key token if

    LSD = loss after a short context − loss after the long context > ``GAIN``     (long-short difference)
    LCL = −loss after the long context > ``LIKELY``                             (long-context likelihood)

The LongPPL of a model is exp(mean loss of the model on key tokens). The short context of a block of ``stride``
tokens begins ``short`` tokens before the block. The long context is the whole text before the token. The windows
differ from those of the authors' code in two cases. If a document is longer than the evaluator's trained length,
the evaluator reads the document in windows of that length. Then the long context of a token after the first window
is not the whole text before it, but at least three quarters of the trained length. If the trained length is less
than four times the authors' short context, ``short`` is a quarter of the trained length.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.workbench.extension.decision import Candidate, Extension, paired
from posenc.workbench.extension.methods import Method
from posenc.workbench.extension.models import LanguageModel, StudyModel, Tick, part_of
from posenc.workbench.extension.scoring import Scoring, ScoringJob
from posenc.workbench.study.statistics import NO_VALUE, Interval, number, perplexity

if TYPE_CHECKING:  # the module needs transformers
    from posenc.integrations.huggingface.load import Pretrained

GAIN, LIKELY = 2.0, -2.0
"""The thresholds α and β of the paper, in nats."""
SHORT = 4096
"""The number of tokens in a short context, if the evaluator's trained length is at least four times as large."""


class Evaluator:
    """A model that picks key tokens. Compare LongPPL only between results with the same evaluator.

    A long context has at most ``long`` tokens. ``method`` applies the scaling in the model's own config. ``rule``
    holds the lengths of the contexts and the thresholds for key tokens.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model, self.long = model, model.original_length
        self.short = max(1, min(SHORT, self.long // 4))
        self.stride = max(1, self.short // 4)
        self.method = Method("key tokens", "key tokens", model.scaling)
        self.rule: dict[str, float] = {
            "long": self.long,
            "short": self.short,
            "stride": self.stride,
            "gain": GAIN,
            "likely": LIKELY,
        }

    def windows(self, n: int) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
        """Return windows over n tokens with long and with short contexts, each as a triple of start, first target
        and end."""
        step, after = max(1, self.long // 4), self.long + 1
        ends = [(first, min(first + step, n)) for first in range(after, n, step)]
        long = [(0, 1, min(after, n)), *((end - after, first, end) for first, end in ends)]
        starts = range(0, n - self.short, self.stride)
        return long, [(i, i + self.short, min(i + self.short + self.stride, n)) for i in starts]

    def work(self, n: int) -> int:
        """Return the number of tokens that the evaluator reads for a text of n tokens."""
        return sum(end - start for windows in self.windows(n) for start, _, end in windows)

    def key(self, ids: Int[Tensor, " n"], tick: Tick) -> Bool[Tensor, " n"]:
        """Return a mask of the key tokens in a text."""
        total, losses = self.work(len(ids)), torch.full((2, len(ids)), math.nan)
        with self.model.placed(self.method.positions(self.model, self.long)):
            for row, windows in zip(losses, self.windows(len(ids)), strict=True):
                for start, first, end in windows:
                    read = self.model.losses(ids[start:end], None, part_of(tick, (end - start) / total))
                    row[first:end] = read[first - end :]
        long, short = losses
        return (short - long > GAIN) & (-long > LIKELY)  # False if a loss was not measured

    def as_json(self) -> dict[str, Any]:
        """Return ``rule`` for JSON, with the name and the identity of the evaluator's model."""
        return {"model": self.model.name, "identity": self.model.identity, **self.rule}


def same_tokens(model: LanguageModel, tick: Tick, *, ids: Int[Tensor, " T+1"]) -> list[list[float]]:
    """Mark the key tokens among a document's targets with 1, and other targets with 0."""
    text = ids if isinstance(model, StudyModel) else torch.cat((model.beginning, ids))
    return [Evaluator(model).key(text, tick)[1 - len(ids) :].double().tolist()]


def other_tokens(
    model: LanguageModel,
    tick: Tick,
    *,
    text: str,
    spans: Int[Tensor, "T+1 2"],
) -> list[list[float]]:
    """Mark the key tokens as in ``same_tokens``, for an evaluator with a different tokenizer.

    A target is a key token if all its characters lie within key tokens of the evaluator. ``spans`` has the start
    and the end of each token in ``text``, in characters.
    """
    assert not isinstance(model, StudyModel)
    ids, theirs = model.spans(text)
    key = Evaluator(model).key(torch.cat((model.beginning, ids)), tick)[len(model.beginning) :]
    covered = torch.zeros(len(text) + 1, dtype=torch.int64)
    for first, end in theirs[key].tolist():
        covered[first + 1 : end + 1] = 1
    before = covered.cumsum(0)
    first, end = spans[1:].unbind(1)
    return [((before[end] - before[first] == end - first) & (end > first)).double().tolist()]


def jobs(
    evaluator: Evaluator,
    model: LanguageModel,
    data: bytes,
    documents: Sequence[Int[Tensor, " T+1"]],
    plan: Scoring,
    folder: Path,
) -> list[ScoringJob]:
    """Return the jobs that pick the key tokens of each document.

    Args:
        model: the model that is scored.
        data: the concatenated documents.
        documents: the tokens of each document for ``model``.
        plan: the plan for scoring a document with ``model``.

    Raises:
        InvalidArgument: evaluator and model differ, and one of them reads bytes or has a tokenizer without offsets.
    """
    theirs = evaluator.model
    theirs.check_memory(evaluator.long)
    marks = [partial(same_tokens, ids=ids) for ids in documents]
    if theirs is not model:
        if isinstance(model, StudyModel) or isinstance(theirs, StudyModel):
            raise InvalidArgument(
                f"longppl={theirs.name!r} cannot pick key tokens for {model.name}, because one of the two models "
                "reads bytes; use longppl='self'"
            )
        marks = _on_passages(model, data, [len(ids) for ids in documents])
    jobs = []
    for index, (ids, rows) in enumerate(zip(documents, marks, strict=True)):
        read = f"{plan.text_sha256} {ids.tolist()} {evaluator.rule}"
        each = replace(
            plan,
            model=theirs.identity,
            method=evaluator.method.name,
            scaling=evaluator.method.values,
            text_sha256=hashlib.sha256(read.encode()).hexdigest(),
            documents=(index,),
            length=evaluator.work(len(ids)),  # in tokens read, the unit of progress
            buckets=plan.length,
        )
        jobs.append(ScoringJob(plan=each, folder=folder, model=theirs, method=evaluator.method, rows=rows))
    return jobs


def _on_passages(model: "Pretrained", data: bytes, lengths: Sequence[int]) -> list[partial[list[list[float]]]]:
    """Return ``other_tokens`` for each document, with the arguments ``text`` and ``spans`` filled in."""
    text = data.decode("utf-8", "replace")
    spans, start, marks = model.spans(text)[1], 0, []
    for length in lengths:
        each = spans[start : start + length]
        first, end = int(each[0, 0]), int(each[-1, 1])
        marks.append(partial(other_tokens, text=text[first:end], spans=each - first))
        start += length - 1
    return marks


@dataclass(frozen=True)
class LongPPL:
    """The LongPPL of one method.

    Args:
        value: exp(mean loss on key tokens) of each document, averaged with the number of key tokens as weight, as
            in the authors' code; NaN without key tokens.
        beyond: the same average for key tokens past the trained length.
        to_unchanged: the loss on key tokens minus the unchanged model's, paired over documents with key tokens.
    """

    value: float
    beyond: float
    to_unchanged: Interval

    def as_json(self) -> dict[str, Any]:
        """Return the values for JSON, with None for numbers that are not finite."""
        return {
            "value": number(self.value),
            "beyond": number(self.beyond),
            "to_unchanged": self.to_unchanged.as_json(),
        }


def longppl(extension: Extension, curve: Candidate) -> LongPPL:
    """Compute the LongPPL of a candidate whose losses are stored for each token."""
    key, unchanged = extension.key, extension.unchanged.tokens
    assert key is not None
    assert unchanged is not None
    assert curve.tokens is not None
    far = key & (torch.arange(key.shape[1]) >= extension.original_length)
    some = key.any(1)
    gaps = [_mean(of, key)[some].tolist() for of in (curve.tokens, unchanged)]
    anywhere, beyond = (_over(curve.tokens, which) for which in (key, far))
    return LongPPL(anywhere, beyond, paired(*gaps) if some.any() else NO_VALUE)


def _mean(losses: Float[Tensor, "documents T"], key: Bool[Tensor, "documents T"]) -> Float[Tensor, " documents"]:
    return losses.masked_fill(~key, 0.0).sum(1) / key.sum(1)


def _over(losses: Float[Tensor, "documents T"], key: Bool[Tensor, "documents T"]) -> float:
    """Average the documents' perplexities on key tokens, with the number of key tokens as weight."""
    counts = key.sum(1)
    each = [perplexity(loss) * n for loss, n in zip(_mean(losses, key).tolist(), counts.tolist(), strict=True) if n]
    return sum(each) / int(counts.sum()) if each else math.nan
