"""What was made of a text once, tokenizers and tokens, as files that can be deleted at any time."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.workbench.files import cache, write_atomically


def home() -> Path:
    """Where they are kept."""
    return cache("tokens")


def kept(name: str, make: Callable[[], bytes]) -> bytes:
    """The file of this name, made first where there is none; where the cache cannot be written, just made."""
    path = home() / name
    if path.exists():
        return path.read_bytes()
    made = make()
    with suppress(OSError), write_atomically(path) as partial:
        partial.write_bytes(made)
    return made


def mapped(name: str, make: Callable[[], Int[Tensor, " n"]]) -> Int[Tensor, " n"]:
    """The int32 tokens of this name, mapped into memory from their file where it could be written."""
    path = home() / name
    if not path.exists():
        made = make().to(torch.int32)
        kept(name, lambda: made.numpy().tobytes())
        if not path.exists():
            return made
    return torch.from_file(str(path), shared=False, size=path.stat().st_size // 4, dtype=torch.int32)
