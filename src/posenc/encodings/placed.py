"""An encoding at given positions acts on token embeddings, rotates queries and keys, and provides attention with a
bias and with one factor per row of scores.

    x = placed.embed(x)                        # token embeddings
    here, state = placed.with_content(x, state)        # the part that depends on content
    q, k = here.rotate(q, k)                   # queries and keys, never v
    y = posenc.attention(q, k, v, here, mask) # applies here.bias and here.scale

If an encoding does not act on a tensor, the tensor is returned unchanged.
"""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.arguments import as_integer, tensors
from posenc.encodings.bias import Bias
from posenc.errors import InvalidArgument
from posenc.kernels.memory import plain_bool
from posenc.pytrees import Pytree

Positions = Int[Tensor, " T"] | Int[Tensor, "B T"] | Int[Tensor, "A T"] | Int[Tensor, "A B T"]
KeyPositions = Int[Tensor, " S"] | Int[Tensor, "B S"] | Int[Tensor, "A S"] | Int[Tensor, "A B S"]
Queries = TypeVar("Queries", bound=Tensor | None)
"""Queries ``(B, H, T, D)``, or None."""
Keys = TypeVar("Keys", bound=Tensor | None)
"""Keys ``(B, K, S, D)``, or None."""
ContentState = Float[Tensor, "B n _"]
"""n raw values per key, which can be gathered, sharded and cached like keys and values. The last axis has one entry
per key: before ``with_content``, for the keys in the cache; after ``with_content``, for all keys.
"""


class Stamp:
    """A parameter and the value of its version counter in torch. A copied or unpickled stamp has no parameter,
    because the copy of the parameter has a version counter of its own.
    """

    def __init__(self, parameter: Tensor | None = None) -> None:
        self.parameter, self.count = parameter, 0 if parameter is None else parameter._version

    def __reduce__(self) -> tuple[type["Stamp"], tuple[()]]:
        return Stamp, ()


class Placed(Pytree):
    """An encoding at given positions. By default, every method returns its inputs unchanged; subclasses override
    methods.

    A placed encoding is a pytree of tensors, so it can be passed to an exported program or sent to another process.

    Args:
        q_positions: positions of the queries and of the token embeddings.
        k_positions: positions of the keys.
        axes: the number of coordinates of a position; with more than one, the leading axis of positions lists the
            coordinates.
        bias: added to the scores after they are scaled.
        scale: a factor for each query's row of scores, in addition to 1/√D.
        softmax_scale: the factor of q·k, instead of 1/√D.
    """

    facts: ClassVar[tuple[str, ...]] = ("stamps", "asked_by")

    state_size: int = 0
    """The number of values per key in the state."""

    awaits_content: bool = False
    """Whether ``with_content`` must be called before attention can use the encoding."""

    unready: ClassVar[str] = (
        "this encoding depends on the tokens; instead of placed, pass the first result of "
        "placed.with_content(x, state)"
    )
    """The error message if attention gets an encoding whose ``awaits_content`` is True."""

    window: int | None = None
    """The window of the layer, if ``Layers`` sets a window. Attention uses the narrower of this window and the
    window of the mask.
    """

    chunk: int | None = None
    """The length of chunks in the layer, if ``Layers`` sets a length; see ``Mask.chunk``."""

    stamps: tuple[Stamp, ...] = ()
    """The parameters from which the encoding was computed."""

    added: int = 0
    """The number of channels that ``rotate`` adds to every head; D in 1/√D excludes these channels."""

    softmax_factor: float = 1.0
    """A factor of q·k in addition to ``softmax_scale`` or 1/√D, such as the factor of YaRN's ``mscale_all_dim``."""

    causal: bool = False
    """Whether the encoding is undefined for keys ahead of their query, so that attention rejects masks that let
    queries see such keys.
    """

    remaps: "tuple[RemappedPart, ...]" = ()
    """The parts of an encoding with remapped positions. Attention rotates queries once for each part; see
    ``posenc.remap``.
    """

    asked_by: set[int] | None = None
    """If the parameters belong to only one layer, the numbers of all layers that requested this encoding; more
    than one is an error.
    """

    def __init__(
        self,
        q_positions: Positions,
        k_positions: KeyPositions,
        axes: int = 1,
        *,
        bias: Bias | None = None,
        scale: Float[Tensor, "#B #H T 1"] | None = None,
        softmax_scale: float | None = None,
    ) -> None:
        self.q_positions, self.k_positions, self.axes = q_positions, k_positions, axes
        self.bias, self.scale, self.softmax_scale = bias, scale, softmax_scale

    def __getitem__(self, layer: int) -> "Placed":
        """Return the placed encoding of this layer. The result differs between layers only if the encoding is
        ``Layers``.
        """
        if self.asked_by is not None:
            self.asked_by.add(layer)
            if len(self.asked_by) > 1:
                raise InvalidArgument(
                    f"layers {sorted(self.asked_by)} would share the parameters of one layer, but this encoding "
                    "needs separate parameters in every layer; build the encoding for all layers with "
                    "posenc.encoding(…, layers=n), or pass shared=True if the encoding accepts it"
                )
        return self

    def embed(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """Add the position vectors to the token embeddings. Call this method once, before the first layer."""
        return x

    def with_content(
        self, x: Float[Tensor, "B T C"], state: ContentState | None = None
    ) -> tuple["Placed", ContentState | None]:
        """Read the tokens x that enter a layer's attention. Return two results: the encoding for these tokens, and
        the state of all keys so far. ``state`` is the state of the keys in the cache; without a cache it is None.
        If the encoding does not depend on content, return the encoding itself and ``state``.
        """
        return self, state

    def with_state(self, state: ContentState | None) -> "Placed":
        """Return the encoding with this state, for example after gathering shards. If the encoding has no state,
        the result is the encoding itself.
        """
        return self

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        """Rotate queries ``(B, H, T, D)`` and keys ``(B, K, S, D)``. If q or k is None, so is its result. Values
        are never rotated.

        k is either the keys of the T tokens at ``q_positions``, as when decoding with a cache, or all S keys at
        ``k_positions``. If ``k_positions`` differs from ``q_positions``, every call with all S keys computes cos
        and sin at ``k_positions`` again. To avoid this work with a cache of unrotated keys, also place the encoding
        at the positions of all keys, once per forward pass, and rotate the keys with that placed encoding.
        """
        return q, k

    def unrotate(self, k: Float[Tensor, "B K S E"]) -> Float[Tensor, "B K S D"]:
        """Undo ``rotate`` for keys at ``q_positions``, and return the keys as they were before rotation."""
        return k

    def narrow(self, window: int | None, chunk: int | None) -> None:
        """Limit attention with this encoding to this window and this chunk length."""
        windows = [size for size in (window, self.window) if size is not None]
        self.window = min(windows) if windows else None
        self.chunk = chunk or self.chunk

    def check_current(self) -> None:
        """Raise an error if parameters have changed since the encoding was placed.

        Raises:
            InvalidArgument: a parameter was changed in place, for example by an optimiser step. Changes through
                ``.data`` are not detected.
        """
        same = (x.parameter is None or x.parameter._version == x.count for x in self.stamps)
        if not torch.compiler.is_compiling() and not all(same):
            raise InvalidArgument(
                "the encoding's parameters have changed since it was placed, so attention would use old values; "
                "place the encoding again in every step: placed = encoding.at(positions)"
            )

    def slice_heads(self, first: int, last: int) -> "Placed":
        """Return the encoding for the query heads ``first`` to ``last`` (exclusive), for a rank of a
        tensor-parallel model.

        ``ALiBi(8).at(positions).slice_heads(4, 8)`` has the slopes 2^−5 … 2^−8, which are not the slopes of
        ``ALiBi(4)``. Call ``with_content`` before slicing; the state still contains all heads.

        Raises:
            InvalidArgument: the encoding has no such heads, or ``with_content`` must be called first.
        """
        if self.awaits_content:
            raise InvalidArgument(
                "heads can be sliced only in a single layer, and only after with_content; run layer_placed, state "
                "= placed[layer].with_content(x, state), and then layer_placed.slice_heads(first, last)"
            )
        if not 0 <= as_integer(first, "first") < as_integer(last, "last"):
            raise InvalidArgument(
                f"first={first} and last={last} must be a range of query heads, last excluded: 0 ≤ first < last"
            )
        for what, heads in head_counts(self).items():
            if last > heads:
                raise InvalidArgument(
                    f"first={first} and last={last} must be within the {heads} heads of the {what}; count heads "
                    "from 0, and build the encoding for all heads of the model"
                )
        sliced = copy.copy(self)
        if self.bias is not None:
            sliced.bias = self.bias.cut(heads=slice(first, last))
        if self.scale is not None and self.scale.shape[1] != 1:
            sliced.scale = self.scale[:, first:last]
        return sliced

    def keys_at_queries(self, q: Tensor | None, k: Tensor | None, head_dim: int) -> bool:
        """Return whether k contains exactly the keys at the queries' positions. Without a cache, all S keys are at
        these positions; with a cache, only the T new keys are. Raise an error if the shape of q or k does not fit.
        """
        T, S = self.q_positions.shape[-1], self.k_positions.shape[-1]
        alike = k is None or self.k_positions is self.q_positions or plain_bool(k.shape[-2] == T != S)
        if q is not None:
            self.check_heads("q", q, self.q_positions, head_dim)
        if k is not None:
            self.check_heads("k", k, self.q_positions if alike else self.k_positions, head_dim)
        return alike

    def check_heads(self, name: str, x: Tensor, positions: Positions, head_dim: int) -> None:
        """Raise an error unless x is a batch of queries or keys at these positions."""
        check_bhtd(name, x)
        if x.shape[-1] != head_dim:
            raise InvalidArgument(
                f"{name} has shape {tuple(x.shape)}; its last axis must have size head_dim={head_dim}"
            )
        self.check_tokens(name, x, positions)

    def check_embeddings(self, x: Tensor, width: int) -> None:
        """Raise an error unless x is a batch of token embeddings at the queries' positions."""
        tensors(x=x)
        if x.dim() != 3 or x.shape[2] != width:
            raise InvalidArgument(f"x has shape {tuple(x.shape)}; expected (B, length, width={width})")
        self.check_tokens("x", x, self.q_positions)

    def check_tokens(self, name: str, x: Tensor, positions: Positions) -> None:
        """Raise an error if x differs from the positions in length, batch size or device, or is not
        floating-point."""
        shape, placed = x.shape, positions.shape
        if shape[-2] != placed[-1]:
            raise InvalidArgument(
                f"{name} has length {shape[-2]} but the encoding was placed at {placed[-1]} positions; "
                + (
                    f"if its shape is (B, T, H, D), pass posenc.layouts.from_bthd({name})"
                    if x.dim() == 4 and shape[1] == placed[-1]
                    else "pass one position per token, and with a cache, call encoding.at(positions, k_positions)"
                )
            )
        batched = len(placed) == (2 if self.axes == 1 else 3)
        if batched and placed[-2] != 1 and placed[-2] != shape[0]:
            raise InvalidArgument(
                f"{name} has batch size {shape[0]} but the encoding was placed at {placed[-2]} rows of positions; "
                "pass one row per sequence, or one row for all sequences"
            )
        if not x.is_floating_point() or x.dtype.itemsize == 1:  # torch does not promote float8
            raise InvalidArgument(
                f"{name} is {x.dtype}; expected a floating-point dtype of at least 16 bits; use {name}.float()"
            )
        if not (x.is_cpu and positions.is_cpu) and x.device != positions.device:
            raise InvalidArgument(
                f"{name} is on {x.device} but the encoding was placed on {positions.device}; move {name} with "
                ".to(…)"
            )


@dataclass(frozen=True, eq=False)
class RemappedPart(Pytree):
    """The rotations for one part of the keys: the keys whose ``Placed.k_positions`` are at least ``q_from`` and
    below ``q_until``.

    Args:
        queries: the rotation at the queries' positions in this part.
        keys: the rotation of all keys; None if keys are used as they are stored in the cache.
        q_from, q_until: the bounds of the key positions, per query; None for no bound.
    """

    queries: Placed
    keys: Placed | None
    q_from: Positions | None = None
    q_until: Positions | None = None

    def rotate(self, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K S D"]) -> tuple[Tensor, Tensor]:
        """Rotate queries to the positions of this part, and rotate keys unless the part uses keys as stored."""
        return self.queries.rotate(q, None)[0], k if self.keys is None else self.keys.rotate(k, None)[0]


def check_bhtd(name: str, x: Any) -> None:
    """Raise an error unless x is a 4-D batch of queries, keys or values."""
    if not isinstance(x, Tensor):  # in every call
        tensors(**{name: x})
    if x.dim() != 4 or not x.shape[1]:
        fix = f"; add a batch axis: {name}[None]" if x.dim() == 3 else "; reshape it"
        raise InvalidArgument(f"{name} has shape {tuple(x.shape)}; expected (B, heads, length, channels){fix}")


def head_counts(placed: Placed) -> dict[str, int]:
    """Return the head counts of the bias and the scale, omitting those that fit any number of heads."""
    counts = {} if placed.bias is None else {"bias": placed.bias.heads}
    if placed.scale is not None and placed.scale.shape[1] != 1:
        counts["scale"] = placed.scale.shape[1]
    return counts


def insert_head_axis(table: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape2"]:
    """Insert an axis for heads: ``(B, T, n)`` becomes ``(B, 1, T, n)``. Tables with two or four axes are returned
    unchanged."""
    return table.unsqueeze(1) if table.dim() == 3 else table


def row_scale(factors: Float[Tensor, "*shape"]) -> Float[Tensor, "#B 1 T 1"]:
    """Reshape per-position factors, ``(T,)`` or ``(B, T)``, to the shape of ``Placed.scale``."""
    return (factors[None] if factors.dim() == 1 else factors)[:, None, :, None]
