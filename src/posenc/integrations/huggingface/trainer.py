"""Callbacks for transformers' Trainer, and assertions about models and packed texts."""

import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.arguments import at_least
from posenc.errors import InvalidArgument
from posenc.integrations.fingerprint import fingerprint as fingerprint_of
from posenc.integrations.huggingface.config import read
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.load import Pretrained
from posenc.integrations.huggingface.measuring.probe import unchanged
from posenc.integrations.huggingface.model_laws import check
from posenc.integrations.position_table import of
from posenc.laws.law import owed


def loss_by_position(
    text: str,
    *,
    length: int | None = None,
    every: int = 500,
    tokenizer: Any = None,
    report: Callable[[int, dict[str, float]], Any] = lambda step, losses: None,
) -> Any:
    """Return a callback that scores ``text`` before the first step, every ``every`` steps, and after the last step.

    Use it as ``Trainer(model, args, callbacks=[loss_by_position(text)], …)``. Losses are in nats per token, with
    the model's own positional encoding, as in ``posenc extend``. Each loss is the mean over a range of positions,
    and its name gives the end of the range. For example, if the first two losses are ``loss_to_512`` and
    ``loss_to_1024``, the second is the mean over positions 512 … 1023. The losses are written to the Trainer's log
    history, which is saved in ``trainer_state.json``, and are passed to ``report``. Only the first process scores
    the text, and it needs all weights, so sharded models do not work.

    Args:
        text: the text whose beginning is scored.
        length: the number of positions to score. The default is four times the length in the config. A model
            whose table of positions ends earlier is scored to the end of the table.
        every: the number of steps between scores.
        tokenizer: a tokenizer. The default is the Trainer's ``processing_class``.
        report: a function that is called with the step and the losses by name.

    Raises:
        InvalidArgument: when training begins, there is no tokenizer or the text is too short.
    """
    from transformers import TrainerCallback

    length = None if length is None else at_least(1)(length, "length")
    at_least(1)(every, "every")

    class LossByPosition(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            step = state.global_step
            if state.is_world_process_zero and (step % every == 0 or step == state.max_steps):
                model, reader = given["model"], tokenizer or given.get("processing_class")
                if reader is None:
                    raise InvalidArgument(
                        "tokenizer=None, and the Trainer has no processing_class; pass a tokenizer"
                    )
                pretrained = Pretrained(model, reader, read(model.config), type(model).__name__)
                ends = FAMILIES[pretrained.positions.model_type].table_ends or any(
                    "embeddings" in encoding.acts_on for encoding in pretrained.positions.encodings(1).values()
                )
                longest = pretrained.positions.max_length if ends else sys.maxsize
                losses = by_position(pretrained, text, min(length or 4 * pretrained.original_length, longest))
                state.log_history.append({**losses, "step": step, "epoch": state.epoch})
                report(step, losses)

        on_train_begin = on_step_end  # at step 0

    return LossByPosition()


def by_position(model: Pretrained, text: str, length: int) -> dict[str, float]:
    """Return the mean losses over consecutive ranges of the first ``length`` positions, keyed by names such as
    ``loss_to_512``."""
    tokens = model.encode(text.encode())[: length + 1]
    if len(tokens) <= length:
        raise InvalidArgument(
            f"text has {len(tokens)} tokens, but {length} positions need {length + 1}; pass a longer text"
        )
    with unchanged(model.model):  # dynamic scaling keeps the frequencies for the last text's length
        losses = model.losses(tokens, None)
    ends = [min(max(1, model.original_length // 4), length)]
    while ends[-1] < length:
        ends.append(min(2 * ends[-1], length))
    return {
        f"loss_to_{end}": float(losses[start:end].double().mean())
        for start, end in zip([0, *ends], ends, strict=False)
    }


def positions_callback(tokenizer: Any = None, *, packed: bool = True) -> Any:
    """Return a callback for transformers' Trainer that checks the model with ``check`` before its first step.

    Use it as ``Trainer(model, args, callbacks=[positions_callback()], …)``. If the model fails a test of
    ``check``, the callback raises an AssertionError with the report of ``check`` before training starts.
    """
    from transformers import TrainerCallback

    class PositionsAreRight(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            report = check(model, tokenizer, packed=packed)
            owed(report.ok, str(report))

    return PositionsAreRight()


def assert_positions(model: object, fingerprint: str) -> None:
    """Check in CI that a model has this fingerprint, before its weights are served or trained.

    Args:
        model: a model, or its config as in ``huggingface.read``.
        fingerprint: a fingerprint, as printed by ``posenc inspect PATH --fingerprint``.

    Raises:
        AssertionError: the fingerprint differs.
        InvalidArgument: the config cannot be read.
    """
    computed = fingerprint_of(of(read(getattr(model, "config", model))))
    owed(computed == fingerprint, f"positions differ: expected {fingerprint}, but this model has {computed}")


def assert_packed(position_ids: Int[Tensor, "*axes B T"], cu_seqlens: Int[Tensor, " n"]) -> None:
    """Check that the lengths and the position ids of texts packed into a row agree.

    Args:
        position_ids: of shape ``(B, T)``. They restart at 0 in every text and count up by one. Rows are read one
            after another, so a text that is cut at the end of a row continues in the next row. With several axes,
            the shape is ``(A, B, T)``, and all axes restart at 0 together.
        cu_seqlens: the index of each text's first token among all B·T tokens, and B·T at the end.

    Raises:
        AssertionError: ``cu_seqlens`` and the position ids contradict each other; the message names the first
            wrong token. For one text of L tokens with three axes, ``cu_seqlens = [0, L, 2L, 3L]`` is wrong,
            because it counts each axis as a text; ``[0, L]`` is right.
    """
    rows = position_ids.reshape(-1, position_ids.shape[-2:].numel()).cpu()
    ends, (axes, tokens) = torch.as_tensor(cu_seqlens).tolist(), rows.shape
    each_axis = f": an axis of position_ids {tuple(position_ids.shape)} is not a text" * (
        axes > 1 and ends[-1:] == [axes * tokens]
    )
    owed(
        ends[:1] == [0] and ends[-1:] == [tokens] and all(a < b for a, b in pairwise(ends)),
        f"cu_seqlens {ends} does not increase from 0 to {tokens}, the number of tokens{each_axis}; pass the start "
        "of each text in the row, and the number of all tokens",
    )
    want = torch.cat([torch.arange(b - a) for a, b in pairwise(ends)])
    wrong = (rows != want).any(0) if axes == 1 else (rows == 0).all(0) != (want == 0)
    at = int(wrong.int().argmax())
    owed(
        not bool(wrong.any()),
        f"token {at} has position {rows[:, at].tolist()} but is at index {int(want[at])} of its text; restart "
        f"position ids at 0 where cu_seqlens {ends} starts a text",
    )
