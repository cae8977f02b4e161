"""The table of all encodings: laws, contents of a cache, methods that extend the context, and users."""

from collections.abc import Mapping, Sequence

import torch

import posenc
from posenc.encodings.layers import for_layers
from posenc.errors import InvalidArgument
from posenc.laws import computes
from posenc.laws.check import verdict
from posenc.laws.law import Law
from posenc.laws.subject import Subject
from posenc.scaling import METHODS, method, planned

HEAD_DIM, HEADS, LENGTH = 8, 4, 64
KEPT = {"kept": True, "not owed": False}


def row(name: str) -> dict[str, str]:
    """Return the cells of one encoding by column, measured by running it.

    Whether scores depend only on offsets, and whether rotation preserves norms, is declared by the encoding and
    verified by running the laws. A cached key may have more or fewer channels than the head, and a cache may keep
    further values.
    """
    subject = Subject.of(name, heads=HEADS, head_dim=HEAD_DIM, num_positions=LENGTH)
    encoding = subject.declared
    alone = subject.make()
    here, state = encoding.at(subject.plain(3))[0].with_content(torch.zeros(1, 3, subject.width))
    q = torch.zeros(1, HEADS, 3, HEAD_DIM)
    channels = here.rotate(q, q[:, : subject.kv_heads])[1].shape[-1] / HEAD_DIM
    keys = "k, v" if channels == 1 else f"{channels:g}·k, v"
    rotates = "queries_keys" in encoding.acts_on
    return {
        "encoding": f"`{name}`",
        "acts on": ", ".join(alone.acts_on).replace("_", " and ") or "–",
        "offsets only": _yes(encoding.relative and holds(computes.sees_only_the_offset, subject)),
        "keeps lengths": _yes(encoding.isometric and holds(computes.rotation_keeps_norms, subject))
        if rotates
        else "–",
        "axes": str(encoding.axes),
        "a cache keeps": keys if state is None else f"{keys}, {state.shape[1] / HEADS:g} per head",
        "cached keys move": _yes(not alone.not_rerotatable),
        "extends by": ", ".join(methods(for_layers(alone, 1))) or "–",
    }


def holds(law: Law, subject: Subject) -> bool:
    """Return whether the encoding obeys a law; raise an error if it breaks one that it declares."""
    answer = verdict(law, subject)
    if answer.outcome not in KEPT:
        raise InvalidArgument(f"{subject.name} breaks {law.name}: {answer.detail}; fix it before writing the table")
    return KEPT[answer.outcome]


def methods(encoding: posenc.Encoding) -> tuple[str, ...]:
    """Return the extension methods that change the encoding's frequencies."""
    if encoding.scaling is None:
        return ()
    plans = {name: planned(method(name, 4.0, LENGTH), 4 * LENGTH) for name in METHODS if name != "none"}
    return tuple(name for name, plan in plans.items() if encoding.with_scaling(plan).scaling != encoding.scaling)


def table(shipped: Mapping[str, Sequence[str]]) -> str:
    """Return the table in Markdown; ``shipped`` names the models that use each encoding."""
    for name in shipped:
        posenc.encodings.catalogue.lookup(name)  # an unknown name is an error
    rows = [row(name) | {"shipped in": ", ".join(shipped.get(name, ())) or "research"} for name in posenc.CATALOGUE]
    lines = [f"| {' | '.join(rows[0])} |", "| --- " * len(rows[0]) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(cells.values())} |" for cells in rows)]) + "\n"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
