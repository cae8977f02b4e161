"""Caches for transformers: ``MovableCache``, whose keys can move, and ``RingCache``, whose size is constant."""

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from posenc.arguments import as_integer, at_least, form, instance, refused
from posenc.encodings.encoding import Encoding
from posenc.encodings.layers import Layers
from posenc.encodings.nope import NoPE
from posenc.encodings.rerotate import check_movable, rerotate
from posenc.errors import InvalidArgument
from posenc.positions import arange, on_axes


class UnrotatedCache(Cache):
    """A cache of unrotated keys, which ``encoding`` rotates in every forward pass."""

    def __init__(self, encoding: Encoding) -> None:
        for part in encoding.encodings if isinstance(encoding, Layers) else (encoding,):
            check_movable(part, "encoding")
        super().__init__(layer_class_to_replicate=self._layer)
        self.encoding = encoding

    def _layer(self) -> "MovableLayer":
        return MovableLayer(self, self.encoding.layer(len(self.layers)))

    has_previous_state = get_conv_state = update_conv_state = update_recurrent_state = refused(
        "this model has recurrent layers, whose state contains no keys that could move or be dropped; use "
        "transformers' DynamicCache(config=model.config)"
    )


class MovableCache(UnrotatedCache):
    """A cache for a rotary model. Its S keys are always at positions 0 … S−1, in the order of their slots.

    Pass the cache to the model's ``forward``, as ``past_key_values`` (named ``cache`` from transformers 5.24 on),
    without positions, images, padding or a mask. New tokens follow the tokens in the cache. transformers passes no
    positions to a cache, so wrong positions go unnoticed. ``generate`` counts all tokens that it was given, so
    passing it a cache from which tokens were dropped raises an error. Memory grows with the text, but is constant
    in a ``RingCache``.

    Args:
        encoding: the model's rotation, ``read(model.config).as_layers()``, or the encoding of a patched model. With
            a remapped encoding (``posenc.remap``), the cache returns unrotated keys and rotates nothing.

    Keys are stored unrotated, and every forward pass rotates all of them. Keys are therefore rounded only once, no
    matter how often they move.

    Moving a key changes only its rotation. In the first layer, a moved key equals, up to rounding, the key that the
    model computes from the remaining tokens alone. From the second layer on, the key and value of a token still
    depend on the tokens that preceded it when the model processed it, such as tokens that have since been dropped,
    or the old context of a moved passage. To compute keys and values without that context, pass the tokens to the
    model again.

    Raises:
        InvalidArgument: the encoding's keys cannot be moved.
    """

    dropped = False
    """Whether tokens were dropped since the cache was last empty."""

    def select(self, slots: Tensor) -> None:
        """Keep the tokens in these slots, in this order, at positions 0 … len(slots) − 1.

        ``select(cat((arange(4), arange(100, S))))`` is llama.cpp's context shift. ``slots`` is an int64 tensor
        ``(N,)`` of slot indices below S. To move a passage, move its slot indices to another place in this tensor.

        Raises:
            InvalidArgument: the slots are invalid.
        """
        length = self.get_seq_length()
        if not isinstance(slots, Tensor) or slots.dtype not in (torch.int64, torch.int32) or slots.dim() != 1:
            raise InvalidArgument(
                f"slots is {form(slots)}; expected an int64 tensor of shape (N,), one list of slots for the "
                "whole batch"
            )
        if outside := slots[(slots < 0) | (slots >= length)].tolist():
            raise InvalidArgument(f"slots contains {outside[0]}; the slots of this cache are 0 … {length - 1}")
        self.dropped |= len(slots.unique()) < length
        for layer in self.layers:
            layer.select(slots)

    def reset(self) -> None:
        """Forget all tokens."""
        super().reset()
        self.dropped = False

    @property
    def _is_user_defined(self) -> bool:
        """``generate`` sets this property. Setting it raises an error if tokens were dropped."""
        return True

    @_is_user_defined.setter
    def _is_user_defined(self, _: bool) -> None:
        if self.dropped:
            raise InvalidArgument(
                "generate counts all tokens, so it would read some tokens twice and look for tokens that this "
                "cache has dropped; pass new tokens to the model's forward, or read the text into a new cache"
            )

    def append(self, passage: UnrotatedCache) -> None:
        """Append another cache of the same model, such as a passage that was read alone.

        Raises:
            InvalidArgument: the keys of ``passage`` are rotated, as in caches of transformers.
        """
        instance(
            passage,
            UnrotatedCache,
            "passage",
            "a MovableCache, whose keys are unrotated; read the passage into a MovableCache",
        )
        for index, layer in enumerate(passage.layers):
            if index == len(self.layers):
                self.layers.append(self._layer())
            DynamicLayer.update(self.layers[index], layer.keys, layer.values)  # already unrotated


class MovableLayer(DynamicLayer):
    """The keys and values of a layer. Keys are stored unrotated."""

    keys: Tensor
    values: Tensor

    def __init__(self, cache: UnrotatedCache, encoding: Encoding) -> None:
        super().__init__()
        self.cache = cache
        self.encoding = NoPE() if encoding.remapped else encoding  # remapped attention needs unrotated keys

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        """Append new keys and values, and return the rotated keys and the values that queries see."""
        past, new = self.get_seq_length(), key_states.shape[-2]
        if key_states.shape[-1] != getattr(self.encoding, "head_dim", key_states.shape[-1]):
            raise InvalidArgument(
                f"keys of this model have {key_states.shape[-1]} channels, but encoding has "
                f"head_dim={self.encoding.head_dim}; pass the model's own encoding. Models with latent attention "
                "(DeepSeek) cache other vectors than keys, so use transformers' DynamicCache for them"
            )
        at = on_axes(arange(new, offset=past, device=key_states.device), self.encoding.axes)
        super().update(rerotate(key_states, at, self.encoding, NoPE()), value_states)
        count = self.keys.shape[-2]
        at = on_axes(arange(count, offset=past + new - count, device=self.keys.device), self.encoding.axes)
        return rerotate(self.keys, at, NoPE(), self.encoding), self.values

    def select(self, slots: Tensor) -> None:
        """Keep these slots, in this order."""
        slots = slots.to(self.keys.device)
        self.keys, self.values = self.keys[:, :, slots], self.values[:, :, slots]


class RingCache(UnrotatedCache):
    """A cache for rotary models that keeps the attention sinks and the last keys, in constant memory.

    Queries see the first ``sinks`` tokens and the last ``slots − sinks`` tokens, at consecutive positions, as in
    StreamingLLM (Xiao et al. 2023, arXiv 2309.17453). There, the first sink is always at position 0; here, new
    tokens keep their positions in the text, and the sinks move. Scores depend only on distances, so the scores are
    equal. As in ``MovableCache``, keys are stored unrotated, and every forward pass rotates all of them. Up to
    rounding, logits are the same as with a ``MovableCache`` after ``select`` of the same tokens.

    Pass the cache as ``past_key_values`` to ``forward`` without positions, or to ``generate``. Beams, gradients
    and padding are not supported; a cache cannot see which tokens are padding. If the cache is full, a forward pass
    of T tokens drops T keys before attention, so its first query sees ``slots − T`` keys and its own key. If T
    is more than ``slots − sinks``, however, the pass drops no keys before attention, so its queries may see more
    than ``slots`` keys; pass long texts in shorter chunks.

    Args:
        encoding: the model's rotation, ``read(model.config).as_layers()``, or the encoding of a patched model. With
            a remapped encoding (``posenc.remap``), the cache returns unrotated keys and rotates nothing. Of the
            remappings, only ReRoPE and STRING are allowed, because their scores depend only on distances. Others
            count groups or chunks from position 0, but positions in a ring grow.
        slots: S, the number of keys; at most the trained length.
        sinks: the number of tokens at the start of the text that are never dropped; 4 in the paper.
        wrap: a position, at least 2·S, at which all positions are reset to 0 … S − 1. If ``wrap`` is None,
            positions count all tokens, as in ``generate``, and float32 angles have an error of about p·2⁻²⁴ at
            position p. A model whose frequencies depend on the length needs a ``wrap`` of at most its trained
            length.

    Raises:
        InvalidArgument: the encoding's keys cannot be moved, its scores depend on more than distances, ``slots`` is
            not greater than ``sinks``, or ``wrap`` is below 2·S.
    """

    def __init__(self, encoding: Encoding, *, slots: int, sinks: int = 4, wrap: int | None = None) -> None:
        super().__init__(encoding)
        self.slots, self.sinks = as_integer(slots, "slots"), as_integer(sinks, "sinks")
        if not 0 <= self.sinks < self.slots:
            raise InvalidArgument(f"sinks={sinks} must be 0 or more, and below slots={slots}")
        self.wrap = None if wrap is None else at_least(2 * self.slots, f", twice slots={slots}")(wrap, "wrap")
        if reading := [x.name for x in encoding.modules() if isinstance(x, Encoding) and not x.relative]:
            raise InvalidArgument(
                f"encoding has {reading[-1]}, which depends on positions and not only on distances, but positions "
                "in a RingCache grow; use MovableCache, whose positions start at 0"
            )

    def _layer(self) -> "RingLayer":
        return RingLayer(self, self.encoding.layer(len(self.layers)))


class RingLayer(MovableLayer):
    """A layer's sinks and last keys, in order. The next token's position is ``cumulative_length``."""

    cache: RingCache
    is_croppable, cumulative_length = False, 0
    crop = refused(
        "a RingCache cannot take tokens back, because the keys that they replaced are gone; generate without "
        "assistant_model and prompt_lookup_num_tokens, or use MovableCache"
    )

    def update(self, key_states: Tensor, value_states: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        """Append new keys and values, and return the keys and values that queries see, in order."""
        new = key_states.shape[-2]
        self._drop(self._seen(new) - new)  # the keys that no query sees
        keys, values = super().update(key_states, value_states)
        self.cumulative_length += new
        self._drop(self.cache.slots)
        if self.cache.wrap is not None and self.cumulative_length >= self.cache.wrap:
            self.cumulative_length = self.cache.slots
        return keys, values

    def _seen(self, new: int) -> int:
        """Return the number of keys that the queries of a pass of ``new`` tokens see: all keys if ``new`` exceeds
        slots − sinks, and at most ``slots`` keys if not.
        """
        keys = super().get_seq_length() + new
        return keys if new > self.cache.slots - self.cache.sinks else min(keys, self.cache.slots)

    def _drop(self, slots: int) -> None:
        """Keep the sinks and the last keys, ``slots`` keys in total."""
        count, sinks = super().get_seq_length(), self.cache.sinks
        if count > slots:
            self.select(torch.cat((torch.arange(sinks), torch.arange(count - slots + sinks, count))))

    def get_seq_length(self) -> int:
        """Return the position of the next token."""
        return self.cumulative_length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of keys that queries see, and the position of the first key."""
        visible = self._seen(query_length)
        return visible, self.get_seq_length() + query_length - visible
