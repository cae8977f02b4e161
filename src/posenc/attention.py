"""Scaled dot-product attention that any encoding plugs into.

    y = softmax(q·kᵀ·scale + bias) v

The encoding enters through ``placed.bias`` (door 3); rotate q and k first, with ``placed.rotate`` (door 2).
Whatever needs a mask or a bias runs over a block of query rows at a time, each against only the keys it may
see, so that extra memory grows with the length and not with its square.
"""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from posenc.encodings.encoding import Placed
from posenc.errors import InvalidArgument

ROWS = 128
"""Query rows of one block: few, so that its mask stays small, yet enough to read a long line of keys seldom."""

TRAINING_ROWS = 256
"""Query rows of one block where gradients flow: each block adds to the gradients of all its keys and values."""

_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


def attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K S D"],
    v: Float[Tensor, "B K S V"],
    placed: Placed,
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "B S"] | None = None,
    segments: Int[Tensor, "#B S"] | Int[Tensor, " S"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H T V"]:
    """Attention of T queries over S keys, with the encoding's bias.

    Args:
        q, k, v: ``(B, heads, length, channels)``; k and v may have fewer heads, a divisor of q's (grouped query).
        placed: ``encoding.at(q_positions, k_positions)``.
        causal: query t sees key s when s ≤ t + (S − T): both sequences end at the same token, as with a cache.
        key_mask: true at keys that may be seen; false at padding. A query that sees no key returns zeros.
        segments: document of every key, the queries' being its last T; nobody sees another document.
        scale: multiplies the scores before the bias, above 0; 1/√D by default.

    Raises:
        InvalidArgument: shapes, types, devices or head counts that do not fit together.
    """
    if not isinstance(placed, Placed):
        given = placed if placed is None else type(placed).__name__
        raise InvalidArgument(f"placed is {given}; give an encoding at its positions: encoding.at(positions)")
    if scale is not None and not 0 < scale < math.inf:
        raise InvalidArgument(f"scale={scale} must be a finite number above 0; leave it out for 1/√D")
    _check_tensors(q, k, v, placed)
    _check_masks(q, k, causal, key_mask, segments)
    if placed.bias is not None and torch.is_autocast_enabled(q.device.type):
        # Autocast would round the bias to 16 bits, and so merge far distances: only q, k and v are rounded.
        low = torch.get_autocast_dtype(q.device.type)
        q, k, v = (x if x.dtype == torch.float64 else x.to(low) for x in (q, k, v))
        with torch.autocast(q.device.type, enabled=False):
            return attention(q, k, v, placed, causal=causal, key_mask=key_mask, segments=segments, scale=scale)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    grouped = q.shape[1] != k.shape[1]
    if key_mask is None and segments is None:
        # Two calls, and not one whose flag is made of lengths: where lengths are symbols, so would the flag be.
        if placed.bias is None and (not causal or q.shape[2] == 1):
            return sdpa(q, k, v, scale=scale, enable_gqa=grouped)
        if placed.bias is None and q.shape[2] == k.shape[2]:
            return sdpa(q, k, v, is_causal=True, scale=scale, enable_gqa=grouped)
        if placed.bias is not None and placed.bias.line is not None:
            return _along_line(q, k, v, placed.bias.line, causal, scale)
    return _by_rows(q, k, v, placed, causal, key_mask, segments, scale)


def _by_rows(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    causal: bool,
    key_mask: Tensor | None,
    segments: Tensor | None,
    scale: float,
) -> Tensor:
    """The general path: each block of rows gets its own mask, made of all that hides keys or biases scores."""
    blocks = []
    for first, last, keys in _row_blocks(q.shape[2], k.shape[2], causal):
        mask = _visible(first, last, keys, q, k, causal, key_mask, segments)
        if placed.bias is not None:
            bias = placed.bias.differences(first, last, keys, mask).to(_mask_dtype(q))
            # Adding −∞ takes a tenth of the time of filling by a mask that broadcasts.
            mask = bias if mask is None else bias + torch.where(mask, bias.new_zeros(()), -math.inf)
        block = sdpa(
            q[:, :, first:last],
            k[:, :, :keys],
            v[:, :, :keys],
            attn_mask=mask,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )
        blocks.append(block)
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=2)


def _along_line(q: Tensor, k: Tensor, v: Tensor, line: Tensor, causal: bool, scale: float) -> Tensor:
    """The path of a bias on a line: a block's mask is a view of it, and costs no memory.

    With the rows of a block reversed, the bias depends on row + key alone, so a view with strides (1, 1) over
    the line is the block's mask. Rows are turned back afterwards.
    """
    T, S = q.shape[2], k.shape[2]
    line = line.to(_mask_dtype(q)).contiguous()
    if causal:  # of the future, a block sees at most as many keys as it has rows
        line = torch.cat((line[:, :S], line.new_full((line.shape[0], TRAINING_ROWS), -math.inf)), dim=1)
    out = None if torch.is_grad_enabled() else q.new_empty(*q.shape[:3], v.shape[-1])
    blocks = []
    for first, last, keys in _row_blocks(T, S, causal):
        rows = last - first
        mask = line[:, T - last :].as_strided((1, line.shape[0], rows, keys), (0, line.shape[1], 1, 1))
        block = sdpa(
            q[:, :, first:last].flip(2),
            k[:, :, :keys],
            v[:, :, :keys],
            attn_mask=mask,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        ).flip(2)
        if out is None:
            blocks.append(block)
        else:
            out[:, :, first:last] = block
    return torch.cat(blocks, dim=2) if out is None else out


def _mask_dtype(q: Tensor) -> torch.dtype:
    """float32 under 16-bit q; float64 under float64, where torch 2.13's CPU kernel misreads a float32 mask."""
    return torch.promote_types(q.dtype, torch.float32)


def _row_blocks(T: int, S: int, causal: bool) -> Iterator[tuple[int, int, int]]:
    """(first row, last row, keys that any of them may see) of every block; one empty block for no rows."""
    few = not torch.is_grad_enabled() and not torch.compiler.is_compiling()
    rows = ROWS if few else TRAINING_ROWS
    for first in range(0, max(T, 1), rows):
        last = min(first + rows, T)
        yield first, last, last + S - T if causal else S


def _visible(
    first: int,
    last: int,
    keys: int,
    q: Tensor,
    k: Tensor,
    causal: bool,
    key_mask: Tensor | None,
    segments: Tensor | None,
) -> Bool[Tensor, "#B 1 rows S"] | None:
    """Which of the first ``keys`` keys the rows ``first`` to ``last`` may see; None for all."""
    ahead = k.shape[2] - q.shape[2]
    parts = []
    if causal:
        row = torch.arange(first + ahead, last + ahead, device=q.device)
        parts.append((torch.arange(keys, device=q.device) <= row[:, None])[None, None])
    if key_mask is not None:
        parts.append(key_mask[:, None, None, :keys])
    if segments is not None:
        own = segments[..., first + ahead : last + ahead, None] == segments[..., None, :keys]
        parts.append(own[None, None] if own.dim() == 2 else own[:, None])
    if not parts:
        return None
    visible = parts[0]
    for part in parts[1:]:
        visible = visible & part
    return visible.expand(-1, 1, last - first, -1)


def _check_tensors(q: Tensor, k: Tensor, v: Tensor, placed: Placed) -> None:
    """Every way in which q, k, v and the encoding can fail to fit together, each with its own sentence."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise InvalidArgument(f"{name} has shape {tuple(x.shape)}; expected (B, heads, length, channels)")
    devices = {"k": k.device, "v": v.device, "the encoding": placed.q_positions.device}
    for name, device in devices.items():
        if device != q.device:
            raise InvalidArgument(f"q is on {q.device} and {name} on {device}; move one with .to(…)")
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise InvalidArgument(
            f"q has batch size {q.shape[0]}, k {k.shape[0]} and v {v.shape[0]}; they must agree: expand the smaller"
        )
    if k.shape[1] != v.shape[1] or q.shape[1] % k.shape[1]:
        raise InvalidArgument(
            f"q has {q.shape[1]} heads, k {k.shape[1]} and v {v.shape[1]}; k and v need the same, a divisor of q's"
        )
    if q.shape[3] != k.shape[3]:
        raise InvalidArgument(f"q has {q.shape[3]} channels a head and k {k.shape[3]}; they must agree")
    if k.shape[2] != v.shape[2]:
        raise InvalidArgument(f"k has {k.shape[2]} keys and v {v.shape[2]}; they must agree")
    for name, x, positions in (("q", q, placed.q_positions), ("k", k, placed.k_positions)):
        if x.shape[2] != positions.shape[-1]:
            raise InvalidArgument(
                f"{name} has length {x.shape[2]} but the encoding was placed at {positions.shape[-1]} positions; "
                "with a cache call encoding.at(positions, k_positions)"
            )
        if positions.dim() == 2 and positions.shape[0] not in (1, x.shape[0]):
            raise InvalidArgument(
                f"{name} has batch size {x.shape[0]} but the encoding was placed at {positions.shape[0]} rows of "
                "positions; give one row per sequence, or one for all"
            )
    if placed.bias is not None and placed.bias.bias.heads != q.shape[1]:
        raise InvalidArgument(
            f"q has {q.shape[1]} heads and the bias {placed.bias.bias.heads}; the encoding needs heads={q.shape[1]}"
        )


def _check_masks(q: Tensor, k: Tensor, causal: bool, key_mask: Tensor | None, segments: Tensor | None) -> None:
    """Every way in which what hides keys can fail to fit them."""
    B, T, S = q.shape[0], q.shape[2], k.shape[2]
    for name, x in (("key_mask", key_mask), ("segments", segments)):
        if x is not None and x.device != q.device:
            raise InvalidArgument(f"q is on {q.device} and {name} on {x.device}; move one with .to(…)")
    if causal and T > S:
        raise InvalidArgument(f"causal with {T} queries and {S} keys; give every query its key")
    if key_mask is not None and (key_mask.dtype != torch.bool or key_mask.shape != (B, S)):
        raise InvalidArgument(
            f"key_mask is {key_mask.dtype} with shape {tuple(key_mask.shape)}; expected bool "
            f"(B, S) = ({B}, {S}), true at keys that may be seen"
        )
    if segments is None:
        return
    if segments.dtype not in _INTEGERS:
        raise InvalidArgument(f"segments is {segments.dtype}; documents are numbered: pass segments.long()")
    if segments.shape not in {(S,), (1, S), (B, S)}:
        raise InvalidArgument(
            f"segments has shape {tuple(segments.shape)}; expected (S,) or (B, S) = ({B}, {S}), one per key"
        )
    if T > S:
        raise InvalidArgument(f"segments with {T} queries and {S} keys; the queries must be the last of the keys")
