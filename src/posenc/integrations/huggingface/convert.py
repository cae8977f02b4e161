"""Converts trained weights from one rotary pairing to the other.

A pairing determines which two channels rotate together, so a model is converted to the other pairing by reordering
channels. If the rows of the query and key projections are reordered head by head, together with their biases and
norms, the model uses the other pairing and computes the same function: q and k are permuted in the same way, so
q·k is unchanged. The channels of v stay in place, and so do the channels of q and k that do not rotate.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import torch
from torch import Tensor

from posenc.arguments import as_integer, at_least, instance, one_of
from posenc.encodings.rotary import Pairing, half_from_interleaved, interleaved_from_half
from posenc.errors import InvalidArgument

ROWS = r"(\.base_layer|\.lora_B(\.\w+)?)?\.(weight|bias|weight_scale)$"
"""A pattern for the ends of the names of tensors in which each row is one channel, including adapter weights and
per-channel quantisation scales.
"""
SEPARATE = re.compile(
    r"(^|\.)((?=[qk]_)|w(?=[qk]\.)|attn_(?=[qk](_norm)?\.))(?P<which>[qk])(_(?P<what>proj|norm|layernorm))?"
    rf"(\.norms\.\d+)?{ROWS}"
)
"""A pattern for the names of query or key projections and their norms in files of Hugging Face, Meta (``wq``) and
GGUF (``attn_q``)."""
JOINED = re.compile(rf"(^|\.)(qkv_proj|qkv|attn_qkv){ROWS}")
PER_HEAD = re.compile(rf"(^|\.)query_key_value{ROWS}")
KNOWN = (
    "q_proj and k_proj (Hugging Face), wq and wk (Meta), attn_q and attn_k (GGUF), their norms, qkv_proj, qkv or "
    "attn_qkv laid out q, k, v, and query_key_value (GPT-NeoX)"
)
FROM_INPUT = re.compile(r"\.lora_A(\.\w+)?\.weight$")
"""A pattern for the input matrix of an adapter, whose rows are not channels."""
PARTS = re.compile(
    r"(^|[._])(q|k|qk|qkv|[wW](q|k|qkv)|c_attn|query|key|query_key_value)([._]|$|norm|layernorm|proj)"
)
"""A pattern for all tensors of query and key projections and of their norms."""
TOWER = re.compile(r"(^|[._])(vision|visual|audio|image|speech)\w*\.")
"""A pattern for vision and audio towers, whose heads rotate differently."""
LATENT = re.compile(r"(^|\.)(q|kv)_[ab]_(proj|layernorm|proj_with_mqa)\.")


def convert_pairing(
    state_dict: Mapping[str, Tensor],
    *,
    from_: Pairing,
    to: Pairing,
    heads: int,
    head_dim: int,
    kv_heads: int | None = None,
    rotary_dim: int | None = None,
) -> dict[str, Tensor]:
    """Return a new state dict with its rotary channels in the order of ``to``.

    Args:
        state_dict: weights under the names of Hugging Face (``q_proj``, ``k_proj``, ``q_norm``, ``k_norm``,
            ``q_layernorm``, ``k_layernorm``), of Meta (``wq``, ``wk``) or of GGUF (``attn_q``, ``attn_k``,
            ``attn_q_norm``, ``attn_k_norm``). A norm can have the weights of one head or of all heads, or the shape
            (heads, head_dim). A fused ``qkv_proj``, ``qkv`` or ``attn_qkv`` must contain q, k and v in this order.
            GPT-NeoX's ``query_key_value`` must contain q, k and v of each head in turn. Quantisation scales
            (``weight_scale``, per channel or per tensor) and adapters (``lora_A``, ``lora_B``) may be included.
        from_: the pairing of the given weights. Llama has ``"interleaved"`` in Meta's ``.pth`` and in GGUF files,
            and ``"half"`` in Hugging Face's folders; the weights do not show their pairing.
        to: the target pairing. If ``to`` equals ``from_``, nothing changes.
        heads, kv_heads: the numbers of query heads and key heads. By default, both numbers are equal.
        head_dim, rotary_dim: the number of channels per head, and the number of channels that rotate. By default,
            all channels rotate.

    Raises:
        InvalidArgument: there is no query or key weight, a weight's rows do not match the head counts, or a query
            or key tensor is not supported, such as packed GPTQ weights or block scales.
    """
    for pairing in (from_, to):
        one_of("pairing", pairing, get_args(Pairing))
    instance(state_dict, Mapping, "state_dict", "a dictionary of tensors; pass model.state_dict()")
    heads, kv_heads, head_dim = (
        at_least(1)(count, name)
        for name, count in (
            ("heads", heads),
            ("kv_heads", heads if kv_heads is None else kv_heads),
            ("head_dim", head_dim),
        )
    )
    rotary_dim = head_dim if rotary_dim is None else as_integer(rotary_dim, "rotary_dim")
    if rotary_dim % 2 or not 0 < rotary_dim <= head_dim:
        raise InvalidArgument(f"rotary_dim={rotary_dim} must be even, at least 2, and at most head_dim={head_dim}")
    reorder: Callable[[int], Sequence[int]] = (
        range if from_ == to else half_from_interleaved if to == "half" else interleaved_from_half
    )
    channels = [torch.tensor([*order, *range(len(order), head_dim)]) for order in ([], reorder(rotary_dim))]
    converted = dict(state_dict)
    for name, tensor in state_dict.items():
        if turns := _turns(name, tuple(tensor.shape), heads, kv_heads, head_dim):
            rows = torch.cat([channels[turn] + i * head_dim for i, turn in enumerate(turns)]).to(tensor.device)
            converted[name] = tensor.reshape(len(rows), -1)[rows].reshape(tensor.shape)
    if all(converted[name] is tensor for name, tensor in state_dict.items()):
        raise InvalidArgument(
            f"state_dict has no query or key weights under known names; rename the weights; known names: {KNOWN}"
        )
    return converted


def _turns(name: str, shape: tuple[int, ...], heads: int, kv_heads: int, head_dim: int) -> list[bool]:
    """Return, for each head in the rows of a tensor, whether it rotates.

    The list is empty for a tensor that contains neither q nor k. A norm of shape (heads, head_dim), as in Cohere,
    counts as a tensor with heads · head_dim rows.

    Raises:
        InvalidArgument: the tensor is a query or key tensor that is not supported.
    """
    if (
        not (PARTS.search(name) or LATENT.search(name))
        or FROM_INPUT.search(name)
        or (name.endswith("weight_scale") and math.prod(shape) == 1)
    ):
        return []
    if PARTS.search(name) and TOWER.search(name):
        raise InvalidArgument(
            f"{name} belongs to a vision or audio tower, whose heads rotate differently; pass weights of the "
            "language model alone"
        )
    if LATENT.search(name):
        raise InvalidArgument(f"{name} is a latent projection (DeepSeek), which convert_pairing does not support")
    rows = shape[0] if shape else 0
    if match := SEPARATE.search(name):
        turns = [True] * (heads if match["which"] == "q" else kv_heads)
        if match["what"] in ("norm", "layernorm"):
            rows = math.prod(shape)
            turns = [True] if rows == head_dim else turns
    elif JOINED.search(name):
        turns = [True] * (heads + kv_heads) + [False] * kv_heads
    elif PER_HEAD.search(name):
        if kv_heads != heads:
            raise InvalidArgument(
                f"{name} with kv_heads={kv_heads} is not supported; kv_heads must equal heads={heads}"
            )
        turns = [True, True, False] * heads
    else:
        raise InvalidArgument(
            f"{name} may belong to a query or key projection, but convert_pairing does not know this name; "
            f"dequantise it, merge adapters, or rename it; known names: {KNOWN}"
        )
    if rows != len(turns) * head_dim:
        raise InvalidArgument(
            f"{name} has {rows} rows, but heads={heads}, kv_heads={kv_heads} and "
            f"head_dim={head_dim} need {len(turns) * head_dim}"
        )
    return turns
