"""A callback for transformers' Trainer that measures the loss by position during training."""

from collections.abc import Callable
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.load import Pretrained
from posenc.integrations.huggingface.model_laws import unchanged


def loss_by_position(
    text: str,
    *,
    length: int | None = None,
    every: int = 500,
    tokenizer: Any = None,
    report: Callable[[int, dict[str, float]], Any] = lambda step, losses: None,
) -> Any:
    """Score the beginning of ``text`` before the first step, every ``every`` steps, and after the last step.

    ``Trainer(model, args, callbacks=[loss_by_position(text)], …)``. Losses are those of ``posenc extend``, in nats
    per token under the model's own positions: ``loss_to_1024`` is the mean over positions 512 … 1023. They go into
    the Trainer's log history, and so into ``trainer_state.json``, and to ``report``. The first process scores and
    needs all weights, so sharded models do not work.

    Args:
        length: positions that are scored; four times the length that the model's config states.
        every: steps.
        tokenizer: the Trainer's own ``processing_class`` if it has one.
        report: called with the step and the losses by name.

    Raises:
        InvalidArgument: when training begins: there is no tokenizer, or the text is too short.
    """
    from transformers import TrainerCallback

    class LossByPosition(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            step = state.global_step
            if state.is_world_process_zero and (step % every == 0 or step == state.max_steps):
                model, reader = given["model"], tokenizer or given.get("processing_class")
                if reader is None:
                    raise InvalidArgument(
                        "tokenizer=None, and the Trainer has no processing_class; pass one of them"
                    )
                one = Pretrained.loaded(model, reader)
                losses = by_position(one, text, length or 4 * one.original_length)
                state.log_history.append({**losses, "step": step, "epoch": state.epoch})
                report(step, losses)

        on_train_begin = on_step_end  # at step 0

    return LossByPosition()


def by_position(model: Pretrained, text: str, length: int) -> dict[str, float]:
    """The losses of the first ``length`` positions by name, each the mean since the previous length."""
    tokens = model.encode(text.encode())[: length + 1]
    if len(tokens) <= length:
        raise InvalidArgument(f"text has {len(tokens)} tokens, and {length} positions need {length + 1}; pass more")
    with unchanged(model.model):  # dynamic scaling keeps the frequencies for the last text's length
        losses = model.losses(tokens, None)
    ends = [max(1, model.original_length // 4)]
    while ends[-1] < length:
        ends.append(min(2 * ends[-1], length))
    return {
        f"loss_to_{end}": float(losses[start:end].double().mean())
        for start, end in zip([0, *ends], ends, strict=False)
    }
