"""Replaces T5's bias, and the attention of models with remapped positions; ``patched`` restores both."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

import posenc
from posenc import positions as make
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.kernels.memory import is_concrete
from posenc.mask import Mask


def _visible(mask: Tensor) -> Tensor:
    """Return which keys a query sees, given a mask of shape ``(B, 1, T, S)``. Older code passes an additive mask
    instead of a boolean one.

    Raises:
        InvalidArgument: an additive mask changes a score without hiding the key, so it cannot be expressed as a
            boolean mask.
    """
    if mask.dtype == torch.bool:
        return mask
    if is_concrete(mask) and ((mask != 0) & (mask > torch.finfo(mask.dtype).min / 2)).any():
        raise InvalidArgument(
            "attention_mask changes scores without hiding keys; a patched T5 accepts only masks with 0 for a "
            "visible key and torch.finfo(dtype).min for a hidden key"
        )
    return mask == 0


@dataclass(eq=False)
class _Stack:
    """An encoding, the position ids of the current forward pass, and the encoding at these positions. All
    attention modules with this encoding share one object. The model's cache contains unrotated keys, in the order
    of tokens.
    """

    encoding: Encoding

    def stand(self, ids: Tensor) -> None:
        """Receive the position ids of a forward pass."""
        self.ids = ids
        self.placed: dict[tuple[int, int], Placed] = {}

    def bias(self, query_length: int, key_length: int, device: Any = None, past_seen_tokens: Any = 0) -> Tensor:
        """Receive the positions of T5's forward pass, and return a zero instead of the model's own L×L bias."""
        self.stand(make.arange(query_length, offset=int(past_seen_tokens), device=device))
        return torch.zeros(1, 1, 1, 1, device=device)

    def meet(self, q: Tensor, k: Tensor, mask: Tensor | None) -> tuple[Placed, Tensor, Tensor, int]:
        """Return the encoding at the positions of the current forward pass, the rotated queries and keys, and the
        number of tokens before the queries."""
        T, S = q.shape[2], k.shape[2]
        filled = (  # the last key that the last query sees is its own
            int(_visible(mask)[..., -1, :].any(0).nonzero()[:, -1].amax()) + 1
            if mask is not None and T != S
            else S
            if T == 1
            else T  # without a mask, prefill fills a fixed-size cache from its first slot
        )
        if (S, filled) not in self.placed:
            before = filled - 1 - make.arange(S, device=q.device)
            keys = None if T == S else (self.ids[..., -1:] - before).clamp(min=0)
            self.placed[S, filled] = self.encoding.at(
                self.ids, keys, dtype=torch.promote_types(q.dtype, torch.float32)
            )
        placed = self.placed[S, filled]
        return placed, *placed.rotate(q, k), filled - T


def remapped(
    model: Any,
    tower: Mapping[str, nn.Module],
    positions: ModelPositions,
    encodings: Mapping[str, Encoding],
    undo: ExitStack,
) -> list[_Stack]:
    """Make attention modules rotate queries and keys with the encoding of their layer type.

    Returns the objects that need the position ids in every forward pass.
    """
    types = {
        module: positions.layer_types[index]
        for module in tower.values()
        if "Attention" in type(module).__name__ and (index := getattr(module, "layer_idx", None)) is not None
    }
    return _attach(model, {module: encodings[kind] for module, kind in types.items() if kind in encodings}, undo)


def relative(model: Any, tower: Mapping[str, nn.Module], layers: Sequence[Encoding], undo: ExitStack) -> None:
    """Make T5's stacks use posenc's attention, whose memory grows linearly with the length.

    ``layers`` lists the encoding of every layer: the encoder's layers first, then the decoder's.
    """
    if other := [x.name for x in layers if x.acts_on not in (("bias",), ()) or x.needs_content]:
        raise InvalidArgument(f"encoding is {other[0]}, but this model adds a bias to its scores; pass T5 or NoPE")
    attentions: list[Any] = [
        module
        for path, module in tower.items()
        if hasattr(module, "relative_attention_num_buckets") and not path.endswith("EncDecAttention")
    ]
    _attach(model, dict(zip(attentions, layers, strict=True)), undo)
    for module in attentions:
        if module.has_relative_attention_bias:
            undo.enter_context(patch.object(module, "compute_bias", module.posenc_stack.bias))


def _attach(model: Any, encodings: Mapping[nn.Module, Encoding], undo: ExitStack) -> list[_Stack]:
    """Make a model use ``attended``, with an encoding for each of these attention modules. Return the objects that
    ``attended`` reads, one per encoding.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    stacks = {id(encoding): _Stack(encoding) for encoding in encodings.values()}
    for module, encoding in encodings.items():
        if not hasattr(sys.modules[type(module).__module__], "ALL_ATTENTION_FUNCTIONS"):
            raise InvalidArgument(
                f"{type(module).__name__} does not use transformers' attention interface in this version of "
                "transformers; install a newer version"
            )
        undo.enter_context(patch.object(module, "posenc_stack", stacks[id(encoding)], create=True))
    name = f"posenc_{id(undo)}"  # registered only for this block
    for interface, function in ((AttentionInterface, attended), (AttentionMaskInterface, sdpa_mask)):
        interface.register(name, function)
        undo.callback(interface._global_mapping.pop, name)
    for config in {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}.values():
        undo.callback(setattr, config, "_attn_implementation_internal", config._attn_implementation_internal)
    model.set_attn_implementation(name)
    return [*stacks.values()]


def attended(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Compute attention for transformers' interface. Modules without a ``_Stack`` use transformers' SDPA."""
    stack: _Stack | None = module.__dict__.get("posenc_stack")
    if stack is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **others)
    placed, q, k, past = stack.meet(query, key, attention_mask)
    T, S = query.shape[2], key.shape[2]
    facts: dict[str, Any] = (
        {}
        if attention_mask is None
        else {"dense": _visible(attention_mask[..., :S]).expand(-1, -1, T, -1)}  # Switch Transformers has one row
    )
    if past + T != S:  # a fixed-size cache that is only partly filled
        facts |= {
            "q_order": make.arange(T, offset=past, device=query.device),
            "k_order": make.arange(S, device=query.device),
        }
    mask = Mask(causal=module.is_causal, **facts)
    y = posenc.attention(q, k, value, placed, mask, scale=scaling, softcap=softcap, sinks=s_aux, dropout=dropout)
    return y.transpose(1, 2).contiguous(), None
