"""Laws of precision: results in 16-bit dtypes are rounded once, and gradients are exact."""

import copy
import math

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck

from posenc.attend import attention
from posenc.encodings.placed import Placed
from posenc.laws.effects import Whole, defined, inputs, rows
from posenc.laws.law import law, near, owed
from posenc.laws.subject import Subject, read_layers
from posenc.mask import CAUSAL


@law()
def low_precision_rounds_once(subject: Subject) -> None:
    """Effects in bf16 and fp16 equal the effects in float32, rounded once; attention adds two more roundings.

    Compute in float32 or wider for any dtype of x, q and k, and round once at the end with ``.to(x.dtype)``.
    Convert trained parameters before any computation: for a bias, to the dtype given to ``place``, as in
        ``self.a.to(dtype).exp()``; for a rotation, to float64, as in ``self.a.double().exp()``.
    """
    limit = subject.declared.position_limit
    at = subject.along(torch.tensor([*range(min(40, limit - 9), min(48, limit - 1)), min(3001, limit - 1)]))
    for dtype in (torch.bfloat16,) if subject.declared.grows else (torch.bfloat16, torch.float16):
        encoding, (x, q, k, v) = subject.trained().to(dtype), inputs(subject, 9, dtype)
        narrow, wide = encoding.at(at), copy.deepcopy(encoding).float().at(at)
        exact = copy.deepcopy(encoding).double().at(at, dtype=torch.float64)
        _rounds_once("x", dtype, narrow.embed(x), wide.embed(x.float()), exact.embed(x.double()))
        precisions = ((narrow, x), (wide, x.float()), (exact, x.double()))
        layers = zip(*(read_layers(placed, subject.period, content) for placed, content in precisions), strict=True)
        for (layer, here, _), (_, there, _), (_, precise, _) in layers:
            rotated = here.rotate(q, k)
            wider = there.rotate(q.float(), k.float()), precise.rotate(q.double(), k.double())
            for name, *numbers in zip("qk", rotated, *wider, strict=True):
                _rounds_once(f"{name} of layer {layer}", dtype, *numbers)
            if here.scale is not None and there.scale is not None and precise.scale is not None:
                _rounds_once(
                    f"scale of layer {layer}",
                    torch.float32,
                    here.scale,
                    there.scale,
                    precise.scale,
                    allowed=2.0**-23 * precise.scale.abs(),
                )
            again, bias = [tensor.float() for tensor in rotated], torch.zeros(1)
            if here.bias is not None:
                bias, double = rows(there, *again), rows(precise, *(tensor.double() for tensor in rotated))
                most = 1 + double.abs().max()
                # 16 roundings of terms that may cancel, and two of an exponent, each of which is multiplied by a
                # power's logarithm.
                allowed = (16 + 2 * most.log()) * 2.0**-24 * most
                _rounds_once(f"bias of layer {layer}", torch.float32, rows(here, *rotated), bias, double, allowed)
            y = attention(rotated[0], rotated[1], v, here, causal=True)
            want, _ = defined(again[0].double(), again[1].double(), v.double(), there, CAUSAL)
            near(y, want, _attended(subject, here, again, bias, v), f"y of layer {layer} in {dtype}")


def _rounds_once(
    what: str, dtype: torch.dtype, got: Tensor, single: Tensor, double: Tensor, allowed: Tensor | None = None
) -> None:
    """Compare a result in ``dtype`` with the results for the same inputs in float32 and float64. The tolerance for
    the float32 result covers the rounding of the tables, two products and their sum."""
    near(got, single.to(dtype), 0.0, f"{what} in {dtype}")
    products = 4 * 2.0**-23 * (1 + 2 * double.abs().amax())
    near(single, double, products if allowed is None else allowed, f"{what} in float32")


def _attended(subject: Subject, here: Placed, rotated: list[Tensor], bias: Tensor, v: Tensor) -> float:
    """Return the tolerance of attention in the dtype of v. Rounding multiplies each weight and result by a factor
    between 1 − u and 1 + u, where u is half the dtype's epsilon. Multiplying queries by a scale rounds them once
    more, and a rotation inside attention rounds queries and keys once more. The relative error of a weight is at
    most twice the error of a score.
    """
    u = torch.finfo(v.dtype).eps / 2
    factor = 1.0 if here.scale is None else here.scale.abs().max().item()
    length = math.prod(tensor.double().norm(dim=-1).max().item() for tensor in rotated)
    roundings = 2 * (here.scale is not None) + 4 * bool(here.remaps)
    moved = roundings * u * length / math.sqrt(subject.head_dim) * factor + 2 * 2.0**-23 * bias.abs().max().item()
    return (2 * u + moved) * v.abs().max().item() * (1 + u)


@law()
def gradients_are_exact(subject: Subject) -> None:
    """The gradients of all inputs and parameters equal finite differences in float64.

    Do not use ``detach``, ``.data`` or ``no_grad`` between the inputs or parameters and the results.
    """
    encoding = subject.build().double()
    module, positions = Whole(subject, encoding), subject.along(torch.tensor([0, 3, 4]))

    def everything(*given: Tensor) -> tuple[Tensor, ...]:
        parameters = {n: p for (n, _), p in zip(module.named_parameters(), given[4:], strict=True)}
        return tuple(torch.func.functional_call(module, parameters, (*given[:4], positions)))

    wanted = [t[:1].clone().requires_grad_() for t in inputs(subject, 3, torch.float64)]
    parameters = [p.detach().clone().requires_grad_() for p in encoding.parameters()]
    try:
        gradcheck(everything, (*wanted, *parameters), fast_mode=True)
    except GradcheckError as error:
        owed(False, " ".join(str(error).split())[:300])
