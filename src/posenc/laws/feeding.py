"""Laws of how sequences are fed: whole, in pieces, token by token, padded, packed, into preallocated caches."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.attend import attention
from posenc.encodings.placed import ContentState
from posenc.laws.decoder import Cache, Decoder, tokens
from posenc.laws.effects import inputs
from posenc.laws.law import law, near
from posenc.laws.subject import Subject, each_layer
from posenc.mask import Mask
from posenc.positions import left_padded, packed


@law()
def whole_is_pieces(subject: Subject) -> None:
    """A sequence read at once, in chunks, or token by token with a cache and its state gives the same outputs.

    Compute with ``q_positions`` and ``k_positions``, never with a length or the number of a row, and return the
    state of all keys.
    """
    decoder, length = Decoder(subject), subject.longest(24)
    row = tokens(2, length)
    at_once = decoder(row)
    for pieces in ([1] * length, [7, 1, length - 8], [length - 1, 1]):
        if min(pieces) < 1:
            continue
        cache = Cache()
        parts = [decoder(piece, cache=cache) for piece in row.split(pieces, dim=1)]
        near(torch.cat(parts, dim=1), at_once, what=f"read in pieces of {pieces if len(set(pieces)) > 1 else 1}")


@law()
def batch_is_singles(subject: Subject) -> None:
    """Sequences of different lengths, left-padded into one batch, give what each gives alone.

    Keep the batch axis of positions ``(B, T)``: ``over_heads`` inserts the axis of heads.
    """
    longest = subject.longest(11)
    lengths = [min(n, longest) for n in (5, 11, 8)]
    rows = [tokens(1, n) for n in lengths]
    mask = torch.tensor([[i >= longest - n for i in range(longest)] for n in lengths])
    padded = torch.cat([pad(row, (longest - row.shape[1], 0)) for row in rows])
    decoder = Decoder(subject)
    for causal in _ways(subject):
        batch = decoder(padded, subject.along(left_padded(mask)), Mask(causal=causal, key_mask=mask))
        for i, row in enumerate(rows):
            alone = decoder(row, mask=Mask(causal=causal))[0]
            near(
                batch[i, longest - lengths[i] :],
                alone,
                what=f"padded from {lengths[i]} to {longest}, causal={causal}",
            )


@law()
def packed_is_separate(subject: Subject) -> None:
    """Documents laid end to end, with positions and segments of their own, do not see each other.

    Compute with positions, which start again in every document, and not with rows of the tensor.
    """
    lengths = [5, min(9, subject.longest(9)), 3]
    documents = [tokens(1, n) for n in lengths]
    positions, segments = packed(lengths)
    decoder = Decoder(subject)
    for causal in _ways(subject):
        mask = Mask(causal=causal, q_segments=segments)
        together = decoder(torch.cat(documents, dim=1), subject.along(positions), mask)
        apart = torch.cat([decoder(document, mask=Mask(causal=causal)) for document in documents], dim=1)
        near(together, apart, what=f"documents of {lengths} tokens, causal={causal}")


@law()
def slots_are_a_cache(subject: Subject) -> None:
    """A preallocated cache, filled from the left or kept right-aligned, gives what a growing one gives.

    Compute with ``k_positions``; a slot's number is not its position.
    """
    S, T, empty = subject.longest(12), 3, 5
    x, q, k, v = inputs(subject, S, torch.float64)
    positions, encoding = subject.plain(S), subject.build().double()
    for layer, awaiting in each_layer(encoding.at(positions, dtype=torch.float64), subject.period):
        here, state = awaiting.with_content(x)
        rotated_q, rotated_k = here.rotate(q, k)
        want = attention(rotated_q, rotated_k, v, here, causal=True)[:, :, S - T :]
        for side in ("left", "right"):
            slots = (0, empty) if side == "left" else (empty, 0)
            k_order = torch.arange(S + empty) - slots[0]
            filled = ((k_order >= 0) & (k_order < S)).expand(2, -1)
            here = encoding.at(positions[..., S - T :], pad(positions, slots), dtype=torch.float64)[layer]
            here = here.with_content(x[:, S - T :])[0].with_state(_slotted(state, slots))
            mask = Mask(
                causal=True,
                q_order=torch.arange(S - T, S),
                k_order=k_order,
                key_mask=filled if side == "right" else None,  # on the left, what is empty lies in the future
            )
            keys, values = (pad(t, (0, 0, *slots), value=3.0) for t in (rotated_k, v))
            got = attention(rotated_q[:, :, S - T :], keys, values, here, mask)
            near(got, want, what=f"slots filled from the {side} in layer {layer}")


def _slotted(state: ContentState | None, slots: tuple[int, int]) -> Tensor | None:
    """The state with something in the empty slots."""
    return None if state is None else pad(state, slots, value=-2.0)


def _ways(subject: Subject) -> tuple[bool, ...]:
    """Causal, and not where the encoding has numbers for keys ahead of their query."""
    return (True,) if subject.declared.causal else (True, False)


LAWS = (whole_is_pieces, batch_is_singles, packed_is_separate, slots_are_a_cache)
