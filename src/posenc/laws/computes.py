"""Laws about the values that an encoding computes: effects, offsets, vector lengths, order, and errors for
invalid positions.
"""

import math

import torch
from torch import Tensor

from posenc.attend import attention, scores
from posenc.errors import PosencError, PositionOutOfRange
from posenc.kernels.attention.softmax import repeat_kv
from posenc.laws.effects import effects, inputs, outputs
from posenc.laws.law import ROUNDING, law, near, owed
from posenc.laws.subject import Subject, each_layer, read_layers, shifted
from posenc.mask import Mask
from posenc.positions import LIMIT

SCATTERED = torch.tensor([0, 1, 2, 3, 5, 8, 13, 21, 34], device="cpu")


@law()
def acts_where_it_declares(subject: Subject) -> None:
    """An encoding has exactly the effects that it declares, and it declares whether it reads content.

    In ``acts_on``, list every effect that the encoding's ``Placed`` has, and do not override methods of other
    effects. Set ``needs_content`` if the encoding's effects depend on the content that ``with_content`` reads.
    """
    encoding = subject.declared
    x, q, k, _ = inputs(subject, 9, torch.float64)
    placed = subject.build().double().at(subject.along(SCATTERED + 1), dtype=torch.float64)
    layers = each_layer(placed, subject.period)
    owed(
        encoding.needs_content == any(here.awaits_content for _, here in layers),
        f"needs_content={encoding.needs_content}, which contradicts awaits_content of its layers",
    )
    acting = {"embeddings"} if not torch.equal(placed.embed(x), x) else set()
    for _, awaiting in layers:
        here, state = awaiting.with_content(x)
        alike = (a.shape == b.shape and torch.equal(a, b) for a, b in zip(here.rotate(q, k), (q, k), strict=True))
        acting |= set() if all(alike) and not here.remaps else {"queries_keys"}
        acting |= {name for name in ("bias", "scale") if getattr(here, name) is not None}
        owed(not here.awaits_content, "a layer still awaits content after with_content")
        owed(
            (state is not None) == bool(here.state_size),
            f"state_size={here.state_size}, but with_content returned the state {state!r:.20}",
        )
        if state is not None:
            owed(
                state.shape == (2, here.state_size, 9),
                f"the state has shape {tuple(state.shape)}; expected one value per key",
            )
    owed(
        acting == set(encoding.acts_on),
        f"acts_on={encoding.acts_on}, but its actual effects are {tuple(sorted(acting))}",
    )


@law()
def sees_only_the_offset(subject: Subject) -> None:
    """Shifting all positions changes no score, unless an encoding declares ``relative = False``.

    Compute offsets or phases in integers before anything is rounded, as ``posenc.clock.Clock`` does. Angles in
    float64 have an error of 1e-10 at position 1,000,000, so set ``position_limit`` to the range in which angles are
    accurate enough. Declare ``relative = False`` if scores depend on positions and not only on offsets.
    """
    encoding = subject.build().double()
    x, q, k, _ = inputs(subject, 9, torch.float64)
    positions = subject.along(SCATTERED)
    here = encoding.at(positions, dtype=torch.float64)
    room = (encoding.position_limit - 1 - int(positions.max())) // encoding.axes
    if not encoding.relative:
        at_home = effects(subject, encoding, positions, torch.float64)
        shifts = [shift for shift in (1, 10**4, 10**9) if shift <= room]
        moved = [
            effects(subject, encoding, shifted(positions, encoding.axes, shift), torch.float64) for shift in shifts
        ]
        changed = any(not torch.equal(there[name], at_home[name]) for there in moved for name in at_home)
        owed(changed or not shifts, f"relative=False, but shifting by {shifts} changes nothing")
        return
    norms = q.norm(dim=-1, keepdim=True) * repeat_kv(k.norm(dim=-1, keepdim=True), q.shape[1]).mT
    for shift in (1, 10**6, 10**9):
        if shift > room or (subject.rounded and shift > 1):
            break
        there = encoding.at(shifted(positions, encoding.axes, shift), dtype=torch.float64)
        near(there.embed(x), here.embed(x), 0.0, f"embed after a shift by {shift}")
        # A phase is off by p·2^-65 turn, plus float64's rounding of half a turn and of cos and sin.
        radians = 2 * math.pi * (encoding.axes * shift + 34) * 2.0**-65 + 8 * 2.0**-53
        radians = 2.0**-24 * 40 if subject.rounded else radians
        for layer, b, _ in read_layers(there, subject.period, x):
            a = here[layer].with_content(x)[0]
            want, got = (scores(*placed.rotate(q, k), placed, causal=encoding.causal) for placed in (a, b))
            near(got, want, 4 * radians * norms + 1e-14, f"score of layer {layer} after a shift by {shift}")


def _no_rotation(subject: Subject) -> str:
    if "queries_keys" not in subject.declared.acts_on:
        return "the encoding does not rotate"
    return "" if subject.declared.isometric else "the encoding declares isometric = False"


@law(_no_rotation)
def rotation_keeps_norms(subject: Subject) -> None:
    """A rotation keeps the lengths of vectors, and at position 0 it returns vectors unchanged, bit for bit.

    Rotate both channels of a pair by the same angle; declare ``isometric = False`` if lengths change.
    """
    encoding = subject.build()
    x, q, k, _ = inputs(subject, 9, torch.float64)
    for first in (0, 50):
        positions = subject.plain(9, first)
        placed, read = encoding.at(positions, dtype=torch.float64), x.to(next(encoding.parameters(), x).dtype)
        for layer, here, _ in read_layers(placed, subject.period, read):
            for name, given, rotated in zip("qk", (q, k), here.rotate(q, k), strict=True):
                what = f"length of {name} in layer {layer} at positions from {first}"
                near(rotated.norm(dim=-1), given.norm(dim=-1), 1e-6 if subject.rounded else 1e-14, what)
                if first == 0:
                    near(rotated[..., 0, :], given[..., 0, :], 0.0, f"{name} of layer {layer} at position 0")


@law()
def rotates_queries_and_keys_apart(subject: Subject) -> None:
    """Rotating only queries or only keys gives the same vectors as rotating both; the result for None is None.

    In ``rotate``, handle q and k separately, and return None for None.
    """
    x, q, k, _ = inputs(subject)
    for layer, here, _ in read_layers(subject.build().at(subject.plain(9, 7)), subject.period, x):
        together = here.rotate(q, k)
        (alone_q, no_k), (no_q, alone_k) = here.rotate(q, None), here.rotate(None, k)
        owed(no_q is None and no_k is None, f"rotate returns a tensor for None in layer {layer}")
        near(alone_q, together[0], 0.0, f"queries without keys in layer {layer}")
        near(alone_k, together[1], 0.0, f"keys without queries in layer {layer}")


@law()
def leaves_inputs_and_values_alone(subject: Subject) -> None:
    """Effects do not modify their inputs, and attention to a single key returns the value of this key.

    Return new tensors; do not call ``add_``, ``mul_`` or ``copy_`` on inputs.
    """
    x, q, k, v = given = inputs(subject)
    before = [tensor.clone() for tensor in given]
    encoding = subject.build()
    positions = subject.plain(9, 7)
    placed = encoding.at(positions)
    placed.embed(x)
    for layer, here, _ in read_layers(placed, subject.period, x):
        attention(*here.rotate(q, k), v, here, causal=encoding.causal)
        for name, tensor, original in zip("xqkv", given, before, strict=True):
            near(tensor, original, 0.0, f"{name} was overwritten in layer {layer}:")
        single = encoding.at(positions[..., :1])[layer].with_content(x[:, :1])[0]
        y = attention(*single.rotate(q[:, :, :1], k[:, :, :1]), v[:, :, :1], single, causal=True)
        near(y, repeat_kv(v[:, :, :1], q.shape[1]), 0.0, "attention to one key")


@law()
def tells_orders_apart(subject: Subject) -> None:
    """Without a causal mask, only an encoding without effects is permutation-equivariant, f(PX) = P f(X).

    If the encoding uses positions, its ``place`` must read them; if not, declare ``acts_on = ()``.
    """
    if subject.declared.causal:
        return
    encoding, given = subject.build().double(), inputs(subject, 9, torch.float64)
    order = torch.tensor([3, 1, 4, 0, 5, 8, 2, 6, 7])
    permuted = [tensor[..., order, :] for tensor in given]
    stride = max(1, min(encoding.position_limit - 1, 2**20) // 9)
    gaps = []
    for step in (1, stride):  # near and far positions
        positions = subject.along(torch.arange(9) * step)
        both = (outputs(subject, encoding, positions, tensors, Mask()) for tensors in (permuted, given))
        gaps += [(there - here[..., order, :]).abs().max().item() for there, here in zip(*both, strict=True)]
    if encoding.acts_on == ():
        owed(max(gaps) <= ROUNDING, f"acts_on=(), but permuted tokens give another result, off by {max(gaps):.2g}")
    else:
        owed(
            max(gaps) > 1000 * ROUNDING,
            f"acts_on={encoding.acts_on}, but the order of tokens changes nothing",
        )


@law()
def refuses_what_is_no_position(subject: Subject) -> None:
    """Positions that are floats, narrow integers, negative or too large, or have the wrong shape, raise an error.

    Set ``position_limit`` instead of overriding ``check``; if you override ``check``, call
    ``posenc.positions.check`` with your limit.
    """
    encoding = subject.build()
    origin = subject.along(torch.tensor([0]))
    wrong = origin.double(), origin.to(torch.int16), torch.tensor(3), torch.zeros(1, 1, 1, 1, dtype=torch.int64)
    calls: list[tuple[tuple[Tensor, ...], tuple[type[Exception], ...], str]] = [
        ((at,), (PosencError, TypeError), f"positions {at!r} were") for at in wrong
    ]
    lowest = 1 - encoding.position_limit if encoding.signed else 0
    for outside in (lowest - 1, encoding.position_limit, LIMIT):
        far = torch.cat((origin, torch.full_like(origin, outside)), -1)
        what = f"position {outside}, outside {lowest} … {encoding.position_limit - 1}, was"
        calls += [(at, (PositionOutOfRange,), what) for at in ((far,), (origin, far))]
    for at, refusals, what in calls:
        try:
            encoding.at(*at)
        except refusals:
            continue
        owed(False, f"{what} accepted")
    encoding.at(torch.full_like(origin, encoding.position_limit - 1))
