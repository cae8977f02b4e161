"""Scores text with a local Hugging Face model (a folder with safetensors, or a GGUF file) and any scaling.

Long texts are read in pieces with a cache, so that neither masks nor activations grow with the square of the
length. The logits of a piece are freed before the next piece is read.
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from posenc.encodings.encoding import Encoding
from posenc.errors import InvalidArgument, StudyError
from posenc.integrations.huggingface.config import read
from posenc.integrations.huggingface.folder import identity, open_model, save
from posenc.integrations.huggingface.language_model import cached, text_config
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.patch import patched
from posenc.integrations.huggingface.write import changes
from posenc.kernels.memory import free_memory
from posenc.scaling import LengthScaling, Scaling

PIECE = 512
"""The number of tokens per piece."""


def _stated(positions: ModelPositions, path: Path) -> ModelPositions:
    """Return the position settings of a model from a GGUF file, with the scaling and the lengths in the file."""
    from posenc.integrations.programs import llama_cpp

    try:
        stated = llama_cpp.positions_of(llama_cpp.fields(path))
    except InvalidArgument:  # windows or sections, which only the config states in full
        return positions
    return replace(
        positions.with_scaling(stated.rotary.get("scaling")),
        original_length=stated.original_length,
        max_length=stated.max_length,
    )


class Pretrained:
    """A causal language model with its tokenizer.

    Args:
        model: the model, on its device and in its dtype.
        tokenizer: the tokenizer.
        positions: the position settings of the model.
        name: the model's name in messages.
        identity: a hash of the config and the weights; empty for a model that no other model is compared with.

    Attributes:
        original_length: the length that the model was released for, with the scaling in its config.
        pretrained_length: the trained length before any scaling.
    """

    unit = "token"
    learning_rate = 2e-5
    """The learning rate for fine-tuning. It is small, so that the model forgets little."""

    def __init__(
        self, model: nn.Module, tokenizer: Any, positions: ModelPositions, name: str, identity: str = ""
    ) -> None:
        self.model: Any = model
        self.tokenizer, self.positions, self.name, self.identity = tokenizer, positions, name, identity
        self.original_length, self.pretrained_length = positions.tuned_length, positions.original_length

    @classmethod
    def from_path(cls, path: Path, *, device: str = "cpu", dtype: torch.dtype = torch.float32) -> "Pretrained":
        """Load a model and its tokenizer from ``path``.

        Args:
            path: a folder with config.json and safetensors, or a .gguf file.
            device, dtype: the device on which the model runs, and the dtype of its weights.

        Raises:
            StudyError: weights are missing, truncated or incomplete, or there is no tokenizer.
            InvalidArgument: the model does not use RoPE, or ``read`` or transformers refuses its config.
        """
        packed = path.suffix == ".gguf"
        if not packed:
            _ = read(path).stretched  # fails before anything large is loaded
        model, tokenizer = open_model(path, dtype)
        positions = read(model.config)
        return cls(
            model.eval().to(device),
            tokenizer,
            _stated(positions, path) if packed else positions,  # transformers drops the scaling of a GGUF file
            path.stem if packed else path.resolve().name,
            identity(path),
        )

    @property
    def scaling(self) -> Any:
        """The scaling in the config."""
        return self.positions.rotary.get("scaling")

    def encode(self, data: bytes) -> Int[Tensor, " n"]:
        """Return the tokens of a text, without special tokens."""
        read = self.tokenizer(data.decode("utf-8", "replace"), add_special_tokens=False, verbose=False)
        return torch.tensor(read["input_ids"], dtype=torch.int64)

    def spans(self, text: str) -> tuple[Int[Tensor, " n"], Int[Tensor, "n 2"]]:
        """Return the tokens of ``encode``, and the start and end of every token as character indices.

        Raises:
            InvalidArgument: the tokenizer returns no offsets.
        """
        if not self.tokenizer.is_fast:
            raise InvalidArgument(f"the tokenizer of {self.name} returns no offsets; add its tokenizer.json")
        read = self.tokenizer(text, add_special_tokens=False, verbose=False, return_offsets_mapping=True)
        ids, offsets = (torch.tensor(read[key], dtype=torch.int64) for key in ("input_ids", "offset_mapping"))
        return ids, offsets.view(-1, 2)

    @cached_property
    def beginning(self) -> Int[Tensor, " n"]:
        """The token that the tokenizer puts before every text; empty if the tokenizer puts no token there."""
        first = self.tokenizer("a", verbose=False)["input_ids"][:1]
        return torch.tensor([i for i in first if i == self.tokenizer.bos_token_id], dtype=torch.int64)

    def losses(
        self,
        tokens: Int[Tensor, " T+1"],
        encoding: Encoding | None,
        tick: Callable[[float], None] = lambda share: None,
    ) -> Float[Tensor, " T"]:
        """Return the loss of every token in ``tokens[1:]`` in nats; a token is predicted from all earlier tokens.
        If ``encoding`` is None, the model keeps its own encoding.

        The tokens are processed in pieces if the model's cache allows it. After each piece, ``tick`` is called with
        the piece's share of the tokens.
        """
        length, placed = len(tokens) - 1, nullcontext() if encoding is None else self.placed(encoding)
        step, targets = PIECE if self._parts else length, tokens[1:].to(self.model.device)
        caches, losses = dict[str, Any](), list[Tensor]()
        with torch.inference_mode(), placed:
            for piece, target in zip(tokens[:-1].split(step), targets.split(step), strict=True):
                output = self.model(
                    piece[None].to(self.model.device), use_cache=True, **caches
                )  # includes the model's scale of logits
                caches = cached(output)
                losses.append(F.cross_entropy(output.logits[0].float(), target, reduction="none").cpu())
                tick(len(piece) / length)
        return torch.cat(losses)

    @cached_property
    def _parts(self) -> bool:
        """Whether a text can be read in pieces, which requires that keys and values are the only state of every
        layer."""
        from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

        with torch.inference_mode():
            caches = cached(
                self.model(torch.zeros(1, 1, dtype=torch.int64, device=self.model.device), use_cache=True)
            )
        layers = [layer for cache in caches.values() for layer in getattr(cache, "layers", [None])]
        return bool(layers) and all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers)

    def with_scaling(self, scaling: Scaling | LengthScaling | None, total_length: int) -> Encoding:
        """Return the model's encoding for a request of this length, with this scaling in the layer types named by
        ``ModelPositions.stretched``.

        Angles are float32, as in transformers and in inference servers such as vLLM.
        """
        return self.positions.with_scaling(scaling).as_layers(total_length, "float32")

    def placed(self, encoding: Encoding) -> AbstractContextManager[nn.Module]:
        """Return a context manager inside which the model uses ``encoding``."""
        return patched(self.model, encoding)

    def logits(
        self, rows: Int[Tensor, "B T"], positions: Int[Tensor, " T"] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of one forward pass with gradients enabled, at consecutive positions or at the given
        positions."""
        rows = rows.to(self.model.device)
        # without a mask, transformers takes a gap in positions for the start of a text
        given = (
            {}
            if positions is None
            else {"position_ids": positions.to(rows.device)[None], "attention_mask": torch.ones_like(rows)}
        )
        return self.model(rows, use_cache=False, **given).logits.float()

    def copied(self, identity: str) -> "Pretrained":
        """Return a copy of the model that has its own weights."""
        other = copy.copy(self)
        other.model, other.identity = copy.deepcopy(self.model), identity
        return other

    def patch(self, scaling: Scaling | LengthScaling, length: int) -> dict[str, Any]:
        """Return the changes to the config for a scaling that reaches this length, with None for a key to remove.

        If all layers share one scaling, the keys are ``rope_scaling`` and ``rope_theta``: the older spelling,
        which older servers need and transformers 5 still reads.
        """
        return changes(self.positions, scaling, max_length=length, spelling="v4" if self.positions.alike else "v5")

    def save(
        self, folder: Path, weights: Mapping[str, Tensor], scaling: Scaling | LengthScaling, length: int
    ) -> None:
        """Write these weights, with a scaling that reaches this length, into a folder that transformers can load.

        Raises:
            StudyError: the folder cannot be written.
        """
        model = copy.deepcopy(self.model)
        model.load_state_dict(weights)
        save(model, self.tokenizer, folder, self.patch(scaling, length))

    @property
    def weights(self) -> int:
        """The size of the model's weights in bytes."""
        return sum(p.numel() * p.element_size() for p in self.model.parameters())

    def memory(self, length: int) -> int:
        """Return an upper bound on the memory in bytes, without the weights, for reading a text of this length.

        For each token of a piece, one layer holds about ten vectors of the model's width and three of its
        feed-forward width, and logits are held twice. For each position, all layers keep keys and values. One
        layer also holds a copy of them while its cache grows, and a copy that repeats them for every query head.
        Each token of a piece also has two masks, boolean and additive.
        """
        config = text_config(self.model.config)
        size = next(self.model.parameters()).element_size()
        heads, layers = config.num_attention_heads, config.num_hidden_layers
        pair = 2 * self.positions.rotary.get("head_dim") * size
        cached_bytes = (getattr(config, "num_key_value_heads", None) or heads) * pair
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        token = (10 * config.hidden_size + 3 * inner) * size + 2 * 4 * config.vocab_size
        position = cached_bytes * (layers + 1) + heads * pair + 2 * PIECE * (1 + size)
        return length * position + (PIECE if self._parts else length + 1) * token

    def check_memory(self, length: int) -> None:
        """If this length does not fit into free memory, raise an error that names a length that fits."""
        needed, fixed, free = self.memory(length), self.memory(0), free_memory(self.model.device)
        if needed > free:
            fits = max(0, free - fixed) * length // (needed - fixed)
            raise StudyError(
                f"length={length} needs about {needed / 2**30:.1f} GiB in addition to the weights, but only "
                f"{free / 2**30:.1f} GiB are free; use a length of at most {fits // 1024 * 1024}"
            )
