"""The laws: what every encoding owes, each a function that takes a case and fails if it is broken.

A tolerance is derived, never tuned: models run in float64, and what a format rounds is said where it is used.
"""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import modes
import posenc
import reference
from cases import Case
from posenc import Encoding
from posenc.errors import PosencError, PositionOutOfRange
from posenc.positions import LIMIT, left_padded, packed, plain
from posenc.workbench.transformer import Cache
from probe import ROUNDING, doors, doors64, inputs, near, same, tokens
from survival import (
    survives_autocast,
    survives_casts,
    survives_copies,
    survives_export,
    survives_inference_mode,
    survives_meta,
    survives_pickle,
)

Law = Callable[[Case], None]

# What it computes


def follows_its_formula(case: Case) -> None:
    """Every door equals the paper's formula in float64, at (T,) and at (B, T) positions."""
    if case.formula is None:
        pytest.skip("it has no formula apart from its parameters")
    x, q, k, v = inputs(case, 9, torch.float64)
    positions = torch.tensor([0, 1, 2, 3, 5, 8, 13, 21, 34])
    placed = case.build().at(positions, dtype=torch.float64)
    near(placed.embed(x), x + case.formula.rows(positions))
    turned_q, turned_k = placed.rotate(q, k)
    near(turned_q, case.formula.rotate(q, positions))
    near(turned_k, case.formula.rotate(k, positions))
    bias = case.formula.bias(positions, positions)
    # Biases are pinned to float32: relative error 2^-24 each for slope and product.
    size = bias.abs().max().item() if isinstance(bias, Tensor) else 0.0
    if isinstance(bias, Tensor):
        far = torch.tensor([0, 257, 1001, 4099, 65_537])
        placed_far = case.build().at(far).bias
        assert placed_far is not None
        want = case.formula.bias(far, far)
        near(placed_far.rows(0, 5, 5)[0], want, 2**-23 * want.abs())
    for causal in (True, False):
        y = posenc.attention(turned_q, turned_k, v, placed, causal)
        want = reference.attention(
            case.formula.rotate(q, positions),
            case.formula.rotate(k, positions),
            v,
            bias,
            reference.visible(9, 9, causal=causal),
        )
        near(y, want, ROUNDING + 4 * size * 2**-23 * v.abs().max())
    in_batch = case.build().at(torch.stack((positions, positions)), dtype=torch.float64)
    near(in_batch.embed(x), placed.embed(x))
    near(in_batch.rotate(q, k)[1], turned_k)


def sees_only_the_offset(case: Case) -> None:
    """Shifting every position changes no score of a relative encoding; an absolute one says that it is not."""
    encoding = case.build()
    positions = torch.tensor([0, 1, 2, 3, 5, 8, 13, 21, 34])
    x, q, k, _ = inputs(case, 9, torch.float64)
    here = encoding.at(positions, dtype=torch.float64)
    if not encoding.relative:
        assert not torch.equal(here.embed(x), encoding.at(positions + 1, dtype=torch.float64).embed(x))
        return
    turned_q, turned_k = here.rotate(q, k)
    scores = turned_q @ turned_k.mT
    norms = q.norm(dim=-1)[..., :, None] * k.norm(dim=-1)[..., None, :]
    float32_phases = getattr(getattr(encoding, "clock", None), "phases", "") == "float32"
    for shift in (1, 10**6, 10**9):
        if float32_phases and shift > 1:
            break  # that mode reproduces angles that grow wrong with position, as its docstring says
        there = encoding.at(positions + shift, dtype=torch.float64)
        moved_q, moved_k = there.rotate(q, k)
        # A phase is off by p·2^-65 turn, and by float64's rounding of a half turn and of cos and sin.
        radians = 2 * math.pi * (shift + 34) * 2.0**-65 + 8 * 2.0**-53
        radians = 2.0**-24 * 40 if float32_phases else radians
        near(moved_q @ moved_k.mT, scores, 4 * radians * norms + 1e-14)
        near(there.embed(x), x, 0.0)
        if here.bias is not None and there.bias is not None:
            assert torch.equal(here.bias.rows(0, 9, 9), there.bias.rows(0, 9, 9))


def rotation_keeps_norms(case: Case) -> None:
    """Lengths survive a rotation, and position 0 turns nothing, bit for bit."""
    encoding = case.build()
    _, q, k, _ = inputs(case, 9, torch.float64)
    for first in (0, 50):
        both = encoding.at(plain(9, offset=first), dtype=torch.float64).rotate(q, k)
        for x, turned in zip((q, k), both, strict=True):
            near(turned.norm(dim=-1), x.norm(dim=-1), 1e-6 if "float32" in case.name else 1e-14)
            if first == 0:
                assert torch.equal(turned[..., 0, :], x[..., 0, :])


def leaves_inputs_and_values_alone(case: Case) -> None:
    """A door returns new tensors and writes into none it was given; with one key, attention returns its v."""
    x, q, k, v = inputs(case)
    before = [tensor.clone() for tensor in (x, q, k, v)]
    placed = case.build().at(plain(9, offset=7))
    placed.embed(x)
    posenc.attention(*placed.rotate(q, k), v, placed)
    for tensor, kept in zip((x, q, k, v), before, strict=True):
        assert torch.equal(tensor, kept), "an input was overwritten"
    one = case.build().at(torch.tensor([7]))
    y = posenc.attention(*one.rotate(q[:, :, :1], k[:, :, :1]), v[:, :, :1], one, True)
    assert torch.equal(y, v[:, :, :1])


def tells_orders_apart(case: Case) -> None:
    """Without a causal mask only an encoding without doors is permutation-equivariant, f(PX) = P f(X)."""
    model = case.model(causal=False)
    row = torch.arange(9)[None]
    order = torch.tensor([3, 1, 4, 0, 5, 8, 2, 6, 7])
    gap = (model(row[:, order]) - model(row)[:, order]).abs().max()
    if model.encoding.doors == ():
        assert gap <= ROUNDING
    else:
        assert gap > 1e-3


def refuses_what_is_no_position(case: Case) -> None:
    """Floats, other integers, negative and too large positions are errors, never garbage."""
    encoding = case.build()
    for wrong in (torch.tensor([0.0]), torch.tensor([0], dtype=torch.int32), torch.tensor(3), torch.zeros(1, 1, 1)):
        with pytest.raises((PosencError, TypeError)):
            encoding.at(wrong)
    for outside in (-1, encoding.position_limit, LIMIT):
        with pytest.raises(PositionOutOfRange):
            encoding.at(torch.tensor([0, outside]))
        with pytest.raises(PositionOutOfRange):
            encoding.at(torch.tensor([1]), torch.tensor([0, outside]))
    encoding.at(torch.tensor([encoding.position_limit - 1]))


# How sequences are fed


def whole_is_pieces(case: Case) -> None:
    """A sequence read at once, in pieces, or token by token with a cache gives the same outputs."""
    model, row = case.model(), tokens(2, 24)
    whole = model(row)
    for pieces in ([1] * 24, [7, 1, 16], [23, 1]):
        cache = Cache()
        parts = [model(piece, cache=cache) for piece in row.split(pieces, dim=1)]
        near(torch.cat(parts, dim=1), whole)


def batch_is_singles(case: Case) -> None:
    """Sequences of different lengths, left-padded into one batch, give what each gives alone."""
    lengths, longest = [5, 11, 8], 11
    rows = [tokens(1, n) for n in lengths]
    mask = torch.tensor([[i >= longest - n for i in range(longest)] for n in lengths])
    padded = torch.cat([torch.nn.functional.pad(row, (longest - row.shape[1], 0)) for row in rows])
    for causal in (True, False):
        model = case.model(causal=causal)
        batch = model(padded, left_padded(mask), sight=posenc.Sight(causal=causal, key_mask=mask))
        for i, row in enumerate(rows):
            near(batch[i, longest - lengths[i] :], model(row)[0])


def packed_is_separate(case: Case) -> None:
    """Documents laid end to end, with positions and segments of their own, do not see each other."""
    lengths = [5, 9, 3]
    documents = [tokens(1, n) for n in lengths]
    positions, segments = packed(lengths)
    for causal in (True, False):
        model = case.model(causal=causal)
        together = model(
            torch.cat(documents, dim=1), positions, sight=posenc.Sight(causal=causal, q_segments=segments)
        )
        apart = torch.cat([model(document) for document in documents], dim=1)
        near(together, apart)


# What it must not depend on


def instances_are_independent(case: Case) -> None:
    """No instance and no call leaves a trace in another: other settings, other positions, other types."""
    first, second = plain(9), plain(9, offset=20)
    alone = doors(case, case.build(), first), doors(case, case.build(), second)
    encoding = case.build()
    doors(case, encoding, second, torch.bfloat16)
    same(doors(case, encoding, first), alone[0])
    same(doors(case, encoding, second), alone[1])
    in_float64 = doors(case, case.build(), first, torch.float64)
    for name, tensor in doors(case, encoding, first, torch.float64).items():
        assert torch.equal(tensor, in_float64[name])
    if case.other is None:
        return
    other = case.other()
    others = doors(case, other, second)
    assert any(not torch.equal(others[name], alone[1][name]) for name in others), "the setting changes nothing"
    same(doors(case, case.build(), second), alone[1])
    same(doors(case, other, second), others)


def low_precision_rounds_once(case: Case) -> None:
    """In bf16 and fp16 a door is float64's result, rounded once; attention adds its two roundings of v."""
    for dtype in (torch.bfloat16, torch.float16):
        u = torch.finfo(dtype).eps / 2
        encoding, at = case.build().to(dtype), plain(9, offset=40)
        got, want = doors(case, encoding, at, dtype), doors64(case, encoding, at, dtype)
        for name in ("x", "q", "k"):
            # One rounding to the type; before it, float32 tables, two products and a sum.
            near(got[name], want[name], u * want[name].abs() + 4 * 2**-23 * (1 + 2 * want[name].abs().amax()))
        if "bias" in want:
            # Never below float32, whatever the model's type: slope and product are rounded by 2^-24 each.
            near(got["bias"], want["bias"], 2**-23 * want["bias"].abs())
        # Weights and the result are rounded to the type: u·max|v| each; scores come from q and k, rounded
        # by u each, so that a score moves by 2u|q||k|/√D and a weight by twice that in relation.
        _, q, k, v = inputs(case, 9, torch.float64)
        score = (q.norm(dim=-1).max() * k.norm(dim=-1).max() / math.sqrt(case.head_dim)).item()
        near(got["y"], want["y"], u * (2 + 4 * score) * v.abs().max() * (1 + u))
        near(got["far"], want["far"], 2 * u * v.abs().max() * (1 + u))


def gradients_are_exact(case: Case) -> None:
    """Analytic gradients of everything (inputs and parameters) equal finite differences in float64."""
    encoding = case.build().double()
    names = [name for name, _ in encoding.named_parameters()]
    at = torch.tensor([0, 3, 4])

    def everything(x: Tensor, q: Tensor, k: Tensor, v: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        placed = torch.func.functional_call(
            _At(encoding), {f"encoding.{n}": p for n, p in zip(names, parameters, strict=True)}, (at,)
        )
        return placed.embed(x), posenc.attention(*placed.rotate(q, k), v, placed, True)

    wanted = [t[:1].clone().requires_grad_() for t in inputs(case, 3, torch.float64)]
    parameters = [p.detach().clone().requires_grad_() for p in encoding.parameters()]
    assert torch.autograd.gradcheck(everything, (*wanted, *parameters), fast_mode=True)


class _At(torch.nn.Module):
    """``encoding.at`` as a module's forward, so that parameters can be handed in."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, positions: Tensor) -> posenc.Placed:
        return self.encoding.at(positions, dtype=torch.float64)


LAWS: list[Law] = [
    follows_its_formula,
    sees_only_the_offset,
    rotation_keeps_norms,
    leaves_inputs_and_values_alone,
    tells_orders_apart,
    refuses_what_is_no_position,
    whole_is_pieces,
    batch_is_singles,
    packed_is_separate,
    instances_are_independent,
    low_precision_rounds_once,
    gradients_are_exact,
    survives_casts,
    survives_copies,
    survives_pickle,
    survives_meta,
    survives_autocast,
    survives_inference_mode,
    survives_export,
    *modes.LAWS,
]
