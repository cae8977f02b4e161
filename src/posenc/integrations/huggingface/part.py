"""The part of a long text that a model has read, in a file: a killed process goes on inside the text."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

EVERY = 60.0
"""Seconds between two states of a part, at least; a text that takes less leaves none."""
COST = 20
"""A state is due again after this many times the seconds that the last one took to write."""


@dataclass
class Part:
    """What was made of the pieces that are read, and the keys and values that the model keeps of them.

    Args:
        path: its file; None keeps nothing.
        tokens: read so far.
        values: what was made of the logits, by piece.
        layers: the tensors and numbers of each layer of the cache, by name.
    """

    path: Path | None
    tokens: int = 0
    values: list[Tensor] = field(default_factory=list)
    layers: list[dict[str, Any]] = field(default_factory=list)
    due: float = field(default_factory=lambda: time.monotonic() + EVERY)

    @classmethod
    def load(cls, path: Path | None, device: torch.device) -> "Part":
        """The part in this file; an empty one where there is none, or none that can be read."""
        if path is None or not path.exists():
            return cls(path)
        try:
            return cls(path, **torch.load(path, map_location=device, weights_only=True))
        except Exception:  # cut short, say: torch has many ways to say so
            return cls(path)

    def into(self, fresh: Callable[[], Any]) -> Any:
        """The cache as it was, in place of what a ``fresh`` one holds; None before the first piece."""
        if not self.layers:
            return None
        cache = fresh()
        for layer, values in zip(cache.layers, self.layers, strict=True):
            vars(layer).update(values)
        return cache

    def add(self, tokens: int, values: Tensor, cache: Any) -> None:
        """One more piece; now and then the part is written, with the cache."""
        self.tokens, self.values = self.tokens + tokens, [*self.values, values]
        if time.monotonic() < self.due:
            return
        began = time.monotonic()
        self.layers = [
            {name: value for name, value in vars(layer).items() if isinstance(value, Tensor | int)}
            for layer in cache.layers
        ]
        self.write()
        ended = time.monotonic()
        self.due = ended + max(EVERY, COST * (ended - began))

    def end(self) -> Tensor:
        """The values of the whole text, which are all that its file keeps from here on."""
        self.layers = []
        self.write()
        return torch.cat(self.values)

    def write(self) -> None:
        """Write the part, or leave it out where the disk has no room: the text is read on without."""
        if self.path is None:
            return
        partial = self.path.with_suffix(".partial")
        state = {"tokens": self.tokens, "values": self.values, "layers": self.layers}
        with suppress(OSError, RuntimeError):  # torch raises either
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(state, partial)
            partial.replace(self.path)
        partial.unlink(missing_ok=True)
