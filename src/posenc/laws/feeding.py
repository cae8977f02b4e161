"""Laws of batching and caching: sequences in one pass, in chunks, token by token, padded or packed."""

from collections.abc import Sequence
from itertools import accumulate

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
    """A sequence gives the same outputs in one pass, in chunks, or token by token with cached keys and states.

    Use ``q_positions`` and ``k_positions``, never a length or a token's index in the tensor. From
    ``with_content``, return the state of all keys, including the cached ones.
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
    """Return the outputs of a layer in which every piece of a sequence attends to the cached keys and states of
    earlier pieces.
    """
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
def together_is_apart(subject: Subject) -> None:
    """Sequences in a left-padded batch, or packed as documents, give the same outputs as each sequence alone.

    Use positions, which restart in every document, instead of token indices. Keep the batch axis of positions,
    ``(B, T)``; ``insert_head_axis`` inserts the axis for heads.
    """
    encoding, longest, lengths = subject.build().double(), subject.longest(11), [5, min(9, subject.longest(9)), 3]
    starts = [longest - min(length, longest) for length in (5, 11)]
    real = torch.arange(longest) >= torch.tensor(starts)[:, None]
    padded = [(slice(row, row + 1), slice(start, longest)) for row, start in enumerate(starts)]
    positions, segments = packed(lengths)
    documents = [(slice(None), slice(end - n, end)) for n, end in zip(lengths, accumulate(lengths), strict=True)]
    for at, hidden, sequences in (
        (left_padded(real), {"key_mask": real}, padded),
        (positions, {"q_segments": segments}, documents),
    ):
        given = inputs(subject, at.shape[-1], torch.float64)
        for causal in (True,) if subject.declared.causal else (True, False):
            together = outputs(subject, encoding, subject.along(at), given, Mask(causal, **hidden))  # type: ignore[arg-type]
            for rows, tokens in sequences:
                alone, plain = [x[rows, ..., tokens, :] for x in given], subject.plain(tokens.stop - tokens.start)
                apart = outputs(subject, encoding, plain, alone, Mask(causal))
                for got, want in zip(together, apart, strict=True):
                    what = f"{plain.shape[-1]} tokens beside others that {', '.join(hidden)} hides, causal={causal}"
                    near(got[rows, ..., tokens, :], want, what=what)
