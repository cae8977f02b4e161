"""Laws that no result depends on recorded gradients, transforms, or the first use of a placed encoding."""

import torch
from torch import Tensor

from posenc.encodings.placed import Placed
from posenc.laws.effects import inputs
from posenc.laws.law import Broken, law, owed
from posenc.laws.subject import Subject, each_layer


@law()
def is_the_same_without_gradients(subject: Subject) -> None:
    """Recording gradients changes no bit of embeddings and rotated queries and keys, in any dtype.

    Use the same code whether gradients are recorded or not.
    """
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for length in (1, 9):
            given = inputs(subject, length, dtype)[:3]
            placed = subject.build().at(subject.plain(length, offset=7))
            recorded = _effects(subject, placed, *(x.requires_grad_() for x in given))
            with torch.no_grad():
                for got, want in zip(_effects(subject, placed, *given), recorded, strict=True):
                    owed(got.dtype == want.dtype == dtype, f"{got.dtype} from {dtype}")
                    owed(torch.equal(got, want), f"{length} tokens in {dtype} differ under no_grad")


def _turns_nothing_at_zero(subject: Subject) -> str:
    return "" if subject.declared.isometric else "it does not say that its rotation keeps lengths"


@law(_turns_nothing_at_zero)
def passes_position_zero_exactly(subject: Subject) -> None:
    """Rotation at position 0 returns even huge and tiny numbers bit for bit, whatever the dtype of the tables.

    Multiply in the wider of the two types, ``torch.promote_types(x.dtype, table.dtype)``.
    """
    x, q, k, _ = inputs(subject, 1, torch.float64)
    at = torch.zeros_like(subject.plain(1))
    for tables in (torch.float32, torch.bfloat16):
        for _, here in each_layer(subject.build().at(at, dtype=tables), subject.period):
            with torch.no_grad():
                for size in (1.0, 1e300, 1e-300):
                    rotated = here.with_content(x)[0].rotate(q * size, k * size)
                    for name, given, got in zip("qk", (q, k), rotated, strict=True):
                        owed(torch.equal(got, given * size), f"{name} of size {size:g} is changed at position 0")


@law()
def may_first_be_used_anywhere(subject: Subject) -> None:
    """A placed encoding that was first used in inference_mode or a function transform can be trained afterwards.

    Make tables in ``place``, not at the first use.
    """
    x, q, k, _ = inputs(subject)

    def inference(placed: Placed) -> None:
        with torch.inference_mode():
            _effects(subject, placed, x, q, k)

    def second_derivatives(placed: Placed) -> None:
        def cubes(size: Tensor) -> Tensor:
            return torch.stack([y.pow(3).sum() for y in _effects(subject, placed, x, q * size, k * size)]).sum()

        torch.func.grad(torch.func.grad(cubes))(torch.ones(()))

    for first_use in (inference, second_derivatives):
        for at in ((subject.plain(9),), (subject.plain(9), subject.plain(9))):
            encoding = subject.build()
            placed, want = encoding.at(*at), _effects(subject, encoding.at(*at), x, q, k)
            when = f"first used in {first_use.__name__.replace('_', ' ')}"
            first_use(placed)
            leaves = [tensor.clone().requires_grad_() for tensor in (x, q, k)]
            try:
                torch.stack([tensor.sum() for tensor in _effects(subject, placed, *leaves)]).sum().backward()
                torch.func.grad(lambda q, placed=placed: _effects(subject, placed, x, q, k)[1].sum())(q)
            except RuntimeError as error:  # tensors that were kept belong to another mode
                raise Broken(f"{when}, it cannot be trained: {error}") from error
            with torch.no_grad():
                after = _effects(subject, placed, x, q, k)
            equal = all(torch.equal(a, b) for a, b in zip(after, want, strict=True))
            owed(equal, f"{when}, it gives other numbers")


@law()
def keeps_the_positions_it_was_given(subject: Subject) -> None:
    """Changing positions in place, as a decoding loop may, does not affect encodings that were placed before.

    Use the positions that ``place`` receives, which are copies.
    """
    x, q, k, _ = inputs(subject)
    encoding = subject.build()
    at, keys = subject.plain(9, offset=4).clone(), subject.plain(9, offset=4).clone()
    placed = encoding.at(at, keys)
    want = encoding.at(subject.plain(9, offset=4), subject.plain(9, offset=4))
    at += 30
    keys += 30
    pairs = zip(_effects(subject, placed, x, q, k), _effects(subject, want, x, q, k), strict=True)
    owed(all(torch.equal(a, b) for a, b in pairs), "it follows positions that were changed afterwards")
    owed(torch.equal(placed.q_positions, want.q_positions), "q_positions changed afterwards")
    owed(torch.equal(placed.k_positions, want.k_positions), "k_positions changed afterwards")


def _effects(subject: Subject, placed: Placed, x: Tensor, q: Tensor, k: Tensor) -> list[Tensor]:
    tensors = [placed.embed(x)]
    for _, here in each_layer(placed, subject.period):
        tensors += here.with_content(x)[0].rotate(q, k)
    return tensors


LAWS = (
    is_the_same_without_gradients,
    passes_position_zero_exactly,
    may_first_be_used_anywhere,
    keeps_the_positions_it_was_given,
)
