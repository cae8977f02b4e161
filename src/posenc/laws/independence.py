"""Laws of numbers: narrower types round once, and gradients are exact."""

import math

import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError, gradcheck

from posenc.encodings.encoding import Encoding
from posenc.laws.effects import Whole, effects, effects64, inputs
from posenc.laws.law import law, near, owed
from posenc.laws.subject import Subject


@law()
def low_precision_rounds_once(subject: Subject) -> None:
    """In bf16 and fp16 an effect is float64's result, rounded once; attention adds its two roundings of v.

    Compute in float32 or wider and round once at the end, ``.to(x.dtype)``, from trained parameters too: exp of
    them in float64, ``self.a.double()``; for sums over channels pass ``roundings=`` to ``check``.
    """
    at = subject.plain(9, min(40, subject.declared.position_limit - 9))
    for dtype in (torch.bfloat16,) if subject.declared.grows else (torch.bfloat16, torch.float16):
        u = torch.finfo(dtype).eps / 2
        encoding = subject.build().to(dtype)
        got, want = effects(subject, encoding, at, dtype), effects64(subject, encoding, at, dtype)
        x, q, k, v = inputs(subject, 9, dtype)
        read = _read_error(encoding, x)
        for name, wanted in want.items():
            what, wide = f"{name} in {dtype}", wanted.abs()
            effect, layer = name.split(" ")[0], name.partition(" ")[2]
            biases = want.get(f"bias {layer}", torch.zeros(1)).abs().max().item()
            size = read + _bias_error(subject, encoding, biases, (x, q, k), u)
            if effect in "xqk":
                # One rounding to the type; before it, float32 tables, two products and a sum.
                near(got[name], wanted, u * wide + 4 * 2.0**-23 * (1 + 2 * wide.amax()), what)
            elif effect in ("bias", "scale"):
                # float32: a rounding of the factor and one of the product; and what reading and sums were off by.
                near(got[name], wanted, 2.0**-23 * wide + (size if effect == "bias" else 0.0), what)
            else:
                bias = biases * 2.0**-23 + size
                scale = want.get(f"scale {layer}")
                factor = 1.0 if scale is None else scale.abs().max().item()
                # Weights and the result are rounded to the type: u·max|v| each; scores come from q and k, rounded
                # by u each (and q again where it is scaled), and a weight moves by twice a score in relation.
                length = (q.double().norm(dim=-1).max() * k.double().norm(dim=-1).max()).item()
                score = (
                    0.0 if effect == "far" else length / math.sqrt(subject.head_dim) * factor * _grown(want, layer)
                )
                moved = (4 if scale is None else 6) * u * score + 2 * bias
                near(got[name], wanted, (2 * u + moved) * v.double().abs().max() * (1 + u), what)


def _grown(want: dict[str, Tensor], layer: str) -> float:
    """At least 1: how much rotation may lengthen the product of a query and a key, where it keeps no lengths."""
    heads = [want[f"{name} {layer}"].norm(dim=-1).max().item() for name in "qk"]
    return max(1.0, heads[0] * heads[1])


def _read_error(encoding: Encoding, x: Tensor) -> float:
    """How far float32 may put sums over the sequence of what is read off x: Σ|w·x| ≤ ‖x‖₁·max|w| a token."""
    if not encoding.needs_content:
        return 0.0
    weight = max((p.detach().double().abs().max().item() for p in encoding.parameters()), default=0.0)
    T, C = x.shape[1:]
    return T * (C + 4) * 2.0**-24 * (x.double().abs().sum(-1).max().item() * weight + weight)


def _bias_error(
    subject: Subject, encoding: Encoding, largest: float, given: tuple[Tensor, Tensor, Tensor], u: float
) -> float:
    """How far float32 may put what the bias adds up of parameters, and of products of them with what they meet,
    which was rounded by u before if it was rotated."""
    if not subject.bias_roundings:
        return 0.0
    sums = [
        [
            p.detach().double().flatten(1 if p.dim() > 1 else 0).abs().sum(-1).max().item()
            for p in part.parameters(recurse=False)
        ]
        for part in encoding.modules()
    ]
    reach = max(math.prod(max(1.0, size) for size in sizes) for sizes in sums)
    given_size = max(tensor.double().abs().sum(-1).max().item() for tensor in given)
    rotated = u if encoding.uses_queries and "queries_keys" in encoding.acts_on else 0.0
    return (subject.bias_roundings * 2.0**-24 + rotated) * (largest + reach * given_size)


@law()
def gradients_are_exact(subject: Subject) -> None:
    """Analytic gradients of everything (inputs and parameters) equal finite differences in float64.

    Cut no gradient: no ``detach``, ``.data`` or ``no_grad`` on the way from an input or a parameter.
    """
    encoding = subject.build().double()
    names = [name for name, _ in encoding.named_parameters()]
    module, positions = Whole(subject, encoding), subject.along(torch.tensor([0, 3, 4]))

    def everything(*given: Tensor) -> tuple[Tensor, ...]:
        parameters = {f"encoding.{n}": p for n, p in zip(names, given[4:], strict=True)}
        return tuple(torch.func.functional_call(module, parameters, (*given[:4], positions)))

    wanted = [t[:1].clone().requires_grad_() for t in inputs(subject, 3, torch.float64)]
    parameters = [p.detach().clone().requires_grad_() for p in encoding.parameters()]
    try:
        gradcheck(everything, (*wanted, *parameters), fast_mode=True)
    except GradcheckError as error:
        owed(False, " ".join(str(error).split())[:300])
