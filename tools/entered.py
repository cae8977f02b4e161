"""Counts the files of the library that a call enters, for a reader who follows it: python tools/entered.py

Files count in whichever thread they are entered, templates of pages too. What runs while a module is imported, such
as its decorators and defaults, runs once and is left out.
"""

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from unittest.mock import patch

import torch

import posenc
from posenc.cli import main

SOURCE = Path(posenc.__file__).parent
COMPARE = "compare --encodings alibi --tasks ordering --steps 2 --launcher in-process --output"


def entered(call: Callable[[], object]) -> list[str]:
    """The files of posenc whose functions run in this call."""
    files = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(SOURCE)) and file not in files and not _importing(frame):
            files.add(file)

    sys.setprofile(profile)
    threading.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return sorted(str(Path(file).relative_to(SOURCE)) for file in files)


def _importing(frame: FrameType | None) -> bool:
    """Whether this call belongs to the body of one of posenc's modules."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(str(SOURCE)):
            return True
        frame = frame.f_back
    return False


def attending(encoding: posenc.Encoding) -> list[str]:
    """The files that the second call of attention enters, of 300 tokens, in training."""
    placed = encoding.at(posenc.positions.arange(300))
    q, k, v = torch.randn(3, 1, 8, 300, 64, requires_grad=True)
    posenc.attention(q, k, v, placed, causal=True)
    return entered(lambda: posenc.attention(q, k, v, placed, causal=True))


def comparing() -> list[str]:
    """The files that the smallest ``posenc compare`` enters."""
    with tempfile.TemporaryDirectory() as folder, patch.object(sys, "argv", ["posenc", *COMPARE.split(), folder]):
        return entered(lambda: _ending(main))


def _ending(command: Callable[[], object]) -> None:
    try:
        command()
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    for name, encoding in (("Rotary", posenc.Rotary(64, pairing="half")), ("ALiBi", posenc.ALiBi(8))):
        files = attending(encoding)
        print(f"attention with {name} enters {len(files)} files: {', '.join(files)}")
    files = comparing()
    print(f"compare enters {len(files)} files: {', '.join(files)}")
