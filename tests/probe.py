"""What the laws look at: everything an encoding does at given positions, and how results are compared."""

import copy

import torch
from torch import Tensor

import posenc
from cases import Case
from posenc import Encoding

ROUNDING = 1e-12
"""float64 through two small layers: some thousand roundings of 1e-16 each."""


def near(got: Tensor, want: Tensor, bound: float | Tensor = ROUNDING) -> None:
    """|got − want| ≤ bound everywhere, and nothing is NaN."""
    excess = (got.double() - want.double()).abs() - bound
    assert bool((excess <= 0).all()), f"off by {excess.max().item():.1e} more than the bound"


def same(got: dict[str, Tensor], want: dict[str, Tensor]) -> None:
    """Equal bit for bit."""
    assert got.keys() == want.keys()
    for name in want:
        assert got[name].dtype == want[name].dtype, name
        assert torch.equal(got[name], want[name]), f"{name} differs"


def inputs(case: Case, T: int = 9, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x (2, T, C), and q, k, v (2, heads, T, D), the same every time."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, T, case.width, generator=generator, dtype=torch.float64).to(dtype)
    q, k, v = torch.randn(3, 2, case.heads, T, case.head_dim, generator=generator, dtype=torch.float64).to(dtype)
    return x, q, k, v


def doors(
    case: Case, encoding: Encoding, positions: Tensor, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Everything an encoding does at these positions.

    ``far`` is what a query of zeros attends to from a far position: the bias alone decides, and the differences
    between its large values, which a 16-bit bias would lose.
    """
    return _doors(encoding, positions, inputs(case, positions.shape[-1], dtype))


def doors64(case: Case, encoding: Encoding, positions: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
    """The doors in float64 on inputs that ``dtype`` can hold: what that type's result is judged by."""
    x, q, k, v = (tensor.double() for tensor in inputs(case, positions.shape[-1], dtype))
    return _doors(copy.deepcopy(encoding).double(), positions, (x, q, k, v))


def _doors(
    encoding: Encoding, positions: Tensor, given: tuple[Tensor, Tensor, Tensor, Tensor]
) -> dict[str, Tensor]:
    x, q, k, v = given
    dtype = torch.promote_types(x.dtype, torch.float32)
    placed, _ = encoding.at(positions, dtype=dtype)[0].read(x)
    turned_q, turned_k = placed.rotate(q, k)
    result = {"x": placed.embed(x), "q": turned_q, "k": turned_k}
    if placed.bias is not None:
        result["bias"] = placed.bias.rows(0, positions.shape[-1], positions.shape[-1])
    result["y"] = posenc.attention(turned_q, turned_k, v, placed, True)
    far = encoding.at(torch.tensor([min(3001, encoding.position_limit - 1)]), positions, dtype=dtype)
    result["far"] = posenc.attention(torch.zeros_like(q[:, :, :1]), turned_k, v, far)
    return {name: tensor.detach() for name, tensor in result.items()}


def tokens(*shape: int) -> Tensor:
    """Tokens below 17, the same every time."""
    return torch.randint(17, shape, generator=torch.Generator().manual_seed(3))
