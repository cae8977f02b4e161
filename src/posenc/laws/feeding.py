"""Laws of how sequences are fed: whole, in pieces, token by token, padded, packed."""

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.attend import attention
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import ContentState
from posenc.laws.effects import inputs, outputs
from posenc.laws.law import law, near
from posenc.laws.subject import Subject, each_layer
from posenc.mask import CAUSAL, Mask
from posenc.positions import left_padded, packed


@law()
def whole_is_pieces(subject: Subject) -> None:
    """A sequence read at once, in chunks, or token by token with a cache and its state gives the same outputs.

    Compute with ``q_positions`` and ``k_positions``, never with a length or the number of a row, and return the
    state of all keys.
    """
    length = subject.longest(24)
    given, positions = inputs(subject, length, torch.float64), subject.plain(length)
    encoding = subject.build().double()
    embedded, *at_once = outputs(subject, encoding, positions, given)
    numbers = [layer for layer, _ in each_layer(encoding.at(positions), subject.period)]
    for pieces in ([1] * length, [7, 1, length - 8], [length - 1, 1]):
        if min(pieces) < 1:
            continue
        what = f"read in pieces of {pieces if len(set(pieces)) > 1 else 1}"
        shares = torch.arange(length).split(pieces)
        parts = [
            encoding.at(positions[..., share], dtype=torch.float64).embed(given[0][:, share]) for share in shares
        ]
        near(torch.cat(parts, dim=1), embedded, what=f"embeddings {what}")
        for layer, want in zip(numbers, at_once, strict=True):
            near(_with_a_cache(encoding, layer, positions, given, shares), want, what=f"layer {layer} {what}")


def _with_a_cache(
    encoding: Encoding, layer: int, positions: Tensor, given: Sequence[Tensor], pieces: tuple[Tensor, ...]
) -> Tensor:
    """What a layer gives where every piece of a sequence meets the keys and the state of those before it."""
    x, q, k, v = given
    state: ContentState | None = None
    keys: list[Tensor] = []
    results: list[Tensor] = []
    for piece in pieces:
        end = int(piece[-1]) + 1
        placed = encoding.at(positions[..., piece], positions[..., :end], dtype=torch.float64)
        here, state = placed[layer].with_content(x[:, piece], state)
        rotated_q, rotated_k = here.rotate(q[:, :, piece], k[:, :, piece])
        keys.append(rotated_k)
        results.append(attention(rotated_q, torch.cat(keys, dim=2), v[:, :, :end], here, CAUSAL))
    return torch.cat(results, dim=2)


@law()
def batch_is_singles(subject: Subject) -> None:
    """Sequences of different lengths, left-padded into one batch, give what each gives alone.

    Keep the batch axis of positions ``(B, T)``: ``over_heads`` inserts the axis of heads.
    """
    longest = subject.longest(11)
    starts = [longest - min(length, longest) for length in (5, 11)]
    mask = torch.arange(longest) >= torch.tensor(starts)[:, None]
    positions = subject.along(left_padded(mask))
    encoding, given = subject.build().double(), inputs(subject, longest, torch.float64)
    for causal in _ways(subject):
        batch = outputs(subject, encoding, positions, given, Mask(causal=causal, key_mask=mask))
        for row, start in enumerate(starts):
            alone = [tensor[row : row + 1, ..., start:, :] for tensor in given]
            singles = outputs(subject, encoding, subject.plain(longest - start), alone, Mask(causal=causal))
            for together, single in zip(batch, singles, strict=True):
                what = f"padded from {longest - start} to {longest}, causal={causal}"
                near(together[row, ..., start:, :], single[0], what=what)


@law()
def packed_is_separate(subject: Subject) -> None:
    """Documents laid end to end, with positions and segments of their own, do not see each other.

    Compute with positions, which start again in every document, and not with rows of the tensor.
    """
    lengths = [5, min(9, subject.longest(9)), 3]
    positions, segments = packed(lengths)
    encoding, given = subject.build().double(), inputs(subject, len(positions), torch.float64)
    documents = zip(*(tensor.split(lengths, dim=-2) for tensor in given), strict=True)
    apart = [list(document) for document in documents]
    for causal in _ways(subject):
        mask = Mask(causal=causal, q_segments=segments)
        together = outputs(subject, encoding, subject.along(positions), given, mask)
        separate = [
            outputs(subject, encoding, subject.plain(length), document, Mask(causal=causal))
            for length, document in zip(lengths, apart, strict=True)
        ]
        for got, want in zip(together, zip(*separate, strict=True), strict=True):
            near(got, torch.cat(want, dim=-2), what=f"documents of {lengths} tokens, causal={causal}")


def _ways(subject: Subject) -> tuple[bool, ...]:
    """Causal, and not where the encoding has numbers for keys ahead of their query."""
    return (True,) if subject.declared.causal else (True, False)
