"""Claims about texts longer than the trained length. Each claim trains small models and needs ``--slow``."""

from dataclasses import replace
from functools import cache

import torch

from posenc.teaching.claims.claim import Evidence, Verdict, above, below, claim
from posenc.workbench.extension.methods import methods
from posenc.workbench.extension.models import StudyModel
from posenc.workbench.run.plan import Plan, Run
from posenc.workbench.run.training import task_of, train_and_test
from posenc.workbench.run.transformer import Transformer
from posenc.workbench.tasks.language import TARGETS
from posenc.workbench.tasks.text import load

PLAN = Plan(
    encoding="rotary",
    task="language",
    seed=0,
    steps=300,
    batch=16,
    learning_rate=4e-3,
    train_length=128,
    lengths=(128, 1024),
    test_count=32,
)


@cache
def trained_model(encoding: str) -> tuple[Transformer, Run]:
    """Train a model with this encoding on windows of 128 bytes, and test it at the lengths in ``PLAN``."""
    return train_and_test(replace(PLAN, encoding=encoding), load())


def losses(encoding: str) -> tuple[float, float]:
    """Return the losses in nats per byte on the same targets with 128 and with 1024 bytes of context."""
    by_length = {c.length: c.value for c in trained_model(encoding)[1].cells if c.measure == "loss"}
    return by_length[PLAN.lengths[0]], by_length[PLAN.lengths[-1]]


@claim(
    statement="RoPE and sinusoidal encodings generalise past the trained length, and ALiBi even improves there.",
    precise="With more context for the same targets, ALiBi stays level, and RoPE and sinusoidal encodings get "
    "worse. The gain that papers report for ALiBi comes mostly from later tokens of a window, which have more "
    "context.",
    verdict=Verdict.FAILS,
    source="measured here: 300 steps at 128 bytes, tested at 1024; Press et al. 2022, appendix B",
    slow=True,
)
def past_the_trained_length() -> Evidence:
    change = {name: far - near for name in ("alibi", "rotary", "sinusoidal") for near, far in (losses(name),)}
    return (
        below("ALiBi: nats lost from 128 to 1024", change["alibi"], 0.05),
        below("ALiBi: nats gained", -change["alibi"], 0.10),
        above("RoPE: nats lost", change["rotary"], 0.15),
        above("sinusoidal: nats lost", change["sinusoidal"], 0.3),
    )


@claim(
    statement="Flat perplexity past the trained length shows that a long context is used.",
    precise="A model can have flat perplexity and still use only nearby text: ALiBi's loss hardly changes if "
    "everything more than 256 bytes back is replaced by random bytes.",
    verdict=Verdict.FAILS,
    source="measured here: the same model as above",
    slow=True,
)
def flat_perplexity_is_no_proof() -> Evidence:
    near, far = losses("alibi")
    lost = lost_to_noise(trained_model("alibi")[0])
    return (
        below("change of the loss from 128 to 1024 (nats)", abs(far - near), 0.10),
        below("nats lost when distant text is noise", lost, 0.05),
    )


@torch.inference_mode()
def lost_to_noise(model: Transformer) -> float:
    """Return the increase of the loss in nats if all bytes more than 256 positions before the targets are
    random."""
    generator, lost = torch.Generator().manual_seed(0), []
    for batch in task_of(PLAN, load()).test_batches(1024, PLAN.test_count):
        scrambled, targets = batch.tokens.clone(), batch.targets[:, -TARGETS:]
        scrambled[:, : 1024 - 256 - TARGETS] = torch.randint(32, 127, (1024 - 256 - TARGETS,), generator=generator)
        outputs = (model(tokens)[:, -TARGETS:].mT for tokens in (batch.tokens, scrambled))
        real, noise = (torch.nn.functional.cross_entropy(each, targets, reduction="none") for each in outputs)
        lost.append((noise - real).mean(1))
    return float(torch.cat(lost).mean())


SCALED, REMAPPED = ("linear", "ntk", "dynamic", "yarn", "llama3"), ("self-extend", "dca", "rerope")
"""The methods of ``extend`` that change frequencies, and those that change the distances to far keys."""


@cache
def stretched(name: str) -> tuple[float, float]:
    """Return the losses in nats per byte on the first and last 128 of 1024 bytes, over four documents.

    ``name`` is a method that ``posenc.workbench.extend`` accepts, or ``"alone"``. With ``"alone"``, the model is
    unchanged and reads the last 128 bytes as a separate text.
    """
    trained, length = PLAN.lengths
    model = StudyModel(trained_model("rotary")[0], "", trained, "a small model")
    held_out = load().validation.long()
    method = methods((name if name != "alone" else "none",), model.scaling, trained, length / trained)[-1]
    documents = held_out[: 4 * length + 1].unfold(0, length + 1, length)
    texts = documents[:, -trained - 1 :] if name == "alone" else documents
    rows = torch.stack([model.losses(text, method.positions(model, len(text) - 1)) for text in texts])
    return float(rows[:, :trained].mean()), float(rows[:, -trained:].mean())


@claim(
    statement="Without tuning, scaled frequencies are the best way to run a RoPE model past its trained length.",
    precise="At 8 times its trained length, a small model's loss is 1.8 to 1.9 nats per byte with three "
    "remappings of positions and 2.3 with the best scaling. Remappings do not increase the loss on short texts. "
    "STRING, which reaches less than twice the trained length, does not help at 8 times this length.",
    verdict=Verdict.FAILS,
    source="measured here: 300 steps at 128 bytes, four documents of 1024 bytes, with posenc extend's settings",
    slow=True,
)
def remapping_beats_scaling() -> Evidence:
    plain, scaled = stretched("none"), min(stretched(name)[1] for name in SCALED)
    remapped = [stretched(name) for name in REMAPPED]
    return (
        above("best scaling − worst of three remappings", scaled - max(far for _, far in remapped), 0.15),
        below(
            "largest increase of the loss on short texts by a remapping",
            max(near - plain[0] for near, _ in remapped),
            0.02,
        ),
        below("STRING: nats gained over no scaling", plain[1] - stretched("string")[1], 0.3),
    )


@claim(
    statement="A model whose loss stays low far past its trained length uses distant text.",
    precise="With the remapping that has the lowest loss at 8 times the trained length, the last 128 bytes are "
    "predicted no better than without any earlier text.",
    verdict=Verdict.FAILS,
    source="measured here: the same model",
    slow=True,
)
def remapped_is_not_used() -> Evidence:
    far = min(stretched(name)[1] for name in REMAPPED)
    return (below("nats that a remapping gains over the last 128 bytes alone", stretched("alone")[1] - far, 0.02),)
