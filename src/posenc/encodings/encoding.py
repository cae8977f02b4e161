"""The base class of encodings.

An encoding is a module that acts, at given positions, on embeddings, on queries and keys, or on scores.

    placed = encoding.at(positions)                          # all work that depends only on positions
    x = placed.embed(x)                                      # token embeddings
    here, state = placed[layer].with_content(x, state)       # the part that depends on content
    q, k = here.rotate(q, k)                                 # queries and keys, never v
    y = posenc.attention(q, k, v, here, causal=True)         # scores, through here.bias and here.scale

Callers and tests (``posenc.laws``) rely on the class attributes in which an encoding declares its properties.
"""

import itertools
import re
from abc import ABCMeta, abstractmethod
from inspect import formatannotation
from typing import Any, ClassVar, TypeVar, final, get_origin

import torch
import torch.fx
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from posenc.arguments import (
    PLAIN,
    ArgumentType,
    argument,
    bound,
    instance,
    parameters_of,
    plain_types,
    refused,
    shown,
)
from posenc.clock import ConstantBuffers, Phases
from posenc.encodings.placed import KeyPositions, Placed, Positions, Stamp
from posenc.errors import InvalidArgument, PosencError, first_line
from posenc.kernels.memory import LIMIT, check_positions, is_concrete
from posenc.scaling.scaling import Scaling

E = TypeVar("E", bound="Encoding")


class EncodingType(ArgumentType, ABCMeta):
    """Checks an encoding's settings against their annotations (see ``posenc.arguments.checked``), stores the
    settings, and re-raises Python's errors as ``InvalidArgument``. For a custom class, settings are stored but not
    checked, and errors are not converted.
    """

    def __call__(cls, *arguments, **settings):  # type: ignore[no-untyped-def]
        ours = cls.__module__.startswith("posenc.")
        given = bound(cls, arguments, settings) if ours else cls.__signature__.bind(*arguments, **settings)
        try:
            for name, value in given.arguments.items() if ours else ():
                given.arguments[name] = argument(given.signature.parameters[name], value)
            encoding = super().__call__(*given.args, **given.kwargs)
        except (TypeError, ValueError, ArithmeticError, RuntimeError, AttributeError, LookupError) as error:
            if isinstance(error, PosencError) or not ours:
                raise
            for name, value in given.arguments.items():
                kinds = plain_types(given.signature.parameters[name].annotation)
                classes = tuple(get_origin(kind) or kind for kind in kinds)
                if all(isinstance(kind, type) and kind not in PLAIN for kind in classes):
                    fix = re.sub(r"(\w+\.)+|(?<=None)Type", "", " or ".join(map(formatannotation, kinds)))
                    instance(value, classes, name, fix)
            values = ", ".join(f"{name}={shown(value)}" for name, value in given.arguments.items())
            raise InvalidArgument(
                f"cannot create an encoding with {values}: {first_line(error)}; pass values of the expected types"
            ) from error
        given.apply_defaults()
        vars(encoding).setdefault("_settings", {name: given.arguments[name] for name in parameters_of(cls)})
        return encoding


class Encoding(ConstantBuffers, metaclass=EncodingType):
    """A positional encoding. Subclass it directly, in a file of its own; do not subclass a concrete encoding."""

    name: ClassVar[str]
    """The name of the encoding in the catalogue."""

    acts_on: tuple[str, ...]
    """The effects of the encoding: any of ``"embeddings"``, ``"queries_keys"``, ``"bias"`` and ``"scale"``."""

    relative: bool
    """Whether scores depend only on offsets, so that shifting all positions does not change any score."""

    isometric: bool = True
    """Whether ``rotate`` keeps the lengths of vectors and is the identity at position 0."""

    axes: int = 1
    """A, the number of coordinates of a position. With A > 1, positions are ``(A, T)`` or ``(A, B, T)``."""

    signed: bool = False
    """Whether positions may be negative."""

    needs_content: bool = False
    """Whether ``with_content`` must be called with the tokens before attention can use the placed encoding."""

    uses_queries: bool = False
    """Whether the bias reads queries and keys as they enter attention, after any rotation."""

    remapped: bool = False
    """Whether attention divides the keys into parts, and rotates queries (and sometimes keys) differently for each
    part; see ``posenc.remap``.
    """

    causal: bool = False
    """Whether the encoding is defined only for causal models; attention then rejects a mask that lets queries see
    later keys."""

    grows: bool = False
    """Whether keys grow and queries shrink with their positions, as in xPos; ``rotate`` then rejects float16."""

    per_layer: bool = False
    """Whether every layer needs its own module with its own parameters."""

    scaling: Scaling | None = None
    """The rule that sets the frequencies; None if there are none that can be scaled for a longer context."""

    position_limit: int = LIMIT
    """The smallest position that the encoding does not support."""

    places: tuple[int, ...] = ()
    """The number of positions on each axis, if the axes differ; ``position_limit`` is then the smallest."""

    past_limit: str = ""
    """The end of the error message for a position beyond the limit; by default, it states the last position."""

    _settings: dict[str, Any]

    forward = rotate = embed = with_content = refused(
        "this encoding has no positions yet; place it first: placed = "
        "encoding.at(posenc.positions.arange(length)), and then call placed.embed(x), placed.rotate(q, k) or "
        "posenc.attention(q, k, v, placed)"
    )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name, including defaults."""
        return dict(self._settings)

    def with_settings(self: E, **changes: Any) -> E:
        """Return a new encoding with these settings changed, on the same device and with the same dtype."""
        encoding = type(self)(**{**self.settings, **changes})
        like = next(itertools.chain(self.parameters(), self.buffers()), None)
        if like is None:
            return encoding
        return encoding.to(like.device, like.dtype if like.is_floating_point() else None)

    @abstractmethod
    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        """Return the encoding at these positions in ``dtype``: the argument of ``at``, or float32 if that is wider.
        ``at`` has already checked the positions.
        """

    @final
    def placed(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        """Call ``place``, and record the parameters from which the result was computed."""
        parameters = tuple(self.parameters())
        sharded = "DTensor" in [type(x).__name__ for x in parameters]
        try:
            placed = self.place(q_positions, k_positions, torch.promote_types(dtype, torch.float32))
        except RuntimeError as error:  # torch cannot mix shards with plain tensors
            if sharded:
                raise InvalidArgument(_SHARDED) from error
            raise
        instance(
            placed,
            Placed,
            f"the result of {type(self).__name__}.place()",
            "posenc.Placed(q_positions, k_positions, …)",
        )
        if sharded and any(type(leaf).__name__ == "DTensor" for leaf in tree_leaves(placed)):
            raise InvalidArgument(_SHARDED)
        placed.causal = self.causal
        if parameters and not torch.compiler.is_compiling():
            placed.stamps = tuple(Stamp(x) for x in parameters if not x.is_inference())
        return placed

    @final
    def at(
        self,
        positions: Positions,
        k_positions: KeyPositions | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> Placed:
        """Place the encoding at these positions. Call this method once per forward pass, because it does all the
        work that depends only on positions.

        Args:
            positions: the positions of the queries (and of the token embeddings), int64 or int32, ``(T,)`` or
                ``(B, T)``; ``(A, T)`` or ``(A, B, T)`` if the encoding has A > 1 axes.
            k_positions: the positions of the keys, if they differ from the positions of the queries, as with a KV
                cache.
            dtype: the dtype of the tables that are computed here. The default, float32, is enough for all models
                except float64 models, which need float64.

        Raises:
            InvalidArgument: positions are neither int64 nor int32, or have an invalid shape.
            PositionOutOfRange: a position is out of this encoding's range.
        """
        return _at(self, positions, k_positions, dtype)

    def check(self, positions: Positions, name: str) -> None:
        """Raise an error for positions that this encoding does not support."""
        limit = LIMIT if self.places else self.position_limit
        check_positions(positions, name, limit, axes=self.axes, signed=self.signed, past_limit=self.past_limit)
        for axis, places in enumerate(self.places):
            check_positions(positions[axis], f"{name}[{axis}]", places, past_limit=self.past_limit)

    def layer(self, index: int) -> "Encoding":
        """Return the encoding of layer ``index``. The result differs between layers only for ``Layers``."""
        return self

    def with_scaling(self, scaling: Scaling | None, phases: Phases | None = None) -> "Encoding":
        """Return the encoding with the frequencies of this scaling; for None, return an encoding that does not
        rotate.

        The two encodings share parameters. ``phases`` is kept unless you pass another value. If ``scaling`` is not
        a setting of this encoding, the result is the encoding itself.
        """
        return self

    def enlarged(self, *places: int) -> "Encoding":
        """Return the encoding for an image of this size. The result is this encoding itself if its tables cover the
        whole image or cannot be resized, as in a learned grid without a resize convention. In all other cases, the
        result is a new encoding with the same parameters, which it interpolates to the size of the image.
        """
        return self

    @property
    def not_rerotatable(self) -> str:
        """The reason why ``rerotate`` cannot move cached keys to other positions; empty if it can."""
        if "embeddings" in self.acts_on:
            return "positions were added to the token embeddings, and every layer mixes them into its keys"
        if "queries_keys" in self.acts_on:
            return "it does not define how to undo its rotation"
        return ""

    @final
    def rotate_keys(self, k: Float[Tensor, "B K S D"], positions: Positions) -> Float[Tensor, "B K S E"]:
        """Rotate keys as ``rotate`` does. float64 keys are rotated in float64 if the device supports float64."""
        return self.placed(positions, positions, k.dtype).rotate(None, k)[1]

    @final
    def unrotate(self, k: Float[Tensor, "B K S E"], positions: Positions) -> Float[Tensor, "B K S D"]:
        """Undo ``rotate`` for these keys, and return the keys as they were before rotation."""
        return self.placed(positions, positions, k.dtype).unrotate(k)

    def extra_repr(self) -> str:
        """Return the settings as text, without settings that are None or False."""
        texts = [
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in self.settings.items()
            if value is not None and value is not False
        ]
        return ", ".join(texts)

    def describe(self) -> str:
        """Return a one-line description of the encoding."""
        return f"{self.name}: {self.extra_repr()}" if self.extra_repr() else self.name

    def reset_parameters(self) -> None:
        """Fill parameters and buffers as the constructor does, for example after ``to_empty`` on a module that was
        built on the meta device.
        """
        self.reset_buffers()
        _reset_below(self)


_SHARDED = (
    "the encoding's parameters are sharded, and FSDP does not gather them before at(); leave the encoding in the "
    "group of the module that calls at(), or register at() as a forward method and keep its parameters gathered: "
    "fully_shard(encoding, reshard_after_forward=False) and register_fsdp_forward_method(encoding, 'at')"
)


def _reset_below(module: nn.Module) -> None:
    """Call ``reset_parameters`` of every child; if a child lacks that method, as containers do, of its children."""
    for child in module.children():
        reset = getattr(child, "reset_parameters", None)
        _reset_below(child) if reset is None else reset()


def _at(encoding: Encoding, positions: Positions, k_positions: KeyPositions | None, dtype: torch.dtype) -> Placed:
    """Implement ``Encoding.at`` as a function, so that torch.fx records one call instead of tracing the checks."""
    if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled():
        with torch.inference_mode(False), torch.no_grad():  # the tables may be used in training too
            return _at(encoding, positions, k_positions, dtype)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise InvalidArgument(f"dtype={dtype} must be a floating-point type; use torch.float32 for most models")
    encoding.check(positions, "positions")
    _refuse_unfilled(encoding, positions.device)
    # Copies, so that a decoding loop can increment its positions in place without changing the placed encoding.
    if k_positions is None:
        k_positions = positions = positions.to(torch.int64, copy=True)
    else:
        encoding.check(k_positions, "k_positions")
        if k_positions.device != positions.device:
            raise InvalidArgument(
                f"positions is on {positions.device} but k_positions is on {k_positions.device}; use "
                f"k_positions.to({str(positions.device)!r})"
            )
        positions, k_positions = (at.to(torch.int64, copy=True) for at in (positions, k_positions))
    placed = encoding.placed(positions, k_positions, dtype)
    placed.asked_by = set() if encoding.per_layer else None
    return placed


torch.fx.wrap("_at")


def _refuse_unfilled(encoding: Encoding, device: torch.device) -> None:
    """Raise an error if a parameter or buffer is not on the device of the positions, or if a buffer was never
    filled. Each buffer is read once, which may synchronise with its device.
    """
    if (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_dispatch_stack()
        or (torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
    ):
        return
    for name, x in itertools.chain(encoding.named_parameters(), encoding.named_buffers()):
        if x.device != device:
            fix = (
                f"load weights, and call encoding.reset_buffers({str(device)!r})"
                if x.is_meta
                else "move one of these tensors with .to(…)"
            )
            raise InvalidArgument(f"positions is on {device} but the encoding's {name} is on {x.device}; {fix}")
    for module in encoding.modules():
        if not isinstance(module, ConstantBuffers) or not module.constants:
            continue
        buffers = list(map(module.get_buffer, module.constants))
        looked_at = list(map(id, buffers))
        if module.__dict__.get("_looked_at", []) == looked_at or not is_concrete(*buffers):
            continue
        for buffer, (name, numbers) in zip(buffers, module.constants.items(), strict=True):
            if not torch.equal(buffer.cpu(), numbers):
                raise InvalidArgument(
                    f"the buffer {name} of {type(module).__name__} has lost its initial values, for example "
                    "because a model was built on the meta device and only its weights were loaded; call "
                    "encoding.reset_buffers() (in a transformers model, from _init_weights)"
                )
        module._looked_at = looked_at  # type: ignore[assignment]
