"""Laws about operations on a module, such as casts and copies, that must not change the results of an encoding."""

import copy
import math
import pickle
from collections.abc import Callable

import torch

from posenc.encodings.encoding import Encoding
from posenc.laws.effects import effects, inputs
from posenc.laws.law import Broken, law, near, owed, same
from posenc.laws.subject import Subject


@law()
def survives_casts(subject: Subject) -> None:
    """Casting a module rounds only its parameters, not frequencies, slopes or positions.

    Store frequencies and slopes as integers, with ``register_constants(bits=table.view(torch.int32))``, or as
    Python numbers. Convert trained parameters before any computation: for a bias, to the dtype given to
        ``place``, as in ``self.a.to(dtype).exp()``; for a rotation, to float64, as in ``self.a.double().exp()``.
    """
    at = late(subject)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        rounded = subject.trained()
        for parameter in rounded.parameters():
            parameter.detach().copy_(parameter.to(dtype))
        want = effects(subject, rounded, at)
        same(effects(subject, subject.trained().to(dtype).float(), at), want, f"after .to({dtype}).float()")
        if dtype != torch.float64:  # with float32 inputs, a float64 module computes in float64
            same(effects(subject, subject.trained().to(dtype), at), want, f"after .to({dtype})")


def _loaded(subject: Subject, encoding: Encoding) -> Encoding:
    fresh = subject.build()
    for parameter in fresh.parameters():
        parameter.detach().add_(1.0)
    fresh.load_state_dict(encoding.state_dict(), strict=True)
    return fresh


COPIES: dict[str, Callable[[Subject, Encoding], Encoding]] = {
    "deepcopied": lambda subject, encoding: copy.deepcopy(encoding),
    "pickled": lambda subject, encoding: pickle.loads(pickle.dumps(encoding)),
    "loaded from a state_dict": _loaded,
}


@law()
def survives_copies(subject: Subject) -> None:
    """deepcopy, state_dict and pickle preserve the encoding, and a state dict contains only parameters.

    Register all buffers with ``register_constants``, which excludes buffers from state dicts. Define functions
    at the top level of a module or as methods, and do not store lambdas in attributes.
    """
    encoding, at = subject.build(), late(subject)
    want, state = effects(subject, encoding, at), encoding.state_dict()
    extra = set(state) ^ {name for name, _ in encoding.named_parameters()}
    owed(
        not extra,
        f"state_dict must contain exactly the parameters; it has {sorted(state)}, which differs in {sorted(extra)}",
    )
    owed(
        repr(encoding).startswith(type(encoding).__name__),
        f"the encoding's repr, {repr(encoding)[:40]!r}, does not begin with the name of its class",
    )
    for what, copied in COPIES.items():
        try:
            other = copied(subject, encoding)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise Broken(f"the encoding cannot be {what}: {error}") from error
        same(effects(subject, other, at), want, what)


@law()
def survives_meta(subject: Subject) -> None:
    """A round trip to the meta device (to_empty, then reset_parameters) gives the same result as reset_parameters.

    Fill parameters in ``reset_parameters``, and call ``self.reset_buffers()`` at its end if the module has
    buffers.
    """
    there, at = subject.build().to("meta"), subject.plain(9)
    with torch.device("meta"):
        shapes = there.at(subject.plain(9).to("meta"))
    owed(shapes.q_positions.is_meta, "for positions on the meta device, at() returns q_positions on another device")
    both = [there.to_empty(device="cpu"), subject.build()]
    for tensor in (
        *both[0].parameters(),
        *both[0].buffers(),
    ):  # their memory may contain the right numbers by chance
        tensor.detach().fill_(math.nan if tensor.is_floating_point() else 1)
    for encoding in both:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(1)
            encoding.reset_parameters()
    same(effects(subject, both[0], at), effects(subject, both[1], at), "back from meta")
    with torch.device("meta"):
        built = subject.make()
    if subject.constructs:
        on = {name for name, t in (*built.named_parameters(), *built.named_buffers()) if not t.is_meta}
        owed(not on, f"the encoding was built on the meta device, but {sorted(on)} are on another device")


@law()
def survives_autocast(subject: Subject) -> None:
    """Autocast may round attention to bf16, but not tables or biases, whose errors would grow with distance.

    Autocast lowers the precision of matrix products, but not of elementwise operations. Use elementwise products
    and sums, or disable autocast with ``torch.autocast(device, enabled=False)``.
    """
    encoding, at = subject.build(), late(subject)
    want = effects(subject, encoding, at)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = effects(subject, encoding, at)
    attended = {name for name in want if name.split(" ")[0] in ("y", "far")}
    unattended, meant = ({n: t for n, t in effects_of.items() if n not in attended} for effects_of in (got, want))
    same(unattended, meant, "under autocast")
    v = inputs(subject)[3]
    # v, weights and result are each rounded by u; rounding q and k changes a score by 2u|q||k|/√D, times scale.
    u = torch.finfo(torch.bfloat16).eps / 2
    for name in attended:
        layer = name.partition(" ")[2]
        rotated = (want[f"{n} {layer}"].norm(dim=-1).max().item() for n in "qk")
        factor = want.get(f"scale {layer}", torch.ones(1)).abs().max().item()
        score = 0.0 if name.startswith("far") else math.prod(rotated) / math.sqrt(subject.head_dim) * factor
        near(got[name], want[name], u * (3 + 6 * score) * v.abs().max() * (1 + u), f"{name} under autocast")


def late(subject: Subject) -> torch.Tensor:
    return subject.plain(9, min(40, subject.declared.position_limit - 9))
