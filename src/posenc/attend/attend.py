"""Attention without an L×L tensor: one list of ways to compute it, of which a call takes the first that serves.

``WAYS`` is that list, read from top to bottom; every way equals softmax(``scores``)·v. ``explain`` says which one a
call takes, and ``backend=`` names one.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from numbers import Real
from typing import Literal, NamedTuple, TypeVar, get_args, overload

import torch
from jaxtyping import Float
from torch import _C, Tensor
from torch.autograd import forward_ad
from torch.nn.functional import pad

from posenc.arguments import as_scale, no_argument
from posenc.attend.blocks import ROWS, by_blocks, by_operators, recomputed
from posenc.attend.call import LONG, AttentionCall, check, check_sinks, check_types, plain_bool, scale_of_scores
from posenc.attend.operator import TRACED, operator
from posenc.attend.remapped import remapped
from posenc.encodings.placed import Placed
from posenc.encodings.wide import attended_dtype
from posenc.errors import InvalidArgument, UnknownName
from posenc.kernels.attention.flex import capped_score_mod, flexible, serves
from posenc.kernels.attention.low_rank import exact, widened
from posenc.kernels.attention.softmax import SHARES_KEYS, attended, for_every_head, fused, merge
from posenc.mask import Mask

Backend = Literal["auto", "documents", "reach", "low_rank", "sdpa", "toeplitz", "flex", "blocks", "operators"]
"""A way of ``WAYS`` by name; ``"auto"`` is the first of them that serves."""

BACKENDS = get_args(Backend)

Output = tuple[Tensor, Tensor | None]
"""softmax(scores)·v, and the logsumexp of the scores where the way has it."""

Offer = tuple[str, Callable[[], Output] | None]
"""Why a way serves a call, and what computes; or why it does not, and None."""

Result = TypeVar("Result")


class Settings(NamedTuple):
    """What a call asks for besides its scores."""

    exact_rows: bool
    softcap: float | None
    dropout: float
    backend: Backend


class Way(NamedTuple):
    """What a call takes: a way by name, why it serves and what computes, and those before it that do not."""

    name: str
    reason: str
    run: Callable[[], Output]
    declined: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Explanation:
    """Which way a call of attention takes, and why; printed, a line a way.

    Attributes:
        backend: the name of the way.
        reason: why it serves.
        declined: the ways before it, each with the reason why it is not taken.
    """

    backend: str
    reason: str
    declined: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        declined = (f"  not {name}: {why}" for name, why in self.declined)
        return "\n".join((f"{self.backend}: {self.reason}", *declined))


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    mask: Mask | None = ...,
    *,
    causal: bool = ...,
    window: int | None = ...,
    scale: float | None = ...,
    softcap: float | None = ...,
    sinks: Tensor | None = ...,
    dropout: float = ...,
    return_logsumexp: Literal[False] = ...,
    backend: Backend = ...,
) -> Tensor: ...


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    mask: Mask | None = ...,
    *,
    causal: bool = ...,
    window: int | None = ...,
    scale: float | None = ...,
    softcap: float | None = ...,
    sinks: Tensor | None = ...,
    dropout: float = ...,
    return_logsumexp: Literal[True],
    backend: Backend = ...,
) -> tuple[Tensor, Tensor]: ...


def attention(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K S D"],
    v: Float[Tensor, "B K S V"],
    placed: Placed = None,  # type: ignore[assignment]
    mask: Mask | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
    dropout: float = 0.0,
    return_logsumexp: bool = False,
    backend: Backend = "auto",
    **words: object,
) -> Float[Tensor, "B H T V"] | tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]:
    """Attention of T queries over S keys, with the encoding's bias and scale.

    Args:
        q: queries, ``(B, heads, length, channels)``.
        k: keys; they may have fewer heads, a divisor of q's (grouped query).
        v: values, with as many heads as the keys.
        placed: ``encoding.at(q_positions, k_positions)``; of ``Layers``, that of this layer, whose window is
            heeded beside the mask's.
        mask: who may see whom. A query that sees no key returns zeros.
        causal, window: the short form of ``Mask(causal=…, window=…)``. A causal query sees itself and what comes
            before it, both sequences ending at the same token; ``window`` keys of those, itself included.
        scale: multiplies the scores before the bias, in place of the encoding's: 1/√D, D without channels that
            ``rotate`` added, unless its ``softmax_scale`` or YaRN's ``mscale_all_dim`` says otherwise.
        softcap: squeezes scores into ±softcap, softcap·tanh(score/softcap), before the bias (Gemma 2).
        sinks: a learned logit for every query head, which takes part in every row's softmax and has no value
            (gpt-oss): y = Σ exp(s_k)·v_k / (Σ exp(s_k) + exp(sink)). Gradients flow to it.
        dropout: share of the weights set to zero; the rest grow by 1/(1 − dropout). 0 outside training.
        return_logsumexp: also return ln Σ exp(scores) of every row, ``(B, H, T)`` in float32 or wider, −∞ where a
            row sees no key, by which ``merge`` puts together parts of a sequence that were attended to one by one
            (ring attention). Sinks enter there, once.
        backend: the way to compute, which differs from others in the last digits:

            - ``"documents"``: documents, or rows without their padding, one by one, each in a way of its own.
            - ``"reach"``: heads apart whose bias falls so fast that far keys have no weight, each without those.
            - ``"low_rank"``: the bias as more channels of queries and keys, in one call of torch's attention.
            - ``"sdpa"``: one call of torch's attention, without a mask or a bias.
            - ``"toeplitz"``: blocks of rows, which view bias and window along one line of offsets.
            - ``"flex"``: FlexAttention.
            - ``"blocks"``: blocks of rows, for each of which mask and bias are made.
            - ``"operators"``: plain operators, in float32 or wider, block by block.

            ``"auto"`` takes the first that serves, but ``"low_rank"`` only from 1024 tokens on where
            ``"toeplitz"`` serves too. ``explain`` says which that is, and ``posenc.attend.FEATURES`` which of them
            has softcap, dropout or the logsumexp.

    Raises:
        InvalidArgument: shapes, devices or head counts that do not fit together, or a backend that does not serve
            this call.
        UnknownName: no backend of that name.

    Second derivatives exist on the CPU; on other devices torch's kernels have none, and
    ``scores(…).softmax(-1) @ v`` is the way.
    """
    for word in words:
        raise no_argument("attention", word, inspect.signature(explain).parameters)
    settings = _settings(return_logsumexp, softcap, sinks, dropout, backend)
    parts = _prepared(_computed, q, k, v, placed, Mask.of(mask, causal, window), scale, sinks, settings)
    out, lse = parts[0] if len(parts) == 1 and sinks is None else merge(parts, sinks)  # type: ignore[arg-type]
    return (out, lse) if return_logsumexp and lse is not None else out


def explain(
    q: Float[Tensor, "B H T D"],
    k: Float[Tensor, "B K S D"],
    v: Float[Tensor, "B K S V"],
    placed: Placed,
    mask: Mask | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
    dropout: float = 0.0,
    return_logsumexp: bool = False,
    backend: Backend = "auto",
) -> Explanation:
    """Which way ``attention`` takes with these arguments, here and now, and why; nothing is attended to.

    Whether gradients are recorded counts, as it does for ``attention``. Where positions are remapped, the first
    part says its way, and the reason lists those of all parts.

    Raises:
        InvalidArgument, UnknownName: as ``attention``.
    """
    settings = _settings(return_logsumexp, softcap, sinks, dropout, backend)
    ways = _prepared(_explained, q, k, v, placed, Mask.of(mask, causal, window), scale, sinks, settings)
    if len(ways) == 1:
        return ways[0]
    reason = f"{len(ways)} parts at positions of their own, merged: {'; '.join(map(str, ways))}"
    return replace(ways[0], reason=reason)


def _settings(
    return_logsumexp: bool, softcap: float | None, sinks: Tensor | None, dropout: float, backend: Backend
) -> Settings:
    """What is asked for, once it is known to make sense together."""
    if softcap is not None:
        as_scale(softcap, "softcap")
    if not isinstance(dropout, Real) or not 0 <= dropout < 1:
        raise InvalidArgument(
            f"dropout={dropout!r} must be a number in 0 … 1 (excluded), the share of weights that are dropped"
        )
    if backend not in BACKENDS:
        raise UnknownName("backend", backend, BACKENDS)
    if dropout and return_logsumexp:
        raise InvalidArgument(
            "dropout cannot be put together by the logsumexp; use dropout=0 with return_logsumexp"
        )
    if dropout and sinks is not None:
        raise _refused_dropout(dropout, "sinks")
    if return_logsumexp and sinks is not None:
        raise InvalidArgument(
            "return_logsumexp gives a part of a softmax, and sinks enter it once: leave them out here, and pass "
            "them to posenc.merge(parts, sinks=…)"
        )
    return Settings(return_logsumexp or sinks is not None, softcap, dropout, backend)


def _refused_dropout(dropout: float, what: str) -> InvalidArgument:
    return InvalidArgument(
        f"dropout={dropout} beside {what}: rows of weights are put together by their logsumexp, and torch's "
        "kernels give none where they drop; use dropout=0, in a config of transformers attention_dropout=0"
    )


def _prepared(
    take: Callable[[Tensor, Tensor, Tensor, Placed, Mask, float, Settings], Result],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    placed: Placed,
    mask: Mask,
    scale: float | None,
    sinks: Tensor | None,
    settings: Settings,
) -> list[Result]:
    """What ``take`` makes of the arguments, once they are known to fit together, outside of autocast: once, or for
    every part of a remapped encoding that sees any key."""
    mask = check(q, k, v, placed, mask)
    check_sinks(sinks, q)
    scale = scale_of_scores(placed, q.shape[-1], scale)
    device = q.device.type
    autocast = device != "meta" and torch.is_autocast_enabled(device)
    if placed.remaps and settings.dropout:
        raise _refused_dropout(settings.dropout, "remapped positions")
    calls = remapped(q, k, placed, mask) if placed.remaps else [(q, k, placed, mask)]
    if len(calls) > 1:
        settings = settings._replace(exact_rows=True)
    results = []
    for q, k, placed, mask in calls:
        if autocast:
            # It would round the bias to 16 bits, and so merge far distances: only q, k and v are rounded.
            q, k, v = (x.to(attended_dtype(x)) for x in (q, k, v))
        check_types(q, k, v)
        if not SHARES_KEYS and q.is_cpu and (torch.is_grad_enabled() or settings.exact_rows):
            k, v = (for_every_head(x, q.shape[1]) for x in (k, v))
        with torch.autocast(device, enabled=False) if autocast else nullcontext():
            results.append(take(q, k, v, placed, mask, scale, settings))
    return results


def _computed(
    q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask, scale: float, settings: Settings
) -> Output:
    """Output, and the logsumexp where it is asked for."""
    if torch.compiler.is_compiling() and TRACED and _is_one_operator(q, k, placed, mask, settings):
        # Of a placed encoding what attention reads.
        bare = Placed(placed.q_positions, placed.k_positions, placed.axes, bias=placed.bias, scale=placed.scale)
        outputs = AS_OPERATOR(q, k, v, bare, mask, scale, tuple(settings), sums=settings.exact_rows)
        if outputs is not None:
            return outputs
    call = AttentionCall.of(q, k, placed, mask, scale, *settings)
    q = q if placed.scale is None else (q * placed.scale).to(q.dtype)
    wide, call = _as_wide(q, v, call)
    out, lse = _choose(q, k, wide, call).run()
    return out if wide is v else out[..., : v.shape[-1]], lse if call.exact_rows else None


AS_OPERATOR = operator(
    "posenc::attend",
    lambda q, k, v, placed, mask, scale, settings: _computed(q, k, v, placed, mask, scale, Settings(*settings)),
)
"""``_computed`` to a compiler."""


def _is_one_operator(q: Tensor, k: Tensor, placed: Placed, mask: Mask, settings: Settings) -> bool:
    """Whether a compiler is given one operator: on the CPU, for more than one call of torch's attention."""
    if torch.compiler.is_exporting() or not q.is_cpu or settings.dropout or _C._are_functorch_transforms_active():
        return False
    if placed.bias is not None or settings.exact_rows or settings.softcap is not None:
        return True
    return not mask.only_causal or (mask.causal and plain_bool(q.shape[2] != 1 and q.shape[2] != k.shape[2]))


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


def _explained(
    q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask, scale: float, settings: Settings
) -> Explanation:
    call = AttentionCall.of(q, k, placed, mask, scale, *settings)
    way = _choose(q, k, *_as_wide(q, v, call))
    return Explanation(way.name, way.reason, tuple(way.declined))


def _choose(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Way:
    """The way that was asked for, else the first that serves."""
    asked = _asked(call)
    if call.backend != "auto":
        reason, run = _offered(call.backend, asked, q, k, v, call)
        if run is None:
            raise InvalidArgument(
                f"backend={call.backend!r} does not serve this call: {reason}; use backend='auto', or ask "
                "posenc.explain which way that takes"
            )
        return Way(call.backend, reason, run)
    declined: list[tuple[str, str]] = []
    for name in WAYS:
        reason, run = _offered(name, asked, q, k, v, call)
        if run is not None:
            return Way(name, reason, run, declined)
        declined.append((name, reason))
    raise InvalidArgument(
        f"no backend has {' and '.join(sorted(asked))} at once on {q.device.type}; leave one out, or take "
        "posenc.scores(…).softmax(-1) @ v"
    )


def _asked(call: AttentionCall) -> frozenset[str]:
    """The features of ``FEATURES`` that a call needs."""
    needs = {
        "logsumexp": call.exact_rows,
        "softcap": call.softcap is not None,
        "dropout": call.dropout > 0,
        "biases that read scores": call.needs_scores and not torch.compiler.is_compiling(),
        "function transforms": _is_transformed(),
    }
    return frozenset([name for name, needed in needs.items() if needed])


def _offered(name: str, asked: frozenset[str], q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    """What a way says to a call, if it has all that is asked for."""
    lacking = asked and asked - FEATURES[name]
    if lacking:
        return f"it has no {' and no '.join(sorted(lacking))}", None
    return WAYS[name](q, k, v, call)


def _is_transformed() -> bool:
    if torch.compiler.is_compiling():
        return False
    return _C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _operators(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    run = by_operators if _is_transformed() or torch.compiler.is_compiling() else recomputed
    return "plain operators serve every call", partial(run, q, k, v, replace(call, backend="operators"))


def _sums_rows(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> bool:
    """Whether torch's kernels give the logsumexp that is asked for, and its gradient."""
    return not call.exact_rows or (not torch.compiler.is_compiling() and fused(q, k, v))


def _documents(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if torch.compiler.is_compiling():
        return "a compiler is given one call for all documents", None
    if call.spans is None:
        return "no documents or padding are known that are long enough to be worth a call for each", None
    return "documents, or rows without their padding, see nobody outside theirs", partial(_by_spans, q, k, v, call)


def _by_spans(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    """Documents, or rows without their padding, one after the other: what is hidden is never computed."""
    spans = call.spans
    batch: list[Output] = []
    assert spans is not None
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
                outputs.append(_choose(some_q, some_k, some_v, part).run())
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


def _reach(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
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
        outputs.append(_choose(some_q, some_k, some_v, call.heads(slice(first, last), window)).run())
        first = last
    return _joined(outputs, 1)


def _low_rank(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if call.bias is None:
        return "no bias is added", None
    if not call.widens or (call.dropout and q.is_cpu):  # where weights are dropped, torch holds them all
        return "more than causality hides keys, queries and keys differ, or weights are dropped on the CPU", None
    if call.backend == "auto" and q.is_cpu and _offers_line(call) and not call.trained and call.queries < LONG:
        return f"below {LONG} tokens blocks along the bias's line are faster", None
    if not exact(q.device, q.dtype):
        return "this device does not sum channels of this type as exactly as they need", None
    channels = call.bias.low_rank(q.dtype, call.scale)
    if channels is None:
        return "the bias has no such channels at these positions", None
    wide, bare = widened(q, k, v, channels), replace(call, bias=None, trained=())
    return "the bias is a product of few channels, beside those of queries and keys", partial(
        _as_narrow, v.shape[-1], *wide, bare
    )


def _as_narrow(width: int, q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    return _in_one(q, k, v, call)[0][..., :width], None


def _sdpa(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if not call.whole:
        return "a bias, or a mask that is more than causality, is to be added", None
    if not _sums_rows(q, k, v, call):
        return ROWS_KEPT, None
    return "nothing is added, and one flag says what is hidden", partial(_in_one, q, k, v, call)


def _in_one(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    """One call of torch's attention; on the CPU with gradients that can be differentiated again."""
    if (call.exact_rows or call.learns(q, k, v)) and fused(q, k, v):
        return recomputed(q, k, v, replace(call, backend="sdpa"))
    return attended(q, k, v, call.scale, is_causal=plain_bool(call.is_causal), dropout=call.dropout), None


def _toeplitz(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if not _offers_line(call):
        return "no bias along one line of offsets with only causality or a window hiding keys", None
    if call.trained and (call.dropout or not fused(q, k, v)):
        return "no gradient flows to a bias through views of it", None
    return "the bias depends on the offset alone, and each block views one line of it", partial(
        _in_blocks, q, k, v, replace(call, backend="toeplitz")
    )


def _offers_line(call: AttentionCall) -> bool:
    return call.line is not None and not torch.compiler.is_compiling()


def _flex(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if torch.compiler.is_compiling():
        return "a compiler is given torch's attention", None
    if call.dropout or call.trained:
        return "FlexAttention drops no weights, and gives a bias no gradients", None
    if call.bias is not None and call.bias.modifier is None:
        return "the bias has no score_mod", None
    if (call.backend == "auto" and call.queries <= ROWS) or not serves(q, v):
        return f"FlexAttention is for CUDA, 16 channels and more than {ROWS} queries", None
    return "FlexAttention hides and adds as it goes", partial(_by_flex, q, k, v, call)


def _by_flex(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    hides = call.mask.modifier(call.queries, call.all_keys, call.device)
    added, dense, softcap = None if call.bias is None else call.bias.modifier, call.mask.dense, call.softcap
    mask_heads = None if dense is None or dense.shape[1] == 1 else dense.shape[1]
    if softcap is not None:
        added = capped_score_mod(softcap, added, q.device)
    made_of = tuple(vars(call.mask).values())
    return flexible(q, k, v, added, hides, call.scale, made_of, mask_heads, call.exact_rows)


def _blocks(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Offer:
    if not _sums_rows(q, k, v, call):
        return ROWS_KEPT, None
    if torch.compiler.is_compiling():
        return "a compiler is given mask and bias in one piece", partial(_in_one_block, q, k, v, call)
    return "mask and bias are made block by block", partial(_in_blocks, q, k, v, replace(call, backend="blocks"))


def _in_blocks(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    if call.exact_rows or (call.learns(q, k, v) and (call.trained or fused(q, k, v))):
        return recomputed(q, k, v, call)
    return by_blocks(q, k, v, call), None


def _in_one_block(q: Tensor, k: Tensor, v: Tensor, call: AttentionCall) -> Output:
    scores = None
    if call.needs_scores:  # in one piece, without the views of groups whose lengths an exporter cannot tell
        wide = torch.promote_types(q.dtype, torch.float32)
        scores = q.to(wide) @ for_every_head(k, q.shape[1]).to(wide).mT * call.scale
    return attended(q, k, v, call.scale, call.sdpa_mask(0, call.queries, scores), dropout=call.dropout), None


ROWS_KEPT = "torch's attention keeps the logsumexp to itself here"


WAYS: dict[str, Callable[[Tensor, Tensor, Tensor, AttentionCall], Offer]] = {
    "documents": _documents,
    "reach": _reach,
    "low_rank": _low_rank,
    "sdpa": _sdpa,
    "toeplitz": _toeplitz,
    "flex": _flex,
    "blocks": _blocks,
    "operators": _operators,
}

FEATURES: dict[str, frozenset[str]] = {
    "documents": frozenset({"logsumexp", "softcap", "dropout"}),
    "reach": frozenset({"logsumexp"}),
    "low_rank": frozenset({"dropout"}),
    "sdpa": frozenset({"logsumexp", "dropout"}),
    "toeplitz": frozenset({"logsumexp", "dropout"}),
    "flex": frozenset({"logsumexp", "softcap"}),
    "blocks": frozenset({"logsumexp", "dropout"}),
    "operators": frozenset({"logsumexp", "softcap", "biases that read scores", "function transforms"}),
}
"""What every way has besides masks and biases. The first that has all that a call needs computes it; a call that
needs more than any has is refused. Sinks need the logsumexp, which torch's kernels give on the CPU, and elsewhere
FlexAttention or operators; beside dropout no way has it."""
