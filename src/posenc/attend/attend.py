"""Attention without an L×L tensor: one list of ways to compute it, of which a call takes the first that serves.

``ways.py`` is that list, read from top to bottom; every way equals softmax(``scores``)·v. ``explain`` says which
one a call takes, and ``backend=`` names one.
"""

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from numbers import Real
from typing import Literal, NamedTuple, TypeVar, get_args, overload

import torch
from jaxtyping import Float
from torch import _C, Tensor
from torch.nn.functional import pad

from posenc.arguments import as_scale, no_argument
from posenc.attend.call import AttentionCall, check, check_sinks, check_types, plain_bool, scale_of_scores
from posenc.attend.operator import TRACED, operator
from posenc.attend.remapped import remapped
from posenc.attend.ways import Explanation, Output, choose
from posenc.encodings.placed import Placed
from posenc.encodings.wide import attended_dtype
from posenc.errors import InvalidArgument, UnknownName
from posenc.kernels.attention.softmax import SHARES_KEYS, for_every_head, merge
from posenc.mask import Mask

Backend = Literal[
    "auto", "documents", "reach", "low_rank", "dense", "sdpa", "toeplitz", "flex", "blocks", "operators"
]
"""A way of ``WAYS`` by name; ``"auto"`` is the first of them that serves."""

BACKENDS = get_args(Backend)

Result = TypeVar("Result")


class Settings(NamedTuple):
    """What a call asks for besides its scores."""

    exact_rows: bool
    softcap: float | None
    dropout: float
    backend: Backend


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
            - ``"dense"``: all scores at once, where they are few and the bias learns.
            - ``"sdpa"``: one call of torch's attention, without a mask or a bias.
            - ``"toeplitz"``: blocks of rows, which view bias and window along one line of offsets.
            - ``"flex"``: FlexAttention.
            - ``"blocks"``: blocks of rows, for each of which mask and bias are made.
            - ``"operators"``: plain operators, in float32 or wider, block by block.

            ``"auto"`` takes the first that serves, but ``"low_rank"`` only from 1024 tokens on where
            ``"toeplitz"`` serves too, and from 128 on where the bias learns. ``explain`` says which that is, and
            ``posenc.attend.FEATURES`` which of them has softcap, dropout or the logsumexp.

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
    return ways[0]._replace(reason=reason)


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
    if sinks is not None:
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
    out, lse = choose(q, k, wide, call)[1]()
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
    return choose(q, k, *_as_wide(q, v, call))[0]
