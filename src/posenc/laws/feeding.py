"""Laws of how sequences are fed: whole, in pieces, token by token, padded, packed."""

import torch
from torch.nn.functional import pad

from posenc.laws.decoder import Cache, Decoder, tokens
from posenc.laws.law import law, near
from posenc.laws.subject import Subject
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


def _ways(subject: Subject) -> tuple[bool, ...]:
    """Causal, and not where the encoding has numbers for keys ahead of their query."""
    return (True,) if subject.declared.causal else (True, False)


LAWS = (whole_is_pieces, batch_is_singles, packed_is_separate)
