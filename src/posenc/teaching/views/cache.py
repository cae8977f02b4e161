"""The view of the angles of cached keys, which are stale if keys get new positions without being re-rotated."""

import math
from typing import Annotated

import torch

import posenc
from posenc.arguments import one_of
from posenc.pictures.view import Axis, Heatmap, View, counted, labelled
from posenc.teaching.views.bounds import Bounds, bounded

ROPE = posenc.Rotary(16, pairing="interleaved")
SINKS = 4
EVENTS = {
    "push": "Each key is rotated once, at the position of its token",
    "evict": "The oldest keys leave and the others keep their positions",
    "shift": "The oldest keys leave and the others are renumbered from 0",
    "sinks": f"The first {SINKS} keys stay, the newest are renumbered",
    "passage": "Keys of a passage that was read alone are appended to a text",
}

PYTHON = """\
import torch, posenc

rope = posenc.Rotary(16, pairing="interleaved")
was, now = torch.tensor({was}), torch.tensor({now})    # the position of each key when it was rotated, and now
raw = torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(1, 1, len(was), 8)
fresh, keys = rope.rotate_keys(raw, now), rope.rotate_keys(raw, was)
{heal}cosines = (keys * fresh)[0, 0].unflatten(-1, (8, 2)).sum(-1)
print(cosines.clamp(max=1).acos().T.round(decimals=4))    # the error of the angle of each pair (row) of each key
print(((keys - fresh) @ fresh[0, 0, -1]).abs().max().div(4).round(decimals=4))    # the largest error of a score"""


@bounded
def angles(
    event: str = "shift",
    tokens: Annotated[int, Bounds(1, 96)] = 24,
    capacity: Annotated[int, Bounds(8, 48)] = 16,
    rerotate: bool = False,
) -> View:
    """Show the difference between the angle of each cached key and the angle of its position, for every pair.

    A key has the angle of the position at which it was rotated. When keys are renumbered, their positions change
    but their angles do not, until ``posenc.rerotate`` moves them. All keys and the newest query are equal before
    they are rotated.

    Args:
        event: what happens to the keys: ``push`` keeps all, ``evict`` drops the oldest, ``shift`` also renumbers
            the others from 0, ``sinks`` does the same but keeps the first 4 keys, and ``passage`` appends the keys
            of a passage that was read alone to those of a text.
        tokens: the number of tokens in the text so far; for ``passage``, the number of tokens before the passage.
        capacity: for ``evict``, ``shift`` and ``sinks``, the largest number of keys that stay; for ``passage``, the
            number of tokens in the passage.
        rerotate: whether keys are rotated to their new positions.
    """
    was, now = _positions(one_of("event", event, EVENTS), tokens, capacity)
    raw = torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(1, 1, len(was), ROPE.head_dim // 2)
    fresh, keys = ROPE.rotate_keys(raw, now), ROPE.rotate_keys(raw, was)
    if rerotate:
        keys = posenc.rerotate(keys, was, ROPE, ROPE, now)
    cosines = (keys * fresh)[0, 0].unflatten(-1, (-1, 2)).sum(-1)
    off = cosines.clamp(-1, 1).acos().T.round(decimals=4)
    stale = int((off > 0).any(0).sum())
    error = ((keys - fresh) @ fresh[0, 0, -1]).abs().max() / math.sqrt(ROPE.head_dim)
    columns = Axis("position", tuple(map(float, now)))
    status = f"{stale} of {len(was)} keys are stale" if stale else "no key is stale"
    return View(
        f"{EVENTS[event]}: {'re-rotated, ' if rerotate else ''}{status}",
        (
            Heatmap(
                "position of each key",
                torch.stack((was, now)).double(),
                labelled("", ("rotated at", "now at")),
                columns,
                "magnitude",
            ),
            Heatmap(
                "error of the angle, in radians",
                off,
                counted("pair", len(off)),
                columns,
                "magnitude",
                "radians",
                limit=math.pi,
            ),
        ),
        {
            "stale keys": stale,
            "largest error of a score": round(float(error), 4),
            "largest error (radians)": float(off.max()),
        },
        PYTHON.format(
            was=was.tolist(),
            now=now.tolist(),
            heal="keys = posenc.rerotate(keys, was, rope, rope, now)\n" if rerotate else "",
        ),
    )


def _positions(event: str, tokens: int, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the position at which each cached key was rotated, and its current position."""
    text = torch.arange(tokens)
    if event == "push":
        return text, text
    if event == "passage":
        passage = torch.arange(capacity)
        return passage, passage + tokens
    first = SINKS if event == "sinks" else 0
    remaining = torch.cat((text[:first], text[first:][-(capacity - first) :]))
    return remaining, remaining if event == "evict" else torch.arange(len(remaining))
