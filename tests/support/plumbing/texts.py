"""The law that every string for an encoding makes an equal encoding."""

import torch

from posenc.encodings.catalogue import ModelShape, build, canonical
from posenc.encodings.encoding import Encoding
from posenc.encodings.layers import for_layers
from posenc.encodings.text import Recipe, parse
from posenc.laws.effects import effects
from posenc.laws.law import law, owed, same
from posenc.laws.subject import ROWS, Subject
from support.cases import Case


def _no_text(subject: Subject) -> str:
    return "" if isinstance(subject, Case) and subject.recipe is not None else "it was not made from a text"


@law(_no_text)
def texts_are_encodings(subject: Subject) -> None:
    """A recipe's string parses to the recipe, and its brief and full canonical forms make the same encoding.

    Store every argument of ``__init__`` under its name, and build equal encodings from equal arguments.
    """
    recipe = subject.recipe
    owed(parse(str(recipe)) == recipe, f"{recipe} parses to {parse(str(recipe))!r}")
    shape = ModelShape(subject.width, subject.heads, subject.head_dim, ROWS, subject.layers)
    want = effects(subject, subject.build(), subject.plain(9))
    for full in (False, True):
        other = canonical(recipe, full=full)
        owed(
            canonical(parse(str(other)), full=full) == other,
            f"the canonical text {other} has another canonical text",
        )
        owed(canonical(other) == canonical(recipe), f"{other} and {recipe} differ in their brief form")
        same(effects(subject, _built(other, shape, subject.layers), subject.plain(9)), want, f"made from {other}")


def _built(recipe: Recipe, shape: ModelShape, layers: int) -> Encoding:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return for_layers(build(recipe, shape), layers)


LAWS = (texts_are_encodings,)
