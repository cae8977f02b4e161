"""One call to attention: its input checks, its bias and mask in blocks of rows, and the work that it can skip."""

import math
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from posenc.arguments import as_scale, form
from posenc.encodings.bias import Bias
from posenc.encodings.placed import Placed, check_bhtd, head_counts
from posenc.errors import InvalidArgument
from posenc.kernels.attention.softmax import finite
from posenc.kernels.memory import is_concrete, plain_bool
from posenc.mask import Mask
from posenc.mask.tensors import check_field

LONG = 1024
"""From this number of tokens on, it is faster to skip the distant keys of some heads, and to add a bias through
extra channels of q and k instead of block by block.
"""


@dataclass(eq=False)
class Settings:
    """The settings of an attention call that do not change its mask, bias or scale."""

    needs_logsumexp: bool
    """Whether the logsumexp is needed. Unlike the output, it changes if a constant is added to a row of scores."""
    softcap: float | None
    """The limit of the absolute values of scores, applied before the bias is added; None for no limit."""
    dropout: float
    backend: str
    """The requested backend; during the computation, the chosen backend."""


@dataclass(eq=False)
class AttentionCall(Settings):
    """The mask, the bias and the scale of one call to attention."""

    mask: Mask
    bias: Bias | None
    scale: float
    queries: int
    all_keys: int
    device: torch.device
    dtype: torch.dtype
    """The dtype of additive masks. For float64 queries it is float64, because with these queries, torch 2.13's CPU
    kernel misreads a float32 mask."""
    q_dtype: torch.dtype
    trained: tuple[Tensor, ...]
    """The tensors of the bias that need a gradient, stored because autograd runs the backward pass with
    gradients disabled.
    """
    known: dict[str, Tensor] | None = field(default=None, init=False)
    """The tensors of the mask; None until a block of the mask has been computed."""

    @classmethod
    def of(
        cls,
        q: Tensor,
        k: Tensor,
        placed: Placed,
        mask: Mask,
        scale: float,
        settings: Settings,
    ) -> "AttentionCall":
        T, S = q.shape[2], k.shape[2]
        bias = placed.bias
        if bias is not None:
            if type(bias).ordered is not Bias.ordered:  # the order is computed only if it is used
                bias = bias.ordered(*mask.order(T, S, q.device))
            bias = bias.meeting(q, k, scale)
        trained = bias.trained if bias is not None and torch.is_grad_enabled() else ()
        return cls(
            settings.needs_logsumexp,  # one by one: torch 2.8 cannot compile vars()
            settings.softcap,
            settings.dropout,
            settings.backend,
            mask=mask,
            bias=bias,
            scale=scale,
            queries=T,
            all_keys=S,
            device=q.device,
            dtype=torch.promote_types(q.dtype, torch.float32),
            q_dtype=q.dtype,
            trained=trained,
        )

    @property
    def is_causal(self) -> bool:
        return self.mask.causal and self.queries != 1

    @property
    def needs_scores(self) -> bool:
        return self.bias is not None and self.bias.needs_scores

    @property
    def line(self) -> Tensor | None:
        """The bias at each offset, or None. The value is None if there is no bias, if the bias or the mask depends
        on anything besides the offset, or during compilation.
        """
        if self.bias is None or torch.compiler.is_compiling():
            return None
        return self.bias.toeplitz if self.mask.by_offset else None

    def learns(self, q: Tensor, k: Tensor, v: Tensor) -> bool:
        """Return whether q, k, v or the bias needs gradients; always False with dropout or during compilation."""
        recorded = torch.is_grad_enabled() and not self.dropout and not torch.compiler.is_compiling()
        return recorded and (bool(self.trained) or q.requires_grad or k.requires_grad or v.requires_grad)

    def part(self, row: int | None, first: int, last: int) -> "AttentionCall":
        """Return the call restricted to the tokens ``first`` to ``last`` (exclusive) of one sequence or of all."""
        tokens = slice(first, last)
        bias = None if self.bias is None else self.bias.cut(row=row, queries=tokens, keys=tokens)
        trained = bias.trained if bias is not None and self.trained else ()
        mask, length = self.mask.part(row, first, last), last - first
        return replace(self, mask=mask, bias=bias, queries=length, all_keys=length, trained=trained, backend="auto")

    def with_trained(self, tensors: tuple[Tensor, ...]) -> "AttentionCall":
        """Return a copy whose bias uses these tensors in place of ``trained``, at which the backward pass ends."""
        if self.bias is None or not tensors:
            return self
        return replace(self, bias=self.bias.with_trained(tensors), trained=tensors)

    def reaches(self, q: Tensor, k: Tensor) -> list[int]:
        """Return, for each key head, how many of the nearest keys (the query's own included) can affect the output.

        The list is empty if nothing can be left out, as for fewer than ``LONG`` queries or a bias without ``fall``.

        Without the bias, two scores of a row differ by at most d = 2·scale·max|q|·max|k|. With a bias of
        −m·distance, the weights of all keys farther than w = (d + ln(8·(1 + 1/m)/eps))/m sum to less than eps/8 of
        the weight of the query's own key, and leaving them out changes gradients by less than this fraction. w is
        rounded up to a power of two.
        """
        # Reading a length during compilation would specialise the graph to it.
        if self.bias is None or torch.compiler.is_compiling() or self.queries < LONG:
            return []
        fall, S = self.bias.fall, self.all_keys
        only_causal = self.mask.only_causal and self.mask.causal
        if fall is None or not only_causal or not (q.is_cpu and is_concrete(q, k)):
            return []
        q_size, k_size = (x.detach().norm(dim=-1, dtype=self.dtype).amax((0, 2)) for x in (q, k))
        spread = 2 * self.scale * q_size.view(len(k_size), -1) * k_size[:, None]
        m = fall.to(self.dtype).view_as(spread)
        far = (spread + (8 * (1 + 1 / m) / torch.finfo(self.dtype).eps).log()) / m
        furthest = far.masked_fill(~(m > 0), math.inf).amax(1).tolist()
        reaches = [1 << int(n).bit_length() if n < S // 2 else S for n in furthest]
        return reaches if min(reaches) <= S // 2 else []

    def heads(self, some: slice, window: int) -> "AttentionCall":
        """Return the call restricted to these heads and this window. The mask is unchanged if the window
        contains all keys.
        """
        assert self.bias is not None
        mask = self.mask if window >= self.all_keys else self.mask.within(window)
        bias = self.bias.cut(heads=some)
        return replace(self, mask=mask, bias=bias, trained=bias.trained if self.trained else (), backend="auto")

    def sdpa_mask(self, first: int, last: int, keys: int, start: int = 0, scores: Tensor | None = None) -> Tensor:
        """Return ``additive_mask`` in a dtype that torch's attention accepts on the call's device.

        Without a bias, the result is a boolean mask for all heads. GPU kernels do not accept a float32 mask with
        16-bit queries, so the mask is rounded to the queries' dtype. Before rounding, the maximum of each row is
        subtracted, so that nearby keys still differ after rounding.
        """
        if self.bias is None:
            visible = self.visible(first, last, keys, start)
            if visible is not None:
                return visible
        mask = self.additive_mask(first, last, keys, start, scores)
        if self.device.type == "cpu" or self.dtype == self.q_dtype:
            return mask
        largest = mask.amax(-1, keepdim=True) if mask.shape[-1] else mask.new_zeros(())
        return (mask - finite(largest)).to(self.q_dtype)

    def additive_mask(
        self, first: int, last: int, keys: int, start: int = 0, scores: Tensor | None = None
    ) -> Float[Tensor, "#B #H #rows near"]:
        """Return the bias for query rows ``first:last`` and key columns ``start:keys``, with −∞ at hidden keys.

        ``scores`` are the scores of the block; only a bias like CoPE's reads them.
        """
        visible = self.visible(first, last, keys, start)
        zero = torch.zeros((), dtype=self.dtype, device=self.device)
        hidden = zero.expand(1, 1, 1, keys - start) if visible is None else torch.where(visible, zero, -math.inf)
        if self.bias is None:
            return hidden.expand(-1, -1, last - first, keys - start)
        if scores is not None and visible is not None:
            scores = scores.masked_fill(~visible, -math.inf)
        bias = self.bias.rows(first, last, keys, scores, start)
        shape = self.bias.heads, last - first, keys - start
        if tuple(bias.shape[1:]) != shape or bias.dtype.itemsize < 4:
            raise InvalidArgument(
                f"{type(self.bias).__name__}.rows() must return a tensor (#B, H, rows, keys) with the last three "
                f"sizes {shape} and at least 32 bits per number, because in 16 bits neighbouring large distances "
                f"become equal; got {form(bias)}"
            )
        # Adding −∞ takes a tenth of the time of masked_fill with a mask that broadcasts.
        return bias.to(self.dtype) if visible is None else bias.to(self.dtype) + hidden

    def attended(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Float[Tensor, "B H T V"]:
        """Compute attention with one call to torch's attention. If ``mask`` is None, torch hides later keys if the
        property ``is_causal`` is true.

        If there is only one query per head, the heads that share keys become rows of one head, so that one matrix
        product reads their keys once. In bfloat16, this takes a tenth of the time of matrix–vector products.
        """
        heads, groups, scale, dropout = q.shape[1], k.shape[1], self.scale, self.dropout
        is_causal = mask is None and plain_bool(self.is_causal)
        # Branches, since torch does not accept a symbolic flag from a compiler.
        if heads == groups:
            return sdpa(q, k, v, mask, dropout, is_causal, scale=scale)
        if q.shape[2] != 1:
            return sdpa(q, k, v, mask, dropout, is_causal, scale=scale, enable_gqa=True)
        if mask is not None and mask.shape[1] != 1:
            mask = mask.reshape(mask.shape[0], groups, heads // groups, mask.shape[3])
        y = sdpa(q.reshape(q.shape[0], groups, heads // groups, q.shape[3]), k, v, mask, dropout, scale=scale)
        return y.reshape(q.shape[0], heads, 1, v.shape[3])

    def visible(self, first: int, last: int, keys: int, start: int = 0) -> Tensor | None:
        """Return a mask of the keys that each query of a block sees; None if every query sees all of them."""
        if self.known is None:
            self.known = self.mask.known(self.queries, self.all_keys, self.device)
        return self.mask.block(self.known, first, last, keys, start)


def check(q: Tensor, k: Tensor, v: Tensor | None, placed: Placed, mask: Mask) -> Mask:
    """Check all inputs, and return the mask narrowed to the layer's window. ``v`` is None if only scores are
    computed.

    Raises:
        InvalidArgument: an input does not fit the other inputs; the message names the input.
    """
    if not isinstance(placed, Placed):
        raise InvalidArgument(
            f"placed is {None if placed is None else type(placed).__name__}; place the encoding first: "
            "encoding.at(positions), or posenc.NoPE().at(positions) for no positional encoding"
        )
    if placed.stamps:
        placed.check_current()
    given = (("q", q), ("k", k)) if v is None else (("q", q), ("k", k), ("v", v))
    for name, x in given:
        check_bhtd(name, x)
        if x.device != q.device:
            raise InvalidArgument(f"q is on {q.device} but {name} is on {x.device}; move {name} with .to(…)")
    q_shape, k_shape = q.shape, k.shape
    _sizes(q_shape, k_shape, k_shape if v is None else v.shape)
    _fits(q, k, placed)
    B, H, T, D = q_shape
    if placed.added >= D:
        raise InvalidArgument(
            f"q has {D} channels per head, too few for a result of this encoding's rotate(), which adds "
            f"{placed.added} channels; pass the result of rotate()"
        )
    if placed.window is not None or placed.chunk is not None:
        mask = mask.within(placed.window, placed.chunk)
    ahead = not mask.causal or mask.bidirectional_groups is not None
    if placed.causal and ahead and (T > 1 or mask.q_order is not None):
        raise InvalidArgument(
            "this encoding is defined only for causal models, but the mask allows keys ahead of their queries; "
            "pass causal=True, or posenc.Mask(causal=True, …) without bidirectional_groups"
        )
    if not (mask.by_offset and k_shape[2] >= T):
        check_mask(mask, {"b": B, "h": H, "q": T, "k": k_shape[2]}, q.device)
    return mask.without_chunks(T, k_shape[2], q.device)


def scale_of_scores(placed: Placed, width: int, scale: float | None) -> float:
    """Return the factor of q·k: ``scale``, or by default the encoding's factor for this number of channels.

    Raises:
        InvalidArgument: the scale is not a finite number above 0.
    """
    if scale is not None:
        as_scale(scale, "scale")
        return scale
    unscaled = 1 / math.sqrt(width - placed.added) if placed.softmax_scale is None else placed.softmax_scale
    return unscaled * placed.softmax_factor


def check_sinks(sinks: Tensor, q: Tensor) -> None:
    """Raise an error unless ``sinks`` contains one logit per query head."""
    if not isinstance(sinks, Tensor) or sinks.shape != q.shape[1:2] or not sinks.is_floating_point():
        raise InvalidArgument(
            f"sinks is {form(sinks)}; expected a tensor with one float for each of the {q.shape[1]} heads of q"
        )
    if sinks.device != q.device:
        raise InvalidArgument(f"sinks is on {sinks.device} but q is on {q.device}; move sinks with .to(…)")


def _sizes(q: torch.Size, k: torch.Size, v: torch.Size) -> None:
    if not q[0] == k[0] == v[0]:
        raise InvalidArgument(
            f"q has batch size {q[0]}, k has {k[0]} and v has {v[0]}; expand these tensors to the same batch size"
        )
    if k[1] != v[1] or k[1] < 1 or q[1] % k[1]:
        raise InvalidArgument(
            f"q has {q[1]} heads, k has {k[1]} and v has {v[1]}; k and v must have the same number of heads, "
            "which must divide the number of heads of q"
        )
    if q[3] != k[3] or q[3] < 1:
        raise InvalidArgument(
            f"q has {q[3]} channels per head and k has {k[3]}; q and k must have the same number of channels, at "
            "least 1"
        )
    if k[2] != v[2]:
        raise InvalidArgument(f"k has {k[2]} keys but v has {v[2]} values; pass one value per key")


def _fits(q: Tensor, k: Tensor, placed: Placed) -> None:
    if placed.awaits_content:
        raise InvalidArgument(placed.unready)
    placed.check_tokens("q", q, placed.q_positions)
    placed.check_tokens("k", k, placed.k_positions)
    if placed.bias is None and placed.scale is None:
        return  # an encoding that only rotates works with any number of heads
    for what, heads in head_counts(placed).items():
        if heads != q.shape[1]:
            raise InvalidArgument(
                f"q has {q.shape[1]} heads but the {what} has {heads}; build the encoding with "
                f"heads={q.shape[1]}, or use placed.slice_heads(first, last) on a tensor-parallel rank"
            )


def check_mask(mask: Mask, sizes: dict[str, int], device: torch.device) -> None:
    """Raise an error if a mask does not fit this device or these sizes: batch b, heads h, queries q, keys k."""
    T, S = sizes["q"], sizes["k"]
    for name, x in mask.tensors().items():
        check_field(name, x, mask.rows[name]["axes"], sizes, device)
    if mask.bidirectional_groups is not None and mask.q_order is not None and T != S:
        raise InvalidArgument(
            f"bidirectional_groups and q_order cannot be combined for {T} queries and {S} keys, because the groups "
            "of the queries are unknown; omit q_order when you pass the whole prompt, and omit "
            "bidirectional_groups in the decoding steps after it"
        )
    if mask.q_order is None and T > S and (mask.causal or mask.window or mask.chunk):
        raise InvalidArgument(f"q has more tokens ({T}) than k ({S}); with this mask, pass q_order and k_order")
    keys = mask.key_mask  # if the last slots of a cache are empty, the last key is not the last query's own
    if keys is None or not mask.causal or mask.q_order is not None or not 0 < T < S:
        return
    if keys.device.type == "cpu" and is_concrete(keys) and not bool(keys[:, -1].any()):
        raise InvalidArgument(
            f"key_mask hides the last of {S} keys, but the last key and the last query must be the same token; if "
            "the cache has empty slots, pass the order of all tokens: Mask(causal=True, q_order=…, k_order=…)"
        )
