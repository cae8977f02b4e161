"""A cache for transformers whose keys move: sinks with a window, context shift, a passage put elsewhere."""

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from posenc.arguments import as_integer
from posenc.encodings.encoding import Encoding
from posenc.encodings.nope import NoPE
from posenc.encodings.rerotate import rerotate
from posenc.errors import InvalidArgument
from posenc.positions import arange
from posenc.scaling import LengthScaling


class MovableCache(Cache):
    """Keys and values of a rotary model, which always stand at 0 … S−1 in the order of their slots.

    Pass it as ``past_key_values`` to the model's ``forward``, without positions, padding or a mask: tokens stand
    behind what the cache holds. ``generate`` counts every token that it was given, and so needs a cache from which
    nothing was dropped.

    Args:
        encoding: what rotates in the model, as ``read(model.config).as_layers()`` has it or as it is patched. Of a
            remapped encoding (``posenc.remap``) keys come raw and nothing need rotate.
        capacity: S that remains after a forward; default all. The first ``sinks`` tokens and the last ``capacity −
            sinks`` stay (StreamingLLM, Xiao et al. 2023, arXiv 2309.17453), which is constant memory. Within a
            forward of T tokens queries see up to ``capacity + T`` keys, so feed chunks with ``capacity + T`` at
            most the trained length.
        sinks: tokens of the beginning that are never dropped; those of the paper are 4.
        raw: keep keys as they were before rotation and rotate them when they are read. That costs a rotation of all
            keys a forward, and keys are rounded once however often they move. Rotated keys (False) round at every
            move, and in bfloat16 drift: pairs that turn by less than half a step of rounding never move.
        scaling: a ``LengthScaling`` whose plan the model follows as it grows (``rope_type="dynamic"``). Keys are
            rotated anew as soon as they are stale.

    Moved keys are those of the same tokens at other positions, up to rounding. In the first layer that is what the
    model computes of the remaining tokens alone. From the second layer on keys and values keep what their tokens
    saw when they were read: a dropped token, a passage's old surroundings, an old plan. No rotation restores that;
    only reading the tokens again does.

    Raises:
        InvalidArgument: keys that cannot be moved, or no room behind the sinks.
    """

    def __init__(
        self,
        encoding: Encoding,
        *,
        capacity: int | None = None,
        sinks: int = 0,
        raw: bool = True,
        scaling: LengthScaling | None = None,
    ) -> None:
        super().__init__(layer_class_to_replicate=self._layer)
        self.encoding, self.raw, self.scaling = encoding, raw, scaling
        self.sinks = as_integer(sinks, "sinks")
        self.capacity = None if capacity is None else as_integer(capacity, "capacity")
        if self.sinks < 0 or (self.capacity is not None and self.capacity <= self.sinks):
            raise InvalidArgument(
                f"capacity={capacity} has no room behind sinks={sinks}; sinks must be 0 or more, and below capacity"
            )

    def _layer(self) -> "MovableLayer":
        return MovableLayer(self, self.encoding.layer(len(self.layers)))

    def select(self, slots: Tensor) -> None:
        """Keep the tokens of these slots, in this order, at positions 0 … len(slots) − 1.

        ``select(cat((arange(4), arange(100, S))))`` is llama.cpp's context shift; another order puts a passage
        elsewhere. ``slots`` is int64, ``(N,)``, each below S.
        """
        for layer in self.layers:
            layer.select(slots)

    def append(self, passage: "MovableCache") -> None:
        """Put another cache of the same model, such as a passage that was read alone, behind these tokens."""
        for index, layer in enumerate(passage.layers):
            if index == len(self.layers):
                self.layers.append(self._layer())
            self.layers[index].append(layer)


class MovableLayer(DynamicLayer):
    """One layer's keys, rotated by ``stored``: the layer's encoding, or NoPE where they are raw."""

    keys: Tensor
    values: Tensor

    def __init__(self, cache: MovableCache, encoding: Encoding) -> None:
        super().__init__()
        if encoding.remapped:  # its attention takes raw keys
            encoding = NoPE()
        if encoding.not_rerotatable:
            raise InvalidArgument(f"cached keys of {encoding.name} cannot be moved: {encoding.not_rerotatable}")
        self.cache, self.encoding, self.planned = cache, encoding, 1
        if cache.scaling is not None:
            self.encoding = encoding.with_scaling(cache.scaling.plan(1))

    @property
    def stored(self) -> Encoding:
        return NoPE() if self.cache.raw else self.encoding

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        """All keys and values, the new ones last, rotated; the cache then drops what is beyond its capacity."""
        past = self.get_seq_length()
        total = past + key_states.shape[-2]
        self._replan(total)
        at = arange(total, device=key_states.device)
        if self.cache.raw:
            key_states = rerotate(key_states, at[past:], self.encoding, NoPE())
        keys, values = super().update(key_states, value_states)
        rotated = rerotate(keys, at, NoPE(), self.encoding) if self.cache.raw else keys
        sinks, capacity = self.cache.sinks, self.cache.capacity
        if capacity is not None and total > capacity:
            self.select(torch.cat((at[:sinks], at[total - capacity + sinks :])))
        return rotated, values

    def _replan(self, total: int) -> None:
        scaling = self.cache.scaling
        if scaling is None or total <= self.planned:
            return
        if scaling.stale(self.planned, total):
            before = self.stored
            self.encoding = self.encoding.with_scaling(scaling.plan(total))
            if self.get_seq_length() and not self.cache.raw:
                at = arange(self.get_seq_length(), device=self.keys.device)
                self.keys = rerotate(self.keys, at, before, self.stored)
        self.planned = total

    def select(self, slots: Tensor) -> None:
        """Keep these slots, in this order; keys that do not move are not rounded again."""
        slots = slots.to(self.keys.device)
        to = arange(len(slots), device=slots.device)
        keys, moves = self.keys[:, :, slots], slots != to
        if not self.cache.raw:
            keys[:, :, moves] = rerotate(keys[:, :, moves], slots[moves], self.stored, self.stored, to[moves])
        self.keys, self.values = keys, self.values[:, :, slots]

    def append(self, other: "MovableLayer") -> None:
        """Put another layer's keys behind these."""
        start, at = self.get_seq_length(), arange(other.get_seq_length(), device=other.keys.device)
        self._replan(start + len(at))
        super().update(rerotate(other.keys, at, other.stored, self.stored, at + start), other.values)
