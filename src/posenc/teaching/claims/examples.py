"""Claims about examples in the lessons: sentences, diagrams and costs."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import posenc
from posenc.encodings.rotary import rotate
from posenc.teaching.claims.claim import Evidence, Verdict, above, below, claim, near, same
from posenc.teaching.claims.order import VASWANI
from posenc.teaching.views.order_blind import attend
from posenc.teaching.views.sinusoidal import rotation_matrix


@claim(
    statement='Attention without positional encoding cannot tell "I love you" from "you love me".',
    precise='Attention can, because "I" and "me" are different words. It cannot distinguish two orders of the '
    'same words, such as "cat ate fish" and "fish ate cat".',
    verdict=Verdict.FAILS,
    source="direct calculation",
)
def i_love_you() -> Evidence:
    def moved(one: str, other: str, word: str) -> float:
        """Return the difference between a word's outputs in two sentences, without positional encoding or a
        mask."""
        outputs = [attend(s.split(), "nope", causal=False)[s.split().index(word)] for s in (one, other)]
        return float((outputs[0] - outputs[1]).abs().max())

    return (
        same("both sentences have the same words", {*["I", "love", "you"]} == {*["you", "love", "me"]}, False),
        above("change of “love” without positional encoding", moved("I love you", "you love me", "love"), 0.01),
        above("change of “you” without positional encoding", moved("I love you", "you love me", "you"), 0.01),
        # Three float32 terms of order 1, summed in a different order.
        below("change of “ate”, the fish sentences", moved("cat ate fish", "fish ate cat", "ate"), 1e-5),
    )


@claim(
    statement="At position 0, PE(0) = [1.00, 0.00, 0.99, 0.01] is added to “cat” [0.32, −0.71, 0.55, 0.18].",
    precise="PE(0) is 0, 1, 0, 1, so the sum is [0.32, 0.29, 0.55, 1.18]. The row in the statement is not the "
    "encoding of any of the first 100 000 positions.",
    verdict=Verdict.FAILS,
    source=VASWANI,
)
def cat_at_position_0() -> Evidence:
    encoding, cat = posenc.Sinusoidal(4), torch.tensor([0.32, -0.71, 0.55, 0.18], dtype=torch.float64)
    printed = torch.tensor([1.00, 0.00, 0.99, 0.01], dtype=torch.float64)
    placed = encoding.at(torch.tensor([0]), dtype=torch.float64).embed(cat.view(1, 1, 4)).flatten()
    rows = encoding.table(torch.arange(100_000), torch.float64)
    wanted = torch.tensor([0.32, 0.29, 0.55, 1.18], dtype=torch.float64)
    return (
        below("error of cat + PE(0)", float((placed - wanted).abs().max()), 1e-12),
        near("the printed row's largest distance from PE(0)", float((printed - rows[0]).abs().max()), 1.0, 1e-12),
        above(
            "the printed row's least distance from 100 000 rows", float((printed - rows).abs().amax(1).min()), 0.02
        ),
    )


@claim(
    statement="The matrix R(ωk) that shifts a sinusoidal encoding is RoPE's rotation matrix.",
    precise="On (sin, cos), R(ωk) is the transpose of RoPE's: [[cos, sin], [−sin, cos]] maps (sin, cos) at p to "
    "(sin, cos) at p + k, and RoPE's [[cos, −sin], [sin, cos]] does the same for (cos, sin). Swapping the two "
    "matrices rotates in the wrong direction.",
    verdict=Verdict.FAILS,
    source="direct calculation",
)
def two_rotation_matrices() -> Evidence:
    lesson = rotation_matrix(2, 3)
    cos, sin = (x.expand(2, 1) for x in (lesson[0, :1], lesson[0, 1:]))
    rope = rotate(torch.eye(2, dtype=torch.float64), cos, sin, "interleaved").T  # from rows to columns of R
    return (
        above("R(3) of the encoding − RoPE's", float((lesson - rope).abs().max()), 0.1),
        below("R(3) of the encoding − RoPE's transposed", float((lesson - rope.T).abs().max()), 1e-15),
        below("R(3) with sine and cosine swapped − RoPE's", float((lesson.flip(0, 1) - rope).abs().max()), 1e-15),
    )


class OperatorCount(TorchDispatchMode):
    """Counts the tensor elements that operators compute inside a ``with`` block; a view counts as zero."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        outputs = [x for x in (result if isinstance(result, tuple | list) else (result,)) if torch.is_tensor(x)]
        given = {x.untyped_storage().data_ptr() for x in args if torch.is_tensor(x)}
        written = getattr(func, "_schema", None) is not None and func._schema.is_mutable
        self.count += sum(x.numel() for x in outputs if written or x.untyped_storage().data_ptr() not in given)
        return result


def work(name: str, layers: int, batch: int = 2, heads: int = 4, length: int = 32, head_dim: int = 16) -> int:
    """Count the tensor elements that an encoding computes in a model's forward pass, without those that
    ``Encoding.at`` computes.
    """
    encoding = posenc.encoding(name, width=heads * head_dim, heads=heads, head_dim=head_dim, num_positions=length)
    placed = encoding.at(posenc.positions.arange(length))
    x = torch.zeros(batch, length, heads * head_dim)
    q = x.unflatten(-1, (heads, head_dim)).transpose(1, 2).contiguous()
    with torch.no_grad(), OperatorCount() as counter:
        placed.embed(x)
        for layer in range(layers):
            placed[layer].rotate(q, q)
    return counter.count


@claim(
    statement="RoPE needs no extra computation.",
    precise="RoPE needs no parameters, but q and k are rotated in every layer, usually with four products and "
    "two sums per pair. The cost of rotation grows with the number of layers, but is small compared with "
    "attention.",
    verdict=Verdict.FAILS,
    source="Su et al. 2021, section 3.4.2; counted here",
)
def rope_costs_nothing() -> Evidence:
    channels = 2 * 4 * 32 * 16  # of the queries in one layer
    table, rope = (work(name, layers=1) for name in ("sinusoidal", "rotary(backend='torch')"))
    return (
        same("parameters of RoPE", sum(p.numel() for p in posenc.Rotary(16, pairing="half").parameters()), 0),
        above("numbers computed in one layer, per channel of q and k", rope / (2 * channels), 3.0),
        same("a table's extra work for three more layers", work("sinusoidal", layers=4) - table, 0),
        above(
            "RoPE's extra work for three more layers / the first",
            (work("rotary(backend='torch')", 4) - rope) / rope,
            2.9,
        ),
    )
