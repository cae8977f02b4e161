"""Carries out one plan: build the transformer, train it, test it, keep its weights."""

import time
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor, nn

import posenc
from posenc.encodings.encoding import Encoding
from posenc.errors import StudyError
from posenc.workbench.run.devices import over
from posenc.workbench.run.evaluate import evaluate
from posenc.workbench.run.job import Report, find_modules, unheard
from posenc.workbench.run.machine import hardware, versions
from posenc.workbench.run.plan import Cell, Plan, Run
from posenc.workbench.run.ranks import ALONE, Alone
from posenc.workbench.run.settings import Model
from posenc.workbench.run.state import Trained, forget
from posenc.workbench.run.trainer import Recipe, train
from posenc.workbench.run.transformer import Transformer, TransformerConfig
from posenc.workbench.run.weights import save
from posenc.workbench.tasks import Source, Task, Text, task


@dataclass(frozen=True)
class TrainingJob:
    """A plan, and where its worker finds the text, leaves weights and state, and finds modules of one's own."""

    plan: Plan
    source: Source
    folder: Path
    modules: tuple[Path, ...] = ()

    def carry_out(self, report: Report = unheard) -> Run[Plan]:
        """Train and test in this process; the weights land in ``folder/<plan id>.safetensors``."""
        if self.plan.devices > 1:
            return over(self, report)
        found = self.together(report, ALONE)
        assert found is not None
        return found

    def together(self, report: Report, ranks: Alone) -> Run[Plan] | None:
        """What every process of the run does; all have trained when the first tests alone and returns it."""
        find_modules(self.modules)
        started, plan = time.perf_counter(), self.plan
        text = self.source.load()
        if plan.text_sha256 not in ("", text.sha256):
            raise StudyError(f"text {text.name!r} is no longer what the study began with; run the command again")
        state = self.folder / f"{plan.id}.state"
        taught = teach(plan, text, report, state, ranks)
        if not ranks.first:
            return None
        save(taught.model, self.folder / f"{plan.id}.safetensors")
        forget(state)
        parameters = sum(p.numel() for p in taught.model.parameters())
        return Run(
            plan,
            taught.cells,
            time.perf_counter() - started,
            parameters,
            taught.trained.final_loss,
            versions=versions(),
            hardware=hardware(plan.device),
            verdict=taught.trained.verdict,
            curve=taught.trained.curve,
        )


@dataclass(frozen=True)
class Taught:
    """What became of a plan.

    Args:
        task: that it was taught.
        model: with what it learnt, ready to be asked.
        trained: its losses, and a verdict where it was lost.
        cells: what its tests found; none where it was lost, nor where another process tests.
    """

    task: Task
    model: Transformer
    trained: Trained
    cells: tuple[Cell, ...]


def teach(
    plan: Plan, text: Text, report: Report = unheard, state: Path | None = None, ranks: Alone = ALONE
) -> Taught:
    """Build the transformer of a plan, train it on the plan's task and test it, here and now; nothing is kept."""
    made = task_of(plan, text)
    model = build(plan, made)
    trained = learn(model, made, plan, report, state, ranks)
    model = ranks.whole(model, lambda: build(plan, made)).eval()
    asked = ranks.first and not trained.verdict
    return Taught(made, model, trained, evaluate(model, made, plan.lengths, plan.test_count) if asked else ())


def task_of(plan: Plan, text: Text) -> Task:
    """The task of a plan, learnt and tested at the plan's lengths."""
    return task(plan.task, text, plan.lengths[-1], plan.train_length)


def encoding(plan: Plan) -> Encoding:
    """The encoding of a plan; somebody's own class is imported.

    A scaling that depends on the length of a request is planned for the longest test, and trained so: no key is
    ever stale.
    """
    return posenc.encoding(
        plan.settings or plan.encoding,
        width=plan.width,
        heads=plan.heads,
        head_dim=plan.head_dim,
        num_positions=plan.train_length,
        layers=plan.layers,
        total_length=plan.lengths[-1],
    )


def config(plan: Plan, made: Task) -> TransformerConfig:
    """The transformer of a plan for a task; an output map is tied where the task says its inputs."""
    said = {each.name: getattr(plan, each.name) for each in fields(Model)}
    tied = plan.tied and made.outputs == made.vocabulary
    return TransformerConfig(
        made.vocabulary,
        outputs=made.outputs,
        causal=made.causal,
        recompute=plan.recompute,
        **{**said, "tied": tied},
    )


def build(plan: Plan, made: Task) -> Transformer:
    """The transformer of a plan, with the plan's initial weights: the same for every encoding but its own."""
    model = Transformer(config(plan, made), encoding(plan)).initialise(plan.seed)
    return model.to(device=plan.device, dtype=getattr(torch, plan.dtype))


def learn(
    model: Transformer,
    made: Task,
    plan: Plan,
    report: Report = unheard,
    state: Path | None = None,
    ranks: Alone = ALONE,
) -> Trained:
    """Train the model of a plan on its task, with the plan's batches in the plan's order."""
    wrapped = ranks.wrapped(model)
    forward: nn.Module = torch.compile(wrapped) if plan.compile else wrapped  # type: ignore[assignment]

    def portion(generator: torch.Generator) -> tuple[Tensor, int]:
        batch = made.train_batch(generator, plan.batch).on_axes(model.encoding.axes)
        return ranks.loss(*ranks.outputs(forward, batch, plan.device)), batch.tokens.numel()

    recipe = Recipe(plan.id, plan.steps, plan.learning_rate, plan, state, ranks=ranks)
    return train(model, portion, plan.seed, recipe, report)
