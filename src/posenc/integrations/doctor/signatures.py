"""The meanings of argument names in ports, and calls to functions whose signature is not known in advance."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posenc.arguments import parameters_of
from posenc.integrations.doctor.search import Expected

HEAD_DIM = 64
"""The number of channels of a head if the encoding's string has no head_dim."""
BATCH, X_HEADS, HEADS = 2, 5, 12
"""X_HEADS is the number of heads of the vectors that are passed to a port. It differs from every number of position
axes, because equal sizes would broadcast. HEADS is the number of heads for functions that compute a number per
head. It is not a power of two, because ALiBi has a simpler formula for powers of two.
"""
NEAR = torch.arange(11)
"""The positions at which functions without an argument for positions are tested."""
POSITIONS = (
    torch.tensor((0, 1, 2, 3, 5, 8, 13, 100, 1000, 4095, 70_000)),
    torch.tensor((0, 1, 2, 3, 5, 8, 13, 100, 1000, 4095, 30_000)),
    torch.tensor((0, 1, 2, 3, 5, 8, 13, 50, 100, 500, 1000)),
    NEAR,
)
"""The positions that are passed to functions with an argument for positions. Each further set is for functions that
fail at the sets before it, usually because their table ends.
"""
LATER = 7 + NEAR
"""Functions that take the first position as an integer are called with 0 and with 7. ``LATER`` contains the
positions for the second call.
"""
OFFSETS = torch.arange(-300, 301)
NAMES = {
    "vector": r"^(x|q|k|(?-i:t)|v|xq|xk|xv|(q|k|v)_(embed|pe|rot|rope)|(quer(y|ies)|keys?|values?)(_layer)?"
    r"|vec(tor)?|tensor|inp|inputs?|hidden\w*|\w+_states)$",
    "positions": r"^(pos|positions?|position_ids|pos_ids|input_pos|indices|idx|m)$",
    "start": r"^(start(_pos\w*|_idx|_index)?|offset|pos(ition)?_offset"
    r"|(past|cache)_(key_values?_|kv_|seq_)?len\w*)$",
    "offsets": r"^(rel(ative)?(_pos\w*)?|distances?|offsets?)$",
    "cos": r"^(freqs_)?cos(ine)?(_\w+)?$",
    "sin": r"^(freqs_)?sin(e)?(_\w+)?$",
    "table": r"^(freqs?(_cis|_complex)?|cis|rope_cache|cos_sin|cache|(rotary_)?(pos_)?emb|angles|rope)$",
    "base": r"^((rope|rotary|freqs?)_)*(base|theta)(_base)?$|^max_(wavelength|timescale)$",
    "layer": r"^(layer|block)(_?(idx|id|index|i|n|no|num(ber)?))?$",
    "layer type": r"^(layer|attn|attention)_?type$",
    "two-sided": r"^(is_)?(bidirectional|two_sided)$",
    "mask": r"^(attention_|attn_)?mask$",
    "type": r"^d?type$",
    "rotating": r"^(n_rot|(rope_)?n_elem|(rot(ary)?|rope)_(n?dims?|head_dim|embedding_dims?))$",
    "channels": r"(^|_)(dims?|depth|model|width|size|hs|d|dk|channels|embd|embed|hidden)(_|$)",
    "heads": r"(^|_)(heads?|nh|h|(?-i:n))(_|$)",  # head_dim is no number of heads
    "length": r"(^|_)(len(gth)?|seq|seqlen|max(?!_(wavelength|timescale))|end|ctx|context|tokens|(?<=_)positions"
    r"|t|l|(?-i:N))(_|$)",
}
"""Patterns for the names of arguments in ports, by the meaning of the argument. Case matters only for ``t``, a
vector, ``n``, a number of heads, and ``T`` and ``N``, which are lengths.
"""
MULTIPLES = {"queries": 1, "keys": 2, "values": 3}
"""Keys and values are passed as multiples of the queries, to reveal ports that confuse queries and keys."""
PARTS = {r"^(x?k(_|$)|key)": "keys", r"^(x?v(_|$)|value)": "values", "": "queries"}
"""Patterns for the names of arguments that are keys, values or queries."""
OVERRIDDEN = ("base", "layer", "layer type", "start", "two-sided")
"""The meanings of arguments that are passed even if they have a default."""


def overridden(asked: Expected) -> tuple[str, ...]:
    """Return the meanings in ``OVERRIDDEN``, without settings that a port may choose."""
    return tuple(meaning for meaning in OVERRIDDEN if meaning.replace("-", "_") not in asked.free)


def takes(function: Callable[..., Any], *meanings: str, needs: bool = True) -> bool:
    """Return whether the function has an argument with one of these meanings; with ``needs``, arguments with a
    default do not count.
    """
    return any(
        meant(name, meaning)
        for name, each in parameters_of(function).items()
        if not needs or each.default is each.empty
        for meaning in meanings
    )


def meant(name: str, meaning: str) -> bool:
    """Return whether an argument's name has this meaning in ports."""
    return re.search(NAMES[meaning], name, re.IGNORECASE) is not None


def values(
    asked: Expected, x: Tensor | None = None, at: Tensor = NEAR, tables: Sequence[Any] = ()
) -> dict[str, list[Any]]:
    """Return the values to try for each meaning of an argument; ``at`` holds positions, ``(T,)`` or ``(A, T)``."""
    batch = at[..., None, :].expand(*at.shape[:-1], BATCH, -1)
    return {
        "vector": [] if x is None else [x],
        "positions": [*((at, batch) if at.ndim == 1 else (batch, at))],
        "start": [int(at.min())] * (at is NEAR or at is LATER),
        "offsets": [OFFSETS],
        "cos": [table[0] for table in tables if isinstance(table, tuple)],
        "sin": [table[1] for table in tables if isinstance(table, tuple)],
        "table": [*tables],
        "base": [asked.recipe.get("base")],
        "layer": [*asked.indices[:1]],
        "layer type": [asked.layer_type] * bool(asked.layer_type),
        "two-sided": [asked.recipe.get("two_sided")] * (asked.recipe.name == "t5"),
        "mask": [torch.ones(1, len(NEAR), dtype=torch.int64)],
        "type": [torch.float32],
        "rotating": [asked.recipe.get("rotary_dim") or asked.recipe.get("head_dim")],
        "channels": [asked.recipe.get("head_dim")],
        "heads": [asked.recipe.get("heads") or HEADS],
        "length": [len(NEAR)],
    }


def first(
    function: Callable[..., Any],
    known: Mapping[str, list[Any]],
    errors: list[Exception],
    overriding: Sequence[str],
    made: Callable[[Any], Any],
) -> list[Any]:
    """Try combinations of possible arguments until a call of the function succeeds.

    If a call succeeds and returns ``result``, return the list ``[made(result)]``. If all calls fail, return an
    empty list. ``known`` contains the possible values for each meaning of an argument. Arguments with a default
    keep it, unless their meaning is in ``overriding``. The errors of failed calls are added to ``errors``; if
    ``made`` raises an error, the call also counts as failed.
    """
    wanted = {
        name: [value for meaning in known if meant(name, meaning) for value in known[meaning]]
        for name, parameter in parameters_of(function).items()
        if parameter.default is parameter.empty
        or any(known[meaning] and meant(name, meaning) for meaning in overriding)
    }
    for name in [name for name in wanted if meant(name, "vector")][1:]:
        part = next(part for pattern, part in PARTS.items() if re.match(pattern, name.lower()))
        wanted[name] = [MULTIPLES[part] * x for x in wanted[name]]
    if unknown := [name for name, values in wanted.items() if not values]:
        errors.append(
            TypeError(
                f"the function needs {', '.join(unknown)}; use the usual argument names (x or q, positions, cos "
                "and sin, freqs_cis, head_dim, seq_len, heads, base)"
            )
        )
    for chosen, array in itertools.product(itertools.product(*wanted.values()), (torch.as_tensor, np.asarray)):
        given = (array(value.clone()) if torch.is_tensor(value) else value for value in chosen)
        try:
            return [made(function(**dict(zip(wanted, given, strict=True))))]
        except Exception as error:  # other values may work
            errors.append(error)
    return []
