"""Swaps one loaded model's positions for ours, and undoes it on the way out; nothing process-wide changes.

A rotary family of transformers asks a ``rotary_emb`` module for cos and sin and turns its queries and keys
itself, so that module's ``forward`` is all that is replaced, on this one instance. ALiBi families are handed
another bias through a hook on each attention module, learned tables another lookup.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from posenc import positions as make
from posenc.encodings import Encoding
from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config import read
from posenc.integrations.huggingface.families import FAMILIES, Tables
from posenc.integrations.huggingface.layers import STILL, ModelPositions


@runtime_checkable
class Turning(Protocol):
    """An encoding that turns pairs of channels, and gives one cos and one sin for each."""

    pairing: str
    rotary_dim: int

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]: ...


@contextmanager
def patched(model: nn.Module, encoding: Encoding | Mapping[str, Encoding]) -> Iterator[nn.Module]:
    """Inside the block ``model`` computes its positions with ``encoding``; afterwards with its own again.

    Args:
        model: a loaded transformers model of a family that ``read`` knows; its config says what it had.
        encoding: of the model's kind (``NoPE()`` fits any rotary model); for a model of several kinds ``Layers``,
            as ``read(model.config).as_layers()`` returns, or one per kind by name. Build it with
            ``phases="float32"`` for the model's own angles, bit for bit; the default angles are exact. Windows
            stay the model's.

    The model's attention scale stays as it was loaded: DeepSeek's second number (``YaRN.softmax_factor``) is
    part of that. GPT-J keeps a table of n_positions rows and stops there with ours as with its own.

    Raises:
        InvalidArgument: an encoding of another kind, size or pairing than the model's.
    """
    positions = read(model.config)
    encodings = _per_kind(positions, encoding)
    with ExitStack() as undo:
        if positions.turning:
            _rotary(model, positions, encodings, undo)
        else:
            (one,) = encodings.values()
            (recipe,) = positions.kinds.values()
            (_alibi if recipe.name == "alibi" else _learned)(model, positions, one, undo)
        yield model


def _per_kind(positions: ModelPositions, encoding: Encoding | Mapping[str, Encoding]) -> dict[str, Encoding]:
    """The encoding of every kind that has positions."""
    acting = [name for name, recipe in positions.kinds.items() if recipe != STILL]
    if isinstance(encoding, Mapping):
        if not set(acting) <= set(encoding) <= set(positions.kinds):
            raise InvalidArgument(f"encoding has {sorted(encoding)}; this model has {sorted(acting)}")
        return {name: encoding[name] for name in acting}
    if encoding.layer(0) is encoding:
        if len(acting) > 1:
            raise InvalidArgument(f"this model has {sorted(acting)}; pass a dict with one for each, or Layers")
        return dict.fromkeys(acting, encoding)
    found: dict[str, Encoding] = {}
    for i, kind in enumerate(positions.layers):
        here = encoding.layer(i)
        if kind not in acting and here.doors:
            raise InvalidArgument(f"layer {i} is {here.name}; this model has no positions there: put nope")
        if found.setdefault(kind, here) is not here and kind in acting:
            first = positions.layers.index(kind)
            raise InvalidArgument(f"layers {first} and {i} differ; in this model both are {kind!r}: give them one")
    return {kind: found[kind] for kind in acting}


def _check_rotary(encoding: Encoding, recipe: Recipe) -> None:
    if not encoding.doors:
        return
    if not isinstance(encoding, Turning):
        raise InvalidArgument(f"encoding is {encoding.name}; this model turns q and k: pass Rotary or NoPE")
    pairing, rotary_dim = recipe.get("pairing"), recipe.get("rotary_dim")
    if encoding.pairing != pairing:
        raise InvalidArgument(
            f"encoding has pairing={encoding.pairing!r} and the model turns {pairing!r} pairs; weights of "
            "the other pairing go through convert_pairing first"
        )
    if encoding.rotary_dim != rotary_dim:
        raise InvalidArgument(f"encoding has rotary_dim={encoding.rotary_dim}; the model turns {rotary_dim}")


def _rotary(model: nn.Module, positions: ModelPositions, encodings: dict[str, Encoding], undo: ExitStack) -> None:
    for name, encoding in encodings.items():
        _check_rotary(encoding, positions.kinds[name])
    tables, pairs = FAMILIES[positions.model_type].tables, positions.rotary.get("rotary_dim") // 2
    if positions.model_type == "gptj":
        (encoding,) = encodings.values()
        return _gptj(model, encoding, pairs, positions.max_length, undo)
    modules = [m for m in model.modules() if type(m).__name__.endswith("RotaryEmbedding")]
    if not modules:
        raise InvalidArgument(f"no rotary module found in this {type(model).__name__}; was it patched by others?")
    if len(encodings) > 1 and FAMILIES[positions.model_type].bases:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has a rotary module for each of {sorted(encodings)}, which do "
            "not say whose they are; a model with one base can be patched"
        )

    def forward(x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        encoding = encodings[layer_type] if layer_type in encodings else next(iter(encodings.values()))
        cos, sin = _cos_sin(encoding, position_ids, pairs)
        if tables == "complex":
            return torch.complex(cos, sin)
        return _lay_out(cos, tables).to(x.dtype), _lay_out(sin, tables).to(x.dtype)

    for module in modules:
        _replace_forward(module, forward, undo)
    return None


def _cos_sin(encoding: Encoding, positions: Tensor, pairs: int) -> tuple[Tensor, Tensor]:
    """``(B, T, pairs)`` in float32, the attention factor included; no turn at all under NoPE."""
    positions = positions.to(torch.int64)
    if not isinstance(encoding, Turning):
        shape = (*positions.shape, pairs)
        return torch.ones(shape, device=positions.device), torch.zeros(shape, device=positions.device)
    encoding.to(positions.device)
    encoding.check(positions, "position_ids")
    cos, sin = encoding.tables(positions)
    return (cos.squeeze(1), sin.squeeze(1)) if positions.dim() == 2 else (cos, sin)


def _lay_out(table: Tensor, tables: Tables) -> Tensor:
    """One value per pair, as this family's rotation expects it."""
    if tables == "once":
        return table
    return torch.cat((table, table), -1) if tables == "halves" else table.repeat_interleave(2, -1)


def _replace_forward(module: nn.Module, forward: Callable[..., Any], undo: ExitStack) -> None:
    """Shadow the class's forward on this instance alone."""
    before = module.__dict__.get("forward")
    module.forward = forward

    def restore() -> None:
        if before is None:
            del module.forward
        else:
            module.forward = before

    undo.callback(restore)


def _gptj(model: nn.Module, encoding: Encoding, pairs: int, length: int, undo: ExitStack) -> None:
    """GPT-J has a table in every attention module, sines before cosines."""
    for module in model.modules():
        if type(module).__name__.startswith("GPTJ") and "embed_positions" in module._buffers:
            before = module._buffers["embed_positions"]
            at = make.plain(length, device=before.device if before is not None else None)
            cos, sin = _cos_sin(encoding, at, pairs)
            module._buffers["embed_positions"] = torch.cat((sin, cos), -1)
            undo.callback(module._buffers.__setitem__, "embed_positions", before)


def _alibi(model: nn.Module, positions: ModelPositions, encoding: Encoding, undo: ExitStack) -> None:
    """Hand every attention module our bias in place of its own, as −m·distance."""
    if encoding.doors != ("bias",) or encoding.reads_content:
        raise InvalidArgument(f"encoding is {encoding.name}; this model biases its scores: pass an ALiBi")
    names = {"BloomAttention": "alibi", "MptAttention": "position_bias"}
    modules = [m for m in model.modules() if type(m).__name__ in names]
    if not modules:
        raise InvalidArgument(
            f"the ALiBi of model_type {positions.model_type!r} is folded into its mask and cannot be swapped; "
            "BLOOM and MPT can"
        )

    def replace_bias(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = names[type(module).__name__]
        x: Tensor = args[0] if args else kwargs["hidden_states"]
        cache = kwargs.get("layer_past", kwargs.get("past_key_values"))
        past = 0 if cache is None else int(cache.get_seq_length(module.layer_idx))
        T, S = x.shape[1], past + x.shape[1]
        placed = encoding.at(make.plain(T, offset=past, device=x.device), make.plain(S, device=x.device))
        assert placed.bias is not None
        bias = placed.bias.rows(0, T, S).squeeze(0).to(x.dtype)
        if name == "alibi":  # one per row of the batch, heads within
            bias = bias.repeat(x.shape[0], 1, 1)
        return args, {**kwargs, name: bias}

    for module in modules:
        undo.callback(module.register_forward_pre_hook(replace_bias, with_kwargs=True).remove)


def _learned(model: nn.Module, positions: ModelPositions, encoding: Encoding, undo: ExitStack) -> None:
    """Answer the look-up of a table with what our encoding adds to nothing."""
    if encoding.doors != ("embed",):
        raise InvalidArgument(f"encoding is {encoding.name}; this model adds a table: pass Learned or Sinusoidal")
    found = [m for name, m in model.named_modules() if name.split(".")[-1] in ("wpe", "position_embeddings")]
    if len(found) != 1:
        raise InvalidArgument(f"found {len(found)} position tables in this {type(model).__name__}; expected one")
    weight: Any = found[0].weight

    def forward(position_ids: Tensor) -> Tensor:
        at = position_ids.to(torch.int64)
        return encoding.at(at).embed(torch.zeros(*at.shape, weight.shape[1], dtype=weight.dtype, device=at.device))

    _replace_forward(found[0], forward, undo)
