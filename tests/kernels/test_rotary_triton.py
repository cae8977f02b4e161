"""The Triton kernel: phases at any position, what it refuses, and that it compiles for a GPU."""

import os
import subprocess
import sys

import pytest
import torch

from posenc import Rotary
from posenc.errors import InvalidArgument
from posenc.kernels.rotation import turn

pytest.importorskip("triton", reason="triton is not installed: pip install 'posenc[triton]'")


@pytest.mark.parametrize("base", [1e4, 5e5])
@pytest.mark.usefixtures("triton_interpreted")
def test_phases_from_turns_are_right_at_any_position(base: float) -> None:
    from posenc.kernels.rotary_triton import from_turns

    rotary = Rotary(128, pairing="half", base=base)
    at = torch.tensor([0, 1, 1000, 10**6, 10**7, 2**31 - 1])
    unit = torch.cat((torch.ones(1, 1, 6, 64), torch.zeros(1, 1, 6, 64)), dim=-1)
    (turned,) = turn(from_turns(1.0), unit, None, at, rotary.clock.turns, "half")
    exact = torch.cat(rotary.tables(at, torch.float64), dim=-1)
    assert (turned[0, 0] - exact).abs().max() <= 2e-7


@pytest.mark.usefixtures("triton_interpreted")
def test_the_attention_factor_multiplies_both() -> None:
    from posenc.kernels.rotary_triton import from_turns

    rotary, at, x = Rotary(8, pairing="half"), torch.arange(4), torch.randn(1, 2, 4, 8)
    once, thrice = (turn(from_turns(f), x, None, at, rotary.clock.turns, "half")[0] for f in (1.0, 3.0))
    torch.testing.assert_close(thrice, 3 * once)


@pytest.mark.usefixtures("triton_interpreted", "unchecked")
def test_shapes_that_do_not_fit_are_refused() -> None:
    placed = Rotary(8, pairing="half", impl="triton").at(torch.arange(4))
    x = torch.randn(2, 3, 4, 8)
    with pytest.raises(InvalidArgument, match=r"takes \(B, heads, length, channels\)"):
        placed.rotate(x[0], x[0])
    with pytest.raises(InvalidArgument, match="may differ in their heads only"):
        placed.rotate(x, x[:1])


COMPILE = """
import torch, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from posenc.kernels.rotary_triton import _turn_kernel as kernel

def compile(half, turns, element, tail, work):
    types, constants = {}, dict(
        PAIRS=40, WIDE=64, TAIL=tail, CHANNELS=80 + tail, TOKENS=16, HEADS=8, HALF=half, TURNS=turns, WORK=work
    )
    for name in kernel.arg_names:
        if name in constants:
            types[name] = "constexpr"
        elif name in ("q", "q_out", "k", "k_out"):
            types[name] = "*" + element
        elif name in ("first", "second"):
            types[name] = "*i64" if turns else "*fp32"
        else:
            types[name] = "fp32" if name in ("sign", "factor") else "i32"
    constants = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=types, constexprs=constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]

print(len(compile(True, True, "bf16", 32, tl.float32)) > 0, len(compile(False, False, "fp32", 0, tl.float32)) > 0)
"""


def test_the_kernel_compiles_for_a_gpu(tmp_path: str) -> None:
    """Down to machine code for compute capability 9.0: the interpreter accepts what the compiler may not."""
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, check=False, env=env)
    assert done.stdout.strip() == "True True", done.stderr
