"""Attention without an L×L tensor. Each call uses the first backend in ``ways.py`` that supports the call.
Every backend computes softmax(``scores``)·v. ``explain`` reports which backend a call uses, and ``backend=`` forces
a backend.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from numbers import Real
from typing import Literal, TypeVar, overload

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import as_scale, no_argument, one_of, parameters_of
from posenc.attend.call import Settings, check, check_sinks, scale_of_scores
from posenc.attend.offers import WAYS, Explanation
from posenc.attend.remapped import remapped
from posenc.attend.ways import chosen, computed
from posenc.encodings.placed import Placed
from posenc.encodings.wide import attended_dtype
from posenc.errors import InvalidArgument
from posenc.kernels.attention.softmax import SHARES_KEYS, merge, repeat_kv
from posenc.mask import Mask

Backend = Literal[
    "auto", "documents", "reach", "low_rank", "dense", "sdpa", "toeplitz", "flex", "blocks", "operators"
]
"""The name of an attention backend. The results of backends differ only in the last digits.

- ``"documents"``: one call per document, or per row without its padding; each call uses its own backend.
- ``"reach"``: distant keys are left out in heads whose bias falls so fast that these keys have no weight.
- ``"low_rank"``: the bias as extra channels of queries and keys, in one call of torch's attention.
- ``"dense"``: all scores in one tensor, if there are few scores and the bias is trained.
- ``"sdpa"``: one call of torch's attention, without a mask or a bias.
- ``"toeplitz"``: blocks of rows, with bias and window as views of one vector indexed by offset.
- ``"flex"``: FlexAttention.
- ``"blocks"``: blocks of rows, with mask and bias computed for each block.
- ``"operators"``: basic PyTorch operators, in float32 or wider, block by block.

``"auto"`` uses the first backend that supports the call, in this order. It uses ``"low_rank"`` only for at least
1024 tokens if ``"toeplitz"`` supports the call too, and only for at least 128 tokens if the bias is trained.
``explain`` names the backend of a call, and says why each earlier backend is not used."""

Result = TypeVar("Result")


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
    **unknown: object,
) -> Float[Tensor, "B H T V"] | tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]:
    """Compute attention of T queries over S keys, with the encoding's bias and scale.

    Args:
        q: queries, ``(B, heads, length, channels)``.
        k: keys; the number of key heads may be a divisor of the number of query heads (grouped-query attention).
        v: values, with as many heads as the keys.
        placed: ``encoding.at(q_positions, k_positions)``. For ``Layers``, pass ``placed[layer]``, whose window
            applies in addition to the mask's.
        mask: the keys that each query may see. The output for a query that sees no key is zero.
        causal, window: shorthand for ``Mask(causal=…, window=…)``. With ``causal``, a query sees its own key and
            earlier keys. If there are fewer queries than keys, the queries are the last tokens. With ``causal`` and
            a window, a query sees only its own key and the ``window`` − 1 keys before it.
        scale: the factor on q·k before the bias is added; by default 1/√D (D excludes channels that
            ``rotate`` added), unless the encoding's ``softmax_scale`` or YaRN's ``mscale_all_dim`` changes it.
        softcap: limits scores to ±softcap before the bias is added, as softcap·tanh(score/softcap) (Gemma 2).
        sinks: a learned logit per query head, whose exponential is added to the denominator of the softmax in every
            row (gpt-oss): y = Σ exp(s_k)·v_k / (Σ exp(s_k) + exp(sink)). Sinks get gradients.
        dropout: the probability that a weight is set to zero; the other weights are multiplied by 1/(1 −
            dropout). Pass 0 outside training.
        return_logsumexp: whether to also return ln Σ exp(scores) of every row, ``(B, H, T)`` in float32 or
            wider, −∞ if a row sees no key. ``merge`` uses these values to combine attention over several parts
            of a sequence (ring attention). Pass sinks to ``merge``, not to this call.
        backend: the name of a backend, as described in ``Backend``; ``explain`` reports which backend ``"auto"``
            uses.

    Raises:
        InvalidArgument: shapes, devices or head counts do not fit together, or the backend does not support this
            call.
        UnknownName: no backend has this name.

    Second derivatives work on the CPU. On other devices, torch's kernels do not support second derivatives, so
    use ``scores(…).softmax(-1) @ v``.
    """
    settings = _settings(softcap, sinks, dropout, return_logsumexp, backend, unknown)
    take = computed
    if torch.compiler.is_compiling():
        from posenc.attend.operator import operated as take  # registering operators takes milliseconds
    parts = _prepared(take, q, k, v, placed, Mask.of(mask, causal, window), scale, sinks, settings)
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
    **unknown: object,
) -> Explanation:
    """Explain which backend ``attention`` would use for these arguments, and why, without computing attention.

    As in ``attention``, the choice depends on whether gradients are enabled. With remapped positions, attention is
    computed in several calls, each over a part of the keys: the result names the backend of the first call, and the
    reason lists the backends of all calls.

    Raises:
        InvalidArgument, UnknownName: as in ``attention``.
    """
    settings = _settings(softcap, sinks, dropout, return_logsumexp, backend, unknown)
    ways = _prepared(chosen, q, k, v, placed, Mask.of(mask, causal, window), scale, sinks, settings)
    if len(ways) == 1:
        return ways[0][0]
    return ways[0][0]._replace(
        reason=f"{len(ways)} parts, each with its own positions, whose results are merged: "
        + "; ".join([str(explanation) for explanation, _ in ways])
    )


def _settings(
    softcap: float | None,
    sinks: Tensor | None,
    dropout: float,
    return_logsumexp: bool,
    backend: str,
    unknown: Mapping[str, object],
) -> Settings:
    """Return the checked settings of a call; raise an error for arguments with unknown names."""
    for word in unknown:
        raise no_argument("attention", word, parameters_of(attention))
    if softcap is not None:
        as_scale(softcap, "softcap")
    if not isinstance(dropout, Real) or not 0 <= dropout < 1:
        raise InvalidArgument(f"dropout={dropout!r} must be the share of weights to drop: at least 0 and below 1")
    if backend != "auto":
        one_of("backend", backend, ("auto", *WAYS))
    if return_logsumexp and sinks is not None:
        raise InvalidArgument(
            "sinks and return_logsumexp cannot be combined, because the merged softmax must include sinks only "
            "once; pass sinks to posenc.merge(parts, sinks=…) instead"
        )
    return Settings(return_logsumexp or sinks is not None, softcap, dropout, backend)


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
    """Check the arguments, and call ``take`` with the checked arguments and autocast off.

    Return a list with one result. For an encoding with remapped positions, return one result per part of the keys;
    parts that no query sees are left out.
    """
    mask = check(q, k, v, placed, mask)
    if sinks is not None:
        check_sinks(sinks, q)
    scale = scale_of_scores(placed, q.shape[-1], scale)
    device = q.device.type
    autocast = device != "meta" and torch.is_autocast_enabled(device)
    if settings.dropout and (settings.needs_logsumexp or placed.remaps):
        raise InvalidArgument(
            f"dropout={settings.dropout} cannot be combined with return_logsumexp, sinks or remapped positions, "
            "because torch's kernels do not return the logsumexp with dropout; use dropout=0, or "
            "attention_dropout=0 in a transformers config"
        )
    calls = remapped(q, k, placed, mask) if placed.remaps else [(q, k, placed, mask)]
    if len(calls) > 1:
        settings = replace(settings, needs_logsumexp=True)
    results = []
    for q, k, placed, mask in calls:
        if autocast or not q.dtype == k.dtype == v.dtype:
            q, k, v = rounded(q, k, v)
        if not SHARES_KEYS and q.is_cpu and torch.is_grad_enabled():
            k, v = (repeat_kv(x, q.shape[1]) for x in (k, v))
        with torch.autocast(device, enabled=False) if autocast else nullcontext():
            results.append(take(q, k, v, placed, mask, scale, settings))
    return results


def rounded(*qkv: Tensor) -> list[Tensor]:
    """Return q, k and v, or q and k alone, in autocast's dtype, or unchanged without autocast.

    Only these tensors are rounded: autocast would also round the bias to 16 bits, in which neighbouring large
    distances become equal, so the computation itself must run with autocast off.

    Raises:
        InvalidArgument: the dtypes of the results differ.
    """
    result = [x.to(attended_dtype(x)) for x in qkv]
    if any([x.dtype != result[0].dtype for x in result]):  # noqa: C419  torch 2.8 compiles no generators
        raise InvalidArgument(
            " and ".join([f"{name} is {x.dtype}" for name, x in zip("qkv", result, strict=False)])
            + f"; {'q, k and v' if len(qkv) == 3 else 'q and k'} must have the same dtype: cast the results of "
            "your own rotation, or keys and values from a cache, with .to(…)"
        )
    return result
