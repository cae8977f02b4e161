"""The native kernel on ARM: compiled by a cross compiler, run by an emulator, bit for bit the specification."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from posenc import Rotary, positions
from posenc.kernels.native import Job
from posenc.kernels.rotary import rotate
from posenc.kernels.rotary.by_native import TYPES
from tools import build_kernel

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
DRIVER = Path(__file__).with_name("native_driver.c")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which(COMPILER) and shutil.which(EMULATOR)),
        reason=f"{COMPILER} or {EMULATOR} is not installed: apt install gcc-aarch64-linux-gnu qemu-user",
    ),
]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the kernel on ARM, which is the library as it is installed there."""
    folder = tmp_path_factory.mktemp("arm")
    library, program = folder / "native.so", folder / "driver"
    command = [sys.executable, build_kernel.__file__, str(library)]
    subprocess.run(command, env={**os.environ, "CC": COMPILER}, check=True)
    includes = f"-I{build_kernel.SOURCES}"
    subprocess.run([COMPILER, "-O1", includes, DRIVER, library, "-pthread", "-o", program], check=True)
    return [EMULATOR, "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_LIBRARY_PATH={folder}", str(program)]


def raw(x: Tensor) -> bytes:
    return x.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def record(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, threads: int) -> bytes:
    """One call for the driver; all tensors contiguous."""
    batch, heads, tokens, channels = x.shape
    pairs = cos.shape[-1]
    job = Job(batch, heads, tokens, pairs, channels - 2 * pairs)
    job.x, job.y, job.table = x.stride()[:3], x.stride()[:3], (0, 0, pairs)
    job.type, job.half, job.threads = TYPES[x.dtype], pairing == "half", threads
    parts = [raw(tensor) for tensor in (x, torch.zeros_like(x), cos, sin)]
    return bytes(job) + raw(torch.tensor([len(part) for part in parts])) + b"".join(parts)


def run(driver: list[str], records: list[bytes], kinds: list[Tensor]) -> list[Tensor]:
    """What the driver makes of each record, in the type and shape of these tensors."""
    output = subprocess.run(driver, input=b"".join(records), stdout=subprocess.PIPE, check=True).stdout
    results = []
    for kind in kinds:
        part, output = output[: kind.nbytes], output[kind.nbytes :]
        results.append(torch.frombuffer(bytearray(part), dtype=kind.dtype).view(kind.shape))
    assert not output
    return results


def test_all_types_pairings_and_tails(driver: list[str]) -> None:
    records, wants = [], []
    for dtype in TYPES:
        work = torch.promote_types(dtype, torch.float32)
        for pairing in ("half", "interleaved"):
            for pairs, rest, threads in ((1, 0, 1), (3, 2, 1), (32, 0, 1), (37, 5, 3), (64, 0, 4)):
                x = torch.randn(2, 3, 130, 2 * pairs + rest).to(dtype)
                cos, sin = Rotary(2 * pairs, pairing=pairing).tables(positions.arange(130), work)
                records.append(record(x, cos, sin, pairing, threads))
                wants.append(rotate(x, cos, sin, pairing))
    assert all(torch.equal(got, want) for got, want in zip(run(driver, records, wants), wants, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_pattern_of_16_bits(driver: list[str], dtype: torch.dtype) -> None:
    x = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)[torch.randperm(1 << 16)].view(dtype).view(1, 1, 64, 1024)
    records, wants = [], []
    for pairing in ("half", "interleaved"):
        cos, sin = Rotary(1024, pairing=pairing).tables(positions.arange(64) * 1000)
        sin[0], cos[1], sin[2] = 0.0, 2.0**-100, 2.0**-130  # by one exactly, and to numbers that are subnormal
        records.append(record(x, cos, sin, pairing, 1))
        wants.append(rotate(x, cos, sin, pairing))
    for got, want in zip(run(driver, records, wants), wants, strict=True):
        assert torch.equal(got.isnan(), want.isnan())
        assert torch.equal(got.nan_to_num(0).view(torch.int16), want.nan_to_num(0).view(torch.int16))
