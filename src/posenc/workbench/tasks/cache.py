"""Tokenizers and tokens of texts, cached as files that can be deleted at any time."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.workbench.files import cache, write_atomically


def home() -> Path:
    """The folder of the cache."""
    return cache("tokens")


def cached(name: str, make: Callable[[], bytes]) -> bytes:
    """The file of this name, made first where there is none; only made where the cache cannot be written."""
    path = home() / name
    if path.exists():
        return path.read_bytes()
    data = make()
    with suppress(OSError), write_atomically(path) as partial:
        partial.write_bytes(data)
    return data


def mapped(name: str, make: Callable[[], Int[Tensor, " n"]]) -> Int[Tensor, " n"]:
    """The int32 tokens of this name, mapped into memory from their file where it could be written."""
    path = home() / name
    if not path.exists():
        tokens = make().to(torch.int32)
        cached(name, lambda: tokens.numpy().tobytes())
        if not path.exists():
            return tokens
    return torch.from_file(str(path), shared=False, size=path.stat().st_size // 4, dtype=torch.int32)
