"""Trains a model step by step, and reports every loss. A resumed run gives the same losses as an uninterrupted
run."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.encodings.encoding import Encoding
from posenc.workbench.run.checkpoint import load_state, save_state
from posenc.workbench.run.job import Progress, Report
from posenc.workbench.run.plan import LossCurve
from posenc.workbench.run.settings import Training

REPORT_EVERY = 0.25
"""The number of seconds between two reports. Losses are fetched from the device only for reports."""
STATE_EVERY = 60.0
"""The number of seconds between two saves of the training state; a shorter run saves no state."""
VALIDATIONS = 20
"""The number of validation losses per run, if the run has at least this many steps."""
DIVERGED, FOR = 10.0, 10
"""A run has diverged if a loss is NaN or infinite, or if the losses of ``FOR`` consecutive steps are more than
``DIVERGED`` times the first loss.
"""


Portion = Callable[[torch.Generator], tuple[Tensor, int]]
"""A function that draws the next batch, and returns the mean loss (with a gradient) and the number of tokens."""


def train(
    model: nn.Module,
    portion: Portion,
    how: Training,
    report: Report,
    *,
    run: str,
    steps: int,
    learning_rate: float,
    seed: int,
    path: Path | None = None,
    work: float = 1.0,
    validate: Callable[[], Tensor] | None = None,
) -> LossCurve:
    """Train ``model`` in place. A run that is killed and resumed from its state file gives the same losses and
    weights as an uninterrupted run.

    Training stops early, with a verdict, if the loss is NaN or stays far above the first loss.

    Args:
        run: the plan's id, for reports.
        path: the file of the training state; None to store no state.
        work: how much one step adds to ``Progress.work``: 1, or the number of tokens that the step reads.
        validate: a function that returns the loss on held-out sequences, and does not affect training.
    """
    parameters = list(model.parameters())
    device = parameters[0].device
    optimiser = _optimiser(model, how, learning_rate)
    generator = torch.Generator().manual_seed(seed)

    def tell(first: int, curve: LossCurve) -> None:
        report(Progress(run, len(curve.losses) * work, first, curve))

    watch = _Watch(tell, load_state(path, model, optimiser, generator) if path else LossCurve())
    for step in range(len(watch.curve.losses), steps):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * factor(step, steps, how)
        model.zero_grad(set_to_none=True)
        total, tokens = torch.zeros((), device=device), 0
        for _ in range(how.accumulate):
            with _autocast(how, device):
                loss, count = portion(generator)
            (loss / how.accumulate).backward()
            total, tokens = total + loss.detach().float() / how.accumulate, tokens + count
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if how.clip:
            torch.nn.utils.clip_grads_with_norm_(parameters, how.clip, norm)
        optimiser.step()
        watch.waiting.append((total, norm, tokens))
        if validate and (step + 1) * VALIDATIONS // steps > step * VALIDATIONS // steps:
            with torch.no_grad(), _autocast(how, device):
                watch.validation.append((step, validate()))
        if watch.look() and path:
            save_state(path, model, optimiser, generator, watch.curve)
        if watch.curve.verdict:
            break
    watch.report()
    return watch.curve


def factor(step: int, steps: int, how: Training) -> float:
    """Return the factor by which the learning rate is multiplied: it rises during warm-up, then follows the
    schedule."""
    warm = max(1, int(how.warm_up * steps))
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    left = 0.5 * (1 + math.cos(math.pi * done)) if how.schedule == "cosine" else 1.0
    return how.floor + (1 - how.floor) * left


def _optimiser(model: nn.Module, how: Training, learning_rate: float) -> torch.optim.Optimizer:
    """Create an AdamW optimiser with weight decay only for the weights of linear layers.

    Biases, norm weights and embeddings do not decay. Parameters of positional encodings do not decay either,
    because decay would favour encodings without parameters.
    """
    exempt = {
        parameter
        for module in model.modules()
        if isinstance(module, nn.Embedding | Encoding)
        for parameter in module.parameters()
    }
    decayed = [p for p in model.parameters() if p.ndim > 1 and p not in exempt]
    others = [p for p in model.parameters() if p.ndim <= 1 or p in exempt]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, learning_rate, (how.beta1, how.beta2), weight_decay=how.weight_decay, fused=True
    )


def _autocast(how: Training, device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=how.autocast == "bfloat16")


class _Watch:
    """Collects losses, reports them from time to time, and stops a run that has diverged.

    ``waiting`` has the loss, the gradient norm and the number of tokens of every step since the last report.
    ``validation`` has the step and the loss of every validation since then.
    """

    def __init__(self, tell: Callable[[int, LossCurve], None], curve: LossCurve) -> None:
        self.tell, self.curve = tell, curve
        self.waiting: list[tuple[Tensor, Tensor, int]] = []
        self.validation: list[tuple[int, Tensor]] = []
        self.reported = self.saved = time.monotonic()
        if curve.losses:
            tell(0, curve)

    def look(self) -> bool:
        """Send a report if it is due, and return whether the state should be saved."""
        now = time.monotonic()
        due, late = now - self.saved >= STATE_EVERY, now - self.reported >= REPORT_EVERY
        if due or late:
            self.report()
        self.saved = now if due else self.saved
        return due and not self.curve.verdict

    def report(self) -> None:
        """Fetch the pending losses, check them for divergence in the order of their steps, and report them."""
        if not self.waiting:
            return
        *tensors, tokens = zip(*self.waiting, strict=True)
        losses, norms = (torch.stack(each).tolist() for each in tensors)
        first, now = len(self.curve.losses), time.monotonic()
        count, verdict = _judged((*self.curve.losses, *losses), first)
        steps = LossCurve(
            tuple(losses[:count]),
            sum(tokens[:count]),
            (now - self.reported) * count / len(losses),  # without the steps after the end of a diverged run
            tuple(norms[:count]),
            tuple((step, float(loss)) for step, loss in self.validation if step < first + count),
            verdict,
        )
        self.curve = self.curve.then(steps)
        self.tell(first, steps)
        self.waiting, self.validation, self.reported = [], [], now


def _judged(losses: Sequence[float], first: int) -> tuple[int, str]:
    """Judge the losses of step ``first`` and later steps; ``losses`` begins at step 0.

    Return how many of the judged losses to keep, and a message if training has diverged. If training has not
    diverged, all judged losses are kept and the message is empty.
    """
    for step in range(first, len(losses)):
        value, last = losses[step], losses[max(0, step + 1 - FOR) : step + 1]
        if not math.isfinite(value) or (len(last) == FOR and min(last) > DIVERGED * losses[0]):
            loss = f"{value:.3g}" if math.isfinite(value) else "NaN or infinite"
            return step + 1 - first, f"diverged: at step {step} the loss is {loss}"
    return len(losses) - first, ""
