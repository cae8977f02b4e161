"""Replaces the positional encoding of a loaded model inside a block, and restores it afterwards.

Rotary models in transformers get cos and sin from a ``rotary_emb`` module and rotate queries and keys themselves,
so only the ``forward`` of that module is replaced. T5 and remapped encodings use posenc's attention through the
attention interface of transformers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from posenc.arguments import instance
from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.compose import Stack
from posenc.encodings.encoding import Encoding
from posenc.encodings.nope import NoPE
from posenc.encodings.rerotate import AN_ENCODING
from posenc.encodings.rotation import Rotation
from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config import read
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.language_model import language
from posenc.integrations.huggingface.model_positions import NOPE, ModelPositions
from posenc.integrations.huggingface.patch_attention import relative, remapped
from posenc.positions import on_axes


@contextmanager
def patched(model: nn.Module, encoding: Encoding | Mapping[str, Encoding]) -> Iterator[nn.Module]:
    """Make ``model`` use ``encoding`` inside the block, and restore the model's own encoding afterwards.

    Args:
        model: a loaded transformers model of a family that ``read`` supports; either a T5, or a model that rotates
            by text positions.
        encoding: a rotation with the model's size and pairing, ``NoPE()``, or T5's bias. For several layer types,
            pass ``Layers``, as returned by ``read(model.config).as_layers()``, or a dict by layer type. Build the
            encoding with ``phases="float32"`` to get the model's own angles bit for bit (in Llama 4, up to
            rounding); the default angles are exact. The model keeps its windows. A remapped encoding
            (``posenc.remap``) also replaces attention, in families that use transformers' attention interface.
            Caches then keep unrotated keys, whose positions must be consecutive if there are more keys than
            queries.

    The model keeps its attention scale, including DeepSeek's mscale_all_dim (``Rotary.softmax_factor``). Vision and
    audio towers keep their own encodings. T5 accepts key masks, and masks of shape ``(B, 1, T, S)`` with a row per
    query, boolean or additive.

    The block changes neither ``state_dict`` nor anything outside the model, except for an attention function that
    is registered with transformers for T5 and for remapped encodings. Inside the block, the model may be compiled
    and exported. With gradient checkpointing, also call ``backward`` inside the block, because ``backward`` then
    recomputes activations.

    Raises:
        InvalidArgument: the encoding does not have the model's kind, size or pairing, or the model has tables,
            biases or image positions that cannot be replaced.
    """
    instance(model, nn.Module, "model", "a loaded model of transformers, such as one from from_pretrained(…)")
    for new in encoding.values() if isinstance(encoding, Mapping) else (encoding,):
        instance(new, Encoding, "encoding", AN_ENCODING)
    positions = read(getattr(model, "config", None))
    names = {recipe.name for recipe in positions.recipes.values()}
    if names != {"t5"} and (positions.layout or not positions.rotary_recipes):
        what = "rows and columns" if positions.layout else " and ".join(sorted(names))
        raise InvalidArgument(
            f"model_type {positions.model_type!r} encodes positions by {what}, which cannot be replaced, unlike "
            "T5's bias or a rotation by text positions; change the model's own table or hook its attention"
        )
    encodings = _per_kind(positions, encoding)
    with ExitStack() as undo:
        if names == {"t5"}:
            relative(model, language(model), [encodings[kind] for kind in positions.layer_types], undo)
        else:
            _rotary(model, positions, encodings, undo)
        yield model


def _per_kind(positions: ModelPositions, encoding: Encoding | Mapping[str, Encoding]) -> dict[str, Encoding]:
    """Return the new encoding of each layer type that encodes positions in the model."""
    acting = [name for name, recipe in positions.recipes.items() if recipe != NOPE]
    if isinstance(encoding, Mapping):
        if not set(acting) <= set(encoding) <= set(positions.recipes):
            raise InvalidArgument(
                f"encoding has layer types {sorted(encoding)}, but this model has {sorted(acting)}"
            )
        return {name: _unscaled(positions, name, encoding[name]) for name in acting}
    if encoding.layer(0) is encoding:
        if len(acting) > 1:
            raise InvalidArgument(
                f"this model has layer types {sorted(acting)}; pass a dict with one encoding per type, or Layers"
            )
        return {name: _unscaled(positions, name, encoding) for name in acting}
    by_type: dict[str, Encoding] = {}
    for i, kind in enumerate(positions.layer_types):
        here = _unscaled(positions, kind, encoding.layer(i))
        if kind not in acting and here.acts_on:
            raise InvalidArgument(
                f"encoding gives layer {i} {here.name!r}, but layer {i} of the model has no positional encoding; "
                "pass 'nope' for this layer"
            )
        if by_type.setdefault(kind, here) is not here and kind in acting:
            raise InvalidArgument(
                f"layers {positions.layer_types.index(kind)} and {i} have different encodings, but both have the "
                f"type {kind!r} in this model; pass one encoding per type"
            )
    return {kind: by_type[kind] for kind in acting}


def _unscaled(positions: ModelPositions, name: str, encoding: Encoding) -> Encoding:
    """Return the encoding without the query scale of its layer type, which the model's own code applies."""
    if isinstance(encoding, Stack) and (scale := positions.scales.get(name)):
        rotation, *others = encoding.encodings
        if [other.settings for other in others] == [build(scale, ModelShape()).settings]:
            return rotation
    return encoding


def _check_rotary(encoding: Encoding, recipe: Recipe) -> None:
    if not encoding.acts_on:
        return
    rotary_dim = getattr(encoding, "rotary_dim", None)
    if rotary_dim is None or not (isinstance(encoding, Rotation) or encoding.remapped):
        raise InvalidArgument(f"encoding is {encoding.name}, but this model rotates q and k; pass Rotary or NoPE")
    if encoding.pairing != recipe.get("pairing"):
        raise InvalidArgument(
            f"encoding has pairing={encoding.pairing!r} but the model rotates {recipe.get('pairing')!r} pairs; "
            "convert the weights with convert_pairing first"
        )
    if rotary_dim != recipe.get("rotary_dim"):
        raise InvalidArgument(
            f"encoding has rotary_dim={rotary_dim}, but this model has {recipe.get('rotary_dim')}"
        )


def _rotary(model: nn.Module, positions: ModelPositions, encodings: dict[str, Encoding], undo: ExitStack) -> None:
    for name, encoding in encodings.items():
        _check_rotary(encoding, positions.recipes[name])
    tower = language(model)
    modules = [
        m for m in tower.values() if type(m).__name__.endswith(("RotaryEmbedding", "RotaryPositionalEmbedding"))
    ]
    if not modules:
        raise InvalidArgument(
            f"no rotary module of this {type(model).__name__} receives position ids, so its rotation cannot be "
            "replaced: the model looks its angles up in tables, or other code has patched it"
        )
    hears: list[Any] = []
    if any(encoding.remapped for encoding in encodings.values()):  # attention rotates; cached keys stay unrotated
        if positions.query_dim:
            raise InvalidArgument(
                f"encoding is {next(x.name for x in encodings.values() if x.remapped)}, but model_type "
                f"{positions.model_type!r} has latent attention, in which only some channels of a query rotate, "
                "so its positions cannot be remapped; pass Rotary or NoPE"
            )
        hears = remapped(model, tower, positions, encodings, undo)
        encodings = dict.fromkeys(encodings, NoPE())
    elif any(hasattr(module, "posenc_stack") for module in tower.values()):  # of a block around this one
        hears = remapped(model, tower, positions, dict.fromkeys(encodings, NoPE()), undo)
    for module in modules:
        undo.enter_context(patch.object(module, "forward", _answering(module, positions, encodings, hears)))


def _answering(
    module: Any, positions: ModelPositions, encodings: dict[str, Encoding], hears: Sequence[Any]
) -> Callable[..., Any]:
    """Return a ``forward`` that returns cos and sin of the encodings in the layout of the rotary module. With
    remapped positions, it also passes the position ids of each forward pass to every object in ``hears``. If no
    layer type uses the module, return the module's own ``forward``.
    """
    by_base = FAMILIES[positions.model_type].rotates == "bases"  # one module per base, each with its own config
    by_scaling = "unscaled" in positions.recipes  # one module per scaling
    ours = {
        name: encoding
        for name, encoding in encodings.items()
        if not by_base or positions.recipes[name].get("base") == module.config.rope_parameters["rope_theta"]
        if not by_scaling or (name == "unscaled") == (getattr(module, "rope_type", None) == "default")
    }
    if not ours:
        return module.forward
    pairs = {name: positions.recipes[name].get("rotary_dim") // 2 for name in ours}
    lay_out = {name: _layout(module, name, pairs[name]) for name in ours}
    sign = -1 if FAMILIES[positions.model_type].backwards else 1  # the model's code rotates in the other direction

    def forward(x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        for stack in hears:
            stack.stand(position_ids)
        name = layer_type if layer_type in ours else next(iter(ours))
        cos, sin = _cos_sin(ours[name], position_ids, pairs[name])
        return lay_out[name](cos, sign * sin, x.dtype)

    return forward


def _layout(module: nn.Module, name: str, pairs: int) -> Callable[[Tensor, Tensor, torch.dtype], Any]:
    """Return a function that lays out cos and sin of a layer type as the model's own rotary module does.

    The layout is derived from the cos and sin of the module's class at positions 0 and 1. The module itself is not
    called, because it may already be patched.
    """
    device, types = next(module.buffers(), torch.empty(0)).device, getattr(module, "layer_types", None)
    kind = {} if types is None else {"layer_type": name if name in types else next(iter(types))}
    cos_sin = type(module).forward(
        module, torch.zeros(1, 1, 1, device=device), position_ids=torch.arange(2, device=device)[None], **kind
    )
    if isinstance(cos_sin, Tensor):
        return lambda cos, sin, dtype: torch.complex(cos, sin)
    swapped = not cos_sin[0].flatten(0, -2)[0].any()  # GPT-J and CodeGen from transformers 5.24: sin, then cos
    sines = cos_sin[not swapped].flatten(0, -2)[1]
    halves = torch.equal(*sines.tensor_split(2))

    def wide(x: Tensor) -> Tensor:
        if len(sines) == pairs:
            return x
        return torch.cat((x, x), -1) if halves else x.repeat_interleave(2, -1)

    return lambda cos, sin, dtype: tuple(wide(x).to(dtype) for x in ((sin, cos) if swapped else (cos, sin)))


def _cos_sin(encoding: Encoding, ids: Tensor, pairs: int) -> tuple[Tensor, Tensor]:
    """Return cos and sin ``(B, T, pairs)`` in float32, times the attention factor, for position ids ``(B, T)`` or
    ``(A, B, T)``.
    """
    positions = on_axes(ids, encoding.axes) if ids.dim() == 2 else ids
    if not isinstance(encoding, Rotation):
        shape = (*positions.shape[-2:], pairs)
        return torch.ones(shape, device=positions.device), torch.zeros(shape, device=positions.device)
    encoding.to(positions.device)
    encoding.check(positions, "position_ids")
    cos, sin = encoding.tables(positions.long())
    return (cos.squeeze(1), sin.squeeze(1)) if positions.dim() > 1 else (cos, sin)
