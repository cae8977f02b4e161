"""The table of all encodings: laws, contents of a cache, methods that extend the context, and users."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
COLUMNS = (
    "encoding",
    "acts on",
    "offsets only",
    "keeps lengths",
    "axes",
    "a cache keeps",
    "cached keys move",
    "extends by",
    "shipped in",
)
KEPT = {"kept": True, "not owed": False}


@dataclass(frozen=True)
class Row:
    """A row of the table, for one encoding of the catalogue.

    Args:
        name: its name in the catalogue.
        acts_on: where the encoding acts.
        relative, isometric: whether scores depend only on offsets, and whether rotation preserves norms; declared
            by the encoding and verified by running the laws.
        axes: the number of coordinates of a position.
        key_channels: the channels of a cached key, as a multiple of the head's.
        state_size: the values that a cache keeps per token and layer in addition to keys and values.
        not_rerotatable: why cached keys cannot be moved; empty if they can.
        methods: the extension methods that change its output.
    """

    name: str
    acts_on: tuple[str, ...]
    relative: bool
    isometric: bool
    axes: int
    key_channels: float
    state_size: int
    not_rerotatable: str
    methods: tuple[str, ...]


def row(name: str) -> Row:
    """Return the row of one encoding, measured by running it."""
    subject = Subject.of(name, heads=HEADS, head_dim=HEAD_DIM, num_positions=LENGTH)
    encoding = subject.declared
    alone = subject.make()
    x = torch.zeros(1, 3, subject.width)
    here, state = encoding.at(subject.plain(3))[0].with_content(x)
    q = torch.zeros(1, HEADS, 3, HEAD_DIM)
    key = here.rotate(q, q[:, : subject.kv_heads])[1]
    return Row(
        name,
        alone.acts_on,
        encoding.relative and holds(computes.sees_only_the_offset, subject),
        "queries_keys" in encoding.acts_on and encoding.isometric and holds(computes.rotation_keeps_norms, subject),
        encoding.axes,
        key.shape[-1] / HEAD_DIM,
        0 if state is None else state.shape[1],
        alone.not_rerotatable,
        methods(for_layers(alone, 1)),
    )


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
    before = encoding.scaling
    names = []
    for name in METHODS:
        scaling = planned(method(name, 4.0, LENGTH), 4 * LENGTH)
        if name != "none" and encoding.with_scaling(scaling).scaling != before:
            names.append(name)
    return tuple(names)


def table(shipped: Mapping[str, Sequence[str]]) -> str:
    """Return the table in Markdown; ``shipped`` names the models that use each encoding."""
    for name in shipped:
        posenc.encodings.catalogue.lookup(name)  # an unknown name is an error
    lines = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
    for encoding in map(row, posenc.CATALOGUE):
        cells = (
            f"`{encoding.name}`",
            ", ".join(encoding.acts_on).replace("_", " and ") or "–",
            _yes(encoding.relative),
            _yes(encoding.isometric) if "queries_keys" in encoding.acts_on else "–",
            str(encoding.axes),
            _cache(encoding),
            _yes(not encoding.not_rerotatable),
            ", ".join(encoding.methods) or "–",
            ", ".join(shipped.get(encoding.name, ())) or "research",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cache(encoding: Row) -> str:
    keys = "k, v" if encoding.key_channels == 1 else f"{encoding.key_channels:g}·k, v"
    return keys if not encoding.state_size else f"{keys}, {encoding.state_size / HEADS:g} a head"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
