"""Laws that results do not depend on other instances, other calls, or the memory layout of inputs."""

from collections.abc import Callable

import torch
from torch import Tensor

from posenc.laws.effects import Whole, effects, inputs, outputs
from posenc.laws.law import Broken, law, near, owed, same
from posenc.laws.subject import Subject
from support.cases import Case


@law()
def instances_are_independent(subject: Subject) -> None:
    """Instances and calls with different settings, positions or dtypes do not affect each other.

    Keep nothing in the class or the module between calls; make tables in ``place``, and keep them in its result.
    """
    first, second = subject.plain(9), subject.plain(9, min(20, subject.declared.position_limit - 9))
    alone = effects(subject, subject.build(), first), effects(subject, subject.build(), second)
    encoding = subject.build()
    effects(subject, encoding, second, torch.bfloat16)
    same(effects(subject, encoding, first), alone[0], "after other positions and another type")
    same(effects(subject, encoding, second), alone[1], "after other positions")
    in_float64 = effects(subject, subject.build().double(), first, torch.float64)
    same(effects(subject, encoding.double(), first, torch.float64), in_float64, "in float64 after float32")
    if not isinstance(subject, Case) or subject.other is None:
        return
    other = subject.other()
    others = effects(subject, other, second)
    owed(
        others.keys() != alone[1].keys() or any(not torch.equal(others[name], alone[1][name]) for name in others),
        "another setting changes nothing",
    )
    same(effects(subject, subject.build(), second), alone[1], "after an instance with other settings")
    same(effects(subject, other, second), others, "the other instance, asked again")


@law()
def takes_no_tokens(subject: Subject) -> None:
    """No tokens, and a batch without rows, give results of that size, as in an idle step of a server.

    Reduce positions only if there are any.
    """
    for rows, length in ((2, 0), (0, 9), (0, 0)):
        given = [x[:rows, ..., :length, :] for x in inputs(subject)]
        plain = subject.plain(length)
        for positions in (plain, plain.unsqueeze(-2).expand(*plain.shape[:-1], rows, length)):
            try:
                _, *attended = outputs(subject, subject.build(), positions, given)
            except (RuntimeError, IndexError, ValueError) as error:
                raise Broken(f"{rows} rows of {length} tokens: {error}") from error
            owed(all(y.shape == given[1].shape for y in attended), f"{rows} rows of {length} tokens get others")


@law()
def strides_change_nothing(subject: Subject) -> None:
    """Values and gradients do not depend on the memory layout of inputs, such as channels that are not adjacent.

    Use operators that respect strides; call neither ``as_strided`` nor ``view`` on inputs.
    """
    encoding = subject.build().double()
    module, given, at = Whole(subject, encoding), inputs(subject, 9, torch.float64), subject.plain(9)
    layouts: dict[str, Callable[[Tensor], Tensor]] = {
        "as they come": lambda t: t,
        "channels apart": lambda t: t.mT.contiguous().mT,
        "every other number": lambda t: torch.stack((t, -t), dim=-1)[..., 0],
        "one row for all": lambda t: t[:1].expand_as(t),
    }
    for name, laid in layouts.items():
        leaves = [t.clone().requires_grad_() for t in given]
        placed = [laid(leaf) for leaf in leaves]
        results_and_gradients = []
        for tensors in (placed, [t.contiguous() for t in placed]):  # the same numbers
            results = module(*tensors, at)
            total = torch.stack([(y * (1 + torch.arange(y.numel()).view_as(y) % 7)).sum() for y in results]).sum()
            results_and_gradients.append(
                [*results, *torch.autograd.grad(total, leaves, allow_unused=True, retain_graph=True)]
            )
        for i, (got, want) in enumerate(zip(*results_and_gradients, strict=True)):
            if got is not None and want is not None:
                near(got, want, 1e-11 * (1 + want.abs().max()), f"result {i} of inputs that lie {name}")


LAWS = (
    instances_are_independent,
    takes_no_tokens,
    strides_change_nothing,
)
