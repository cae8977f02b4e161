"""The Triton kernel: tables by head, what it refuses, and that it compiles for a GPU."""

import os
import subprocess
import sys

import pytest
import torch

from posenc import Rotary
from posenc.errors import InvalidArgument
from posenc.kernels.rotary import Tables, rotate_both

pytest.importorskip("triton", reason="triton is not installed: pip install 'posenc[triton]'")


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
@pytest.mark.usefixtures("triton_interpreted")
def test_every_head_may_have_tables_of_its_own(pairing: str) -> None:
    q, k = torch.randn(2, 11, 5, 12), torch.randn(2, 3, 5, 12)
    angles = [torch.randn(2, heads, 5, 6) for heads in (11, 3)]
    made = [Tables(a.cos(), a.sin()) for a in angles]
    got, want = (rotate_both(q, k, *made, pairing, backend) for backend in ("triton", "torch"))
    for mine, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=8 * 2**-23)


@pytest.mark.usefixtures("triton_interpreted", "unchecked")
def test_shapes_that_do_not_fit_are_refused() -> None:
    placed = Rotary(8, pairing="half", backend="triton").at(torch.arange(4))
    x = torch.randn(2, 3, 4, 8)
    with pytest.raises(InvalidArgument, match=r"takes \(B, heads, length, channels\)"):
        rotate_both(x[0], x[0], placed.q_tables, placed.q_tables, "half", "triton")


COMPILE = """
import torch, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from posenc.kernels.rotary.by_triton import _rotate_kernel as kernel

def compile(half, by_head, element, tail, work):
    types, constants = {}, dict(
        PAIRS=40, WIDE=64, TAIL=tail, CHANNELS=80 + tail, TOKENS=16, HEADS=8, HALF=half, BY_HEAD=by_head, WORK=work
    )
    for name in kernel.arg_names:
        if name in constants:
            types[name] = "constexpr"
        elif name in ("q", "q_out", "k", "k_out"):
            types[name] = "*" + element
        else:
            types[name] = "*fp32" if name in ("cos_table", "sin_table") else "i32"
    constants = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=types, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]

print(len(compile(True, True, "bf16", 32, tl.float32)) > 0, len(compile(False, False, "fp32", 0, tl.float32)) > 0)
"""


@pytest.mark.slow
def test_the_kernel_compiles_for_a_gpu(tmp_path: str) -> None:
    """Down to machine code for compute capability 9.0: the interpreter accepts what the compiler may not."""
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, check=False, env=env)
    assert done.stdout.strip() == "True True", done.stderr
