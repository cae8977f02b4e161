"""The attention backends in order of preference. For each backend, this module defines its features, the calls that
it supports, and the function that runs such a call.

Each backend makes an ``Offer`` for a call. ``choose`` returns the first that supports all that the call needs.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.attend.blocks import FEW_SCORES, ROWS, block_scores, by_blocks, by_operators, training_rows
from posenc.attend.call import LONG, AttentionCall, Settings
from posenc.attend.offers import WAYS, Explanation, Offer, Output, way
from posenc.attend.recomputed import recomputed
from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument
from posenc.kernels.attention.flex import capped_score_mod, flexible
from posenc.kernels.attention.low_rank import LEAST_SCALE, exact, widened
from posenc.kernels.attention.softmax import fused, grouped, plain_forward, products
from posenc.kernels.memory import is_concrete, is_transformed, plain_bool
from posenc.mask import Mask

ROWS_KEPT = "torch's attention does not return the logsumexp here"

Spans = tuple[tuple[tuple[int, bool], ...], ...]
"""The spans of tokens in each row of the batch, with a single entry if all rows have the same spans. A span is
(length, whether its tokens see any key).
"""

SHORT_DOCUMENT, SHORT_ROW, SHORT_PLAIN_ROW = 32, 256, 2048
"""The average lengths from which separate calls are faster than one masked call: for documents, for padded rows
with a bias, and for padded rows without. Several documents in a row hide most of its scores, so separate calls are
faster even for short ones. Padding hides few scores, and a mask without a bias is computed once for all heads.
"""


def computed(
    q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask, scale: float, settings: Settings
) -> Output:
    """Compute the output of attention, and the logsumexp if it is requested."""
    out, lse = chosen(q, k, v, placed, mask, scale, settings)[1]()
    out = out if out.shape[-1] == v.shape[-1] else out[..., : v.shape[-1]]
    return out, lse if settings.needs_logsumexp else None


def chosen(
    q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask, scale: float, settings: Settings
) -> tuple[Explanation, Callable[[], Output]]:
    """Pad the values to the queries' width. Return the chosen backend, and the function that runs the call."""
    call = AttentionCall.of(q, k, placed, mask, scale, settings)
    q = q if placed.scale is None else (q * placed.scale).to(q.dtype)
    return choose(q, k, *_as_wide(q, v, call))


def _as_wide(q: Tensor, v: Tensor, call: AttentionCall) -> tuple[Tensor, AttentionCall]:
    """Pad values to the width of queries, because torch's kernels store all scores if values are narrower.

    If the scores have fewer elements than ``v``, as in decoding, the backend ``operators`` uses ``v`` without
    padding, so that the cache is not copied. 16-bit values are always padded, because this backend would convert
    them to float32.
    """
    missing, group = q.shape[-1] - v.shape[-1], q.shape[1] // v.shape[1]
    if missing <= 0:
        return v, call
    few = not torch.compiler.is_compiling() and q.shape[2] * group < v.shape[-1] and q.element_size() >= 4
    if few and call.backend == "auto" and not call.dropout:
        return v, replace(call, backend="operators")
    return pad(v, (0, missing)), call


def choose(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> tuple[Explanation, Callable[[], Output]]:
    """Choose the backend: the requested backend if there is one, or else the first that supports the call. Return
    the explanation of this choice and the function that runs the call.
    """
    asked = _asked(call)
    ways = WAYS if call.backend == "auto" else {call.backend: WAYS[call.backend]}
    declined: list[tuple[str, str]] = []
    for name, (has, offer) in ways.items():
        lacks = asked - has
        reason, run = (f"it does not support {' or '.join(sorted(lacks))}", None) if lacks else offer(q, k, v, call)
        if run is not None:
            return Explanation(name, reason, tuple(declined)), run
        declined.append((name, reason))
    if call.backend != "auto":
        raise InvalidArgument(
            f"backend={call.backend!r} does not support this call: {declined[0][1]}; use backend='auto' "
            "(posenc.explain shows the choice)"
        )
    raise InvalidArgument(
        f"no backend on {q.device.type} supports {' and '.join(sorted(asked))} in one call; omit one of these, or "
        "use posenc.scores(…).softmax(-1) @ v"
    )


def _asked(call: AttentionCall) -> frozenset[str]:
    """Return the names of the features that a call needs."""
    needs = {
        "logsumexp": call.needs_logsumexp,
        "softcap": call.softcap is not None,
        "dropout": call.dropout > 0,
        "biases that read scores": call.needs_scores and not torch.compiler.is_compiling(),
        "function transforms": is_transformed(),
    }
    return frozenset([name for name, needed in needs.items() if needed])


@way("logsumexp", "softcap", "dropout")
def documents(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if torch.compiler.is_compiling():
        return "under a compiler, one call computes all documents", None
    known = spans(call.mask, call.queries, call.all_keys, call.bias is not None)
    if known is None:
        return "no known documents or padded rows are long enough for separate calls", None
    return "no token sees beyond its own document, or beyond the unpadded part of its row", partial(
        _by_spans, q, k, v, call, known
    )


def spans(mask: Mask, T: int, S: int, biased: bool = True) -> Spans | None:
    """Split the batch into spans of tokens that see only each other. The result is None if the spans are unknown
    or one call is faster.
    """
    # The rule of a subclass may depend on indices in the whole sequence.
    if T != S or mask.q_order is not None or (mask.has_own_rule and type(mask).part is Mask.part):
        return None
    by_start = mask.causal and mask.q_segments is None and mask.bidirectional_groups is None
    padding = mask.left_padding if by_start else None  # in a bidirectional group, padding may see later keys
    short = SHORT_DOCUMENT if mask.document_lengths is not None else SHORT_ROW if biased else SHORT_PLAIN_ROW
    if mask.document_lengths is not None and all(sum(row) == T for row in mask.document_lengths):
        rows: Spans = tuple([tuple([(length, True) for length in row]) for row in mask.document_lengths])
    elif padding is not None and max(padding) < T:
        hidden = padding[:1] if len(set(padding)) == 1 else padding
        rows = tuple([((n, False), (T - n, True)) if n else ((T, True),) for n in hidden])
    else:
        return None
    lengths = [length for row in rows for length, sees in row if sees]
    return rows if sum(lengths) >= short * len(lengths) else None


def _by_spans(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall, rows: Spans) -> Output:
    """Compute attention separately for each document, or for the real tokens of each row, so that no scores across
    documents or with padding are computed.
    """
    batch: list[Output] = []
    # ``split`` concatenates gradients once; with slices, each gradient would be added to a full-size tensor of
    # zeros.
    by_row = zip(*(x.split(1) if len(rows) > 1 else (x,) for x in (q, k, v)), strict=True)
    for row, (lengths, tensors) in enumerate(zip(rows, by_row, strict=True)):
        alone = None if len(rows) == 1 else row
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
        return "no head's bias falls fast enough to leave out half of the keys", None
    return "distant keys whose weights are below the rounding error are left out, head by head", partial(
        _by_heads, q, k, v, call, reaches
    )


def _by_heads(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall, reaches: list[int]) -> Output:
    """Compute attention separately for each run of consecutive heads with the same reach (the number of nearest
    keys that can affect a head's output), and leave out all keys beyond this reach.
    """
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
    if not aligned or call.scale < LEAST_SCALE or (call.dropout and q.is_cpu):  # it would store all weights
        return (
            "the mask is not just causal, queries and keys differ in number, the scale is below 2^−7, or there is "
            "dropout on the CPU",
            None,
        )
    if call.backend == "auto" and q.is_cpu and call.line is not None and not call.trained and call.queries < LONG:
        return f"below {LONG} tokens, blocks that are views of the bias are faster", None
    small = call.trained and not torch.compiler.is_compiling()  # reading a length while compiling fixes its value
    if call.backend == "auto" and q.is_cpu and small and call.queries < ROWS:
        return f"below {ROWS} tokens, computing all scores is faster", None
    if not exact(q.device, q.dtype):
        return "this device does not sum channels of this dtype accurately enough", None
    channels = call.bias.low_rank(q.dtype, call.scale)
    if channels is None:
        return "the bias cannot be written as extra channels of queries and keys at these positions", None
    widened_qkv, unbiased = widened(q, k, v, channels), replace(call, bias=None, trained=())
    return "the bias is a product of a few extra channels of queries and keys", partial(
        _as_narrow, v.shape[-1], *widened_qkv, unbiased
    )


def _as_narrow(width: int, q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    return _in_one(q, k, v, call)[0][..., :width], None


@way("logsumexp", "softcap", "biases that read scores")
def dense(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if torch.compiler.is_compiling():
        return "under a compiler, torch's attention is used", None
    if call.backend == "auto" and not call.trained:
        return "no gradient of a bias is needed", None
    few = training_rows(q, k) * 3 // 2  # above this, blocks are as fast
    if call.backend == "auto" and call.queries > few:
        return f"above {few} queries, blocks are faster", None
    if q.shape[0] * q.shape[1] * call.queries * call.all_keys > FEW_SCORES:
        return f"more than {FEW_SCORES:,} scores would be stored for their gradients", None
    return "the few scores are stored for the gradient of the bias", partial(_at_once, q, k, v, call)


def _at_once(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    scores = block_scores(q, k, call, 0)
    if call.needs_logsumexp:
        return plain_forward(scores, v)
    sees_itself = call.mask.by_offset and call.queries <= call.all_keys
    visible = None if sees_itself else call.visible(0, call.queries, call.all_keys)
    if visible is None:
        return grouped(scores.softmax(-1), v.to(scores.dtype)).to(v.dtype), None
    unseen = ~visible.any(-1, keepdim=True)  # a softmax of only −∞ has no gradient
    weights = scores.masked_fill(unseen, 0.0).softmax(-1)
    return grouped(weights, v.to(scores.dtype)).to(v.dtype).masked_fill(unseen, 0.0), None


@way("logsumexp", "dropout")
def sdpa(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    unmasked = call.bias is None and call.softcap is None and call.mask.only_causal
    if not unmasked or (call.mask.causal and call.queries != 1 and call.queries != call.all_keys):
        return "there is a bias, a softcap or a mask that is not just causal", None
    if call.needs_logsumexp and not fused(q, k, v):
        return ROWS_KEPT, None
    return "there is no bias, and the mask is causal or hides nothing", partial(_in_one, q, k, v, call)


def _in_one(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    """Compute attention with one call to torch's attention. On the CPU, the gradients of this call can be
    differentiated again.
    """
    if (call.needs_logsumexp or call.learns(q, k, v)) and fused(q, k, v):
        return recomputed(q, k, v, replace(call, backend="sdpa"))
    return call.attended(q, k, v), None


@way("logsumexp", "dropout")
def toeplitz(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if call.line is None:
        return "the bias is not a function of the offset, or the mask is not just causal or windowed", None
    if call.trained and (call.dropout or not fused(q, k, v)):
        return "views of a bias do not propagate gradients to it", None
    if call.backend == "auto" and not call.trained and call.learns(q, k, v) and call.queries <= training_rows(q, k):
        return "one block is faster, with its mask stored for the gradients", None
    return "the bias depends only on the offset, and each block's mask is a view of one vector", partial(
        _in_blocks, q, k, v, replace(call, backend="toeplitz")
    )


def serves(q: Tensor, v: Tensor) -> bool:
    """Return whether FlexAttention supports the device, dtype and width of these queries and values."""
    takes = q.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return q.is_cuda and takes and min(q.shape[-1], v.shape[-1]) >= 16


@way("logsumexp", "softcap")
def flex(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if torch.compiler.is_compiling():
        return "under a compiler, torch's attention is used", None
    if call.dropout or call.trained:
        return "FlexAttention has no dropout and no gradients of a bias", None
    if (call.backend == "auto" and call.queries <= ROWS) or not serves(q, v):
        return f"FlexAttention needs CUDA, at least 16 channels and more than {ROWS} queries", None
    if call.bias is not None and call.bias.modifier is None:
        return "the bias has no score_mod", None
    return "FlexAttention applies mask and bias on the fly", partial(_by_flex, q, k, v, call)


def _by_flex(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    hides = call.mask.modifier(call.queries, call.all_keys, call.device)
    added, dense, softcap = None if call.bias is None else call.bias.modifier, call.mask.dense, call.softcap
    mask_heads = None if dense is None or dense.shape[1] == 1 else dense.shape[1]
    if softcap is not None:
        added = capped_score_mod(softcap, added, q.device)
    made_of = (type(call.mask), *vars(call.mask).values())
    return flexible(q, k, v, added, hides, call.scale, made_of, mask_heads, call.needs_logsumexp)


@way("logsumexp", "dropout")
def blocks(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if call.needs_logsumexp and not fused(q, k, v):
        return ROWS_KEPT, None
    if torch.compiler.is_compiling():
        return "under a compiler, mask and bias are computed in one piece", partial(_in_one_block, q, k, v, call)
    return "mask and bias are computed block by block", partial(
        _in_blocks, q, k, v, replace(call, backend="blocks")
    )


def _in_blocks(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    if call.needs_logsumexp or (call.learns(q, k, v) and (call.trained or fused(q, k, v))):
        return recomputed(q, k, v, call)
    return by_blocks(q, k, v, call), None


def _in_one_block(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    scores = products(q, k) * call.scale if call.needs_scores else None
    return call.attended(q, k, v, call.sdpa_mask(0, call.queries, call.all_keys, scores=scores)), None


@way("logsumexp", "softcap", "biases that read scores", "function transforms")
def operators(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    run = by_operators if is_transformed() or not is_concrete() else recomputed
    return "plain operators support every call", partial(run, q, k, v, replace(call, backend="operators"))
