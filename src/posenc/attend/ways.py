"""The ways to compute attention, one below the other: what each has, which calls it serves, and how it computes.

A way makes an ``Offer``. ``choose`` takes the first that has all that is asked for and serves.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.attend.blocks import FEW_SCORES, ROWS, block_scores, by_blocks, by_operators, recomputed, training_rows
from posenc.attend.call import LONG, AttentionCall, Settings, plain_bool
from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument
from posenc.kernels.attention.flex import capped_score_mod, flexible, serves
from posenc.kernels.attention.low_rank import LEAST_SCALE, exact, widened
from posenc.kernels.attention.softmax import attended, fused, grouped, plain_forward, repeat_kv
from posenc.kernels.memory import is_transformed
from posenc.mask import Mask, Spans

Output = tuple[Tensor, Tensor | None]
"""softmax(scores)·v, and the logsumexp of the scores where the way has it."""

Offer = tuple[str, Callable[[], Output] | None]
"""Why a way serves a call, and what computes; or why it does not, and None."""
Ask = Callable[[Tensor, Tensor, Tensor, AttentionCall], Offer]


class Way(NamedTuple):
    """What a way has besides masks and biases, and what it says to a call."""

    has: frozenset[str]
    offer: Ask


class Explanation(NamedTuple):
    """Which way a call of attention takes, and why; printed, a line a way.

    Attributes:
        backend: the name of the way.
        reason: why it serves.
        declined: the ways before it, each with the reason why it is not taken.
    """

    backend: str
    reason: str
    declined: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        declined = (f"  not {name}: {why}" for name, why in self.declined)
        return "\n".join((f"{self.backend}: {self.reason}", *declined))


WAYS: dict[str, Way] = {}
"""By name, in the order of this file. The first that has all that a call needs computes it. Sinks need the
logsumexp, which torch's kernels give on the CPU, and elsewhere FlexAttention or operators."""

ROWS_KEPT = "torch's attention keeps the logsumexp to itself here"


def way(*has: str) -> Callable[[Ask], Ask]:
    """Put a function that makes offers below the ways above it, under its own name."""

    def put(offer: Ask) -> Ask:
        WAYS[offer.__name__] = Way(frozenset(has), offer)
        return offer

    return put


def computed(
    q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask, scale: float, settings: Settings
) -> Output:
    """Output, and the logsumexp where it is asked for."""
    out, lse = chosen(q, k, v, placed, mask, scale, settings)[1]()
    out = out if out.shape[-1] == v.shape[-1] else out[..., : v.shape[-1]]
    return out, lse if settings.needs_logsumexp else None


def chosen(
    q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask, scale: float, settings: Settings
) -> tuple[Explanation, Callable[[], Output]]:
    """The way that a call takes, and what computes it, of values as wide as the queries."""
    call = AttentionCall.of(q, k, placed, mask, scale, settings)
    q = q if placed.scale is None else (q * placed.scale).to(q.dtype)
    return choose(q, k, *_as_wide(q, v, call))


def _as_wide(q: Tensor, v: Tensor, call: AttentionCall) -> tuple[Tensor, AttentionCall]:
    """Values as wide as queries, since torch's kernels take no narrower ones and would make a table of all scores.

    Where that table holds less than the values, plain operators take them as they are: a step of decoding copies no
    cache, unless its 16 bits would be widened.
    """
    missing, group = q.shape[-1] - v.shape[-1], q.shape[1] // v.shape[1]
    if missing <= 0:
        return v, call
    few = not torch.compiler.is_compiling() and q.shape[2] * group < v.shape[-1] and q.element_size() >= 4
    if few and call.backend == "auto" and not call.dropout:
        return v, replace(call, backend="operators")
    return pad(v, (0, missing)), call


def choose(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> tuple[Explanation, Callable[[], Output]]:
    """The way that was asked for, else the first that serves, and what computes it."""
    asked = _asked(call)
    ways = WAYS if call.backend == "auto" else {call.backend: WAYS[call.backend]}
    declined: list[tuple[str, str]] = []
    for name, (has, offer) in ways.items():
        lacks = asked - has
        reason, run = (f"it has no {' and no '.join(sorted(lacks))}", None) if lacks else offer(q, k, v, call)
        if run is not None:
            return Explanation(name, reason, tuple(declined)), run
        declined.append((name, reason))
    if call.backend != "auto":
        raise InvalidArgument(
            f"backend={call.backend!r} does not serve this call: {declined[0][1]}; use backend='auto', or ask "
            "posenc.explain which way that takes"
        )
    raise InvalidArgument(
        f"no backend has {' and '.join(sorted(asked))} at once on {q.device.type}; leave one out, or take "
        "posenc.scores(…).softmax(-1) @ v"
    )


def _asked(call: AttentionCall) -> frozenset[str]:
    """The features that a call needs."""
    needs = {
        "logsumexp": call.needs_logsumexp,
        "softcap": call.softcap is not None,
        "dropout": call.dropout > 0,
        "biases that read scores": call.needs_scores and not torch.compiler.is_compiling(),
        "function transforms": is_transformed(),
    }
    return frozenset([name for name, needed in needs.items() if needed])


def _sums_rows(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether torch's kernels give the logsumexp, and its gradient."""
    return not torch.compiler.is_compiling() and fused(q, k, v)


@way("logsumexp", "softcap", "dropout")
def documents(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if torch.compiler.is_compiling():
        return "a compiler is given one call for all documents", None
    spans = call.mask.spans(call.queries, call.all_keys, call.bias is not None)
    if spans is None:
        return "no documents or padding are known that are long enough to be worth a call for each", None
    return "no token of a document, or of a row without its padding, sees outside it", partial(
        _by_spans, q, k, v, call, spans
    )


def _by_spans(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall, spans: Spans) -> Output:
    """Documents, or rows without their padding, one after the other: what is hidden is never computed."""
    batch: list[Output] = []
    # Splitting joins gradients in one pass, where slices would each be added to zeros of the whole.
    by_row = zip(*(x.split(1) if len(spans) > 1 else (x,) for x in (q, k, v)), strict=True)
    for row, (lengths, tensors) in enumerate(zip(spans, by_row, strict=True)):
        alone = None if len(spans) == 1 else row
        pieces = zip(*(x.split([n for n, _ in lengths], dim=2) for x in tensors), strict=True)
        outputs: list[Output] = []
        first = 0
        for (length, sees), (some_q, some_k, some_v) in zip(lengths, pieces, strict=True):
            if sees:
                part = call.part(alone, first, first + length)
                outputs.append(choose(some_q, some_k, some_v, part)[1]())
            else:
                nothing = some_q.new_full(some_q.shape[:3], -math.inf, dtype=call.dtype)
                outputs.append((some_q.new_zeros(*some_q.shape[:3], v.shape[-1]), nothing))
            first += length
        batch.append(_joined(outputs, 2))
    return _joined(batch, 0)


def _joined(outputs: list[Output], axis: int) -> Output:
    if len(outputs) == 1:
        return outputs[0]
    y, sums = torch.cat([out for out, _ in outputs], axis), [lse for _, lse in outputs if lse is not None]
    return y, torch.cat(sums, axis) if len(sums) == len(outputs) else None


@way("logsumexp")
def reach(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    reaches = call.reaches(q, k)
    if not reaches:
        return "no bias falls so fast over so many tokens that some heads could leave out half of the keys", None
    return "keys too far for their weight to be more than a rounding are left out, head by head", partial(
        _by_heads, q, k, v, call, reaches
    )


def _by_heads(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall, reaches: list[int]) -> Output:
    """Heads that reach as far as their neighbours together, each with the keys that it reaches."""
    runs = [(window, len(list(run))) for window, run in groupby(reaches)]
    counts, group = [count for _, count in runs], q.shape[1] // k.shape[1]
    split_q = q.split([count * group for count in counts], dim=1)
    pieces = zip(split_q, k.split(counts, dim=1), v.split(counts, dim=1), strict=True)
    outputs: list[Output] = []
    first = 0
    for (window, count), (some_q, some_k, some_v) in zip(runs, pieces, strict=True):
        last = first + count * group
        outputs.append(choose(some_q, some_k, some_v, call.heads(slice(first, last), window))[1]())
        first = last
    return _joined(outputs, 1)


@way("dropout")
def low_rank(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if call.bias is None:
        return "no bias is added", None
    aligned = call.mask.causal and call.mask.only_causal and plain_bool(call.queries == call.all_keys)
    if not aligned or call.scale < LEAST_SCALE or (call.dropout and q.is_cpu):  # where torch holds all weights
        return "more than causality hides keys, queries and keys differ, or weights are dropped on the CPU", None
    if call.backend == "auto" and q.is_cpu and call.line is not None and not call.trained and call.queries < LONG:
        return f"below {LONG} tokens blocks along the bias's line are faster", None
    small = call.trained and not torch.compiler.is_compiling()  # a length that is read while compiling binds it
    if call.backend == "auto" and q.is_cpu and small and call.queries < ROWS:
        return f"below {ROWS} tokens the scores of all are faster", None
    if not exact(q.device, q.dtype):
        return "this device does not sum channels of this type as exactly as they need", None
    channels = call.bias.low_rank(q.dtype, call.scale)
    if channels is None:
        return "the bias has no such channels at these positions", None
    widened_qkv, unbiased = widened(q, k, v, channels), replace(call, bias=None, trained=())
    return "the bias is a product of few channels, beside those of queries and keys", partial(
        _as_narrow, v.shape[-1], *widened_qkv, unbiased
    )


def _as_narrow(width: int, q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    return _in_one(q, k, v, call)[0][..., :width], None


@way("logsumexp", "softcap", "biases that read scores")
def dense(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if torch.compiler.is_compiling():
        return "a compiler is given torch's attention", None
    if call.backend == "auto" and not call.trained:
        return "no gradient of a bias is taken", None
    few = training_rows(q, k) * 3 // 2  # where blocks take as long
    if call.backend == "auto" and call.queries > few:
        return f"above {few} queries blocks are faster", None
    if q.shape[0] * q.shape[1] * call.queries * call.all_keys > FEW_SCORES:
        return f"more than {FEW_SCORES:,} scores would be kept for their gradients", None
    return "few scores, kept for the gradient of the bias", partial(_at_once, q, k, v, call)


def _at_once(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    scores = block_scores(q, k, call, 0)
    if call.needs_logsumexp:
        return plain_forward(scores, v)
    sees_itself = call.mask.by_offset and call.queries <= call.all_keys
    visible = None if sees_itself else call.visible(0, call.queries, call.all_keys)
    if visible is None:
        return grouped(scores.softmax(-1), v.to(scores.dtype)).to(v.dtype), None
    unseen = ~visible.any(-1, keepdim=True)  # a softmax of −∞ alone has no gradient
    weights = scores.masked_fill(unseen, 0.0).softmax(-1)
    return grouped(weights, v.to(scores.dtype)).to(v.dtype).masked_fill(unseen, 0.0), None


@way("logsumexp", "dropout")
def sdpa(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    unmasked = call.bias is None and call.softcap is None and call.mask.only_causal
    if not unmasked or (call.mask.causal and call.queries != 1 and call.queries != call.all_keys):
        return "a bias, or a mask that is more than causality, is to be added", None
    if call.needs_logsumexp and not _sums_rows(q, k, v):
        return ROWS_KEPT, None
    return "nothing is added, and one flag says what is hidden", partial(_in_one, q, k, v, call)


def _in_one(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    """One call of torch's attention; on the CPU with gradients that can be differentiated again."""
    if (call.needs_logsumexp or call.learns(q, k, v)) and fused(q, k, v):
        return recomputed(q, k, v, replace(call, backend="sdpa"))
    return attended(q, k, v, call.scale, is_causal=plain_bool(call.is_causal), dropout=call.dropout), None


@way("logsumexp", "dropout")
def toeplitz(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if call.line is None:
        return "no bias along one line of offsets with only causality or a window hiding keys", None
    if call.trained and (call.dropout or not fused(q, k, v)):
        return "no gradient flows to a bias through views of it", None
    if call.backend == "auto" and not call.trained and call.learns(q, k, v) and call.queries <= training_rows(q, k):
        return "one block of a mask is sooner made than viewed, and kept for the gradients", None
    return "the bias depends on the offset alone, and each block views one line of it", partial(
        _in_blocks, q, k, v, replace(call, backend="toeplitz")
    )


@way("logsumexp", "softcap")
def flex(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if torch.compiler.is_compiling():
        return "a compiler is given torch's attention", None
    if call.dropout or call.trained:
        return "FlexAttention drops no weights, and gives a bias no gradients", None
    if (call.backend == "auto" and call.queries <= ROWS) or not serves(q, v):
        return f"FlexAttention is for CUDA, 16 channels and more than {ROWS} queries", None
    if call.bias is not None and call.bias.modifier is None:
        return "the bias has no score_mod", None
    return "FlexAttention hides and adds as it goes", partial(_by_flex, q, k, v, call)


def _by_flex(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    hides = call.mask.modifier(call.queries, call.all_keys, call.device)
    added, dense, softcap = None if call.bias is None else call.bias.modifier, call.mask.dense, call.softcap
    mask_heads = None if dense is None or dense.shape[1] == 1 else dense.shape[1]
    if softcap is not None:
        added = capped_score_mod(softcap, added, q.device)
    made_of = tuple(vars(call.mask).values())
    return flexible(q, k, v, added, hides, call.scale, made_of, mask_heads, call.needs_logsumexp)


@way("logsumexp", "dropout")
def blocks(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if call.needs_logsumexp and not _sums_rows(q, k, v):
        return ROWS_KEPT, None
    if torch.compiler.is_compiling():
        return "a compiler is given mask and bias in one piece", partial(_in_one_block, q, k, v, call)
    return "mask and bias are made block by block", partial(_in_blocks, q, k, v, replace(call, backend="blocks"))


def _in_blocks(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    if call.needs_logsumexp or (call.learns(q, k, v) and (call.trained or fused(q, k, v))):
        return recomputed(q, k, v, call)
    return by_blocks(q, k, v, call), None


def _in_one_block(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    scores = None
    if call.needs_scores:  # in one piece, without the views of groups whose lengths an exporter cannot tell
        compute_dtype = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(compute_dtype) @ repeat_kv(k, q.shape[1]).to(compute_dtype).mT * call.scale
    return attended(
        q, k, v, call.scale, call.sdpa_mask(0, call.queries, call.all_keys, scores=scores), dropout=call.dropout
    ), None


@way("logsumexp", "softcap", "biases that read scores", "function transforms")
def operators(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    run = by_operators if is_transformed() or torch.compiler.is_compiling() else recomputed
    return "plain operators serve every call", partial(run, q, k, v, replace(call, backend="operators"))
