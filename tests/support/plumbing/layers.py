"""Laws about a placed encoding that several layers share: gradients, windows, and changed parameters."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.attend import attention
from posenc.encodings.layers import Layers
from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument
from posenc.kernels.attention.softmax import merge
from posenc.laws.effects import defined, inputs
from posenc.laws.law import law, near, owed
from posenc.laws.subject import Subject, each_layer
from posenc.mask import Mask

Attend = Callable[[Tensor, Tensor, Tensor, Placed, Mask], Tensor]


def _before_attention(subject: Subject) -> str:
    return "" if {"bias", "scale"} & set(subject.declared.acts_on) else "all it does is done before attention"


@law(_before_attention)
def shared_placings_train(subject: Subject) -> None:
    """Layers that share a placed encoding have exact first and second gradients, also in rows without keys.

    Read trainable tensors from the arguments of ``values``, or from attributes of the bias, never from the module.
    """
    S = subject.longest(9)
    padded = torch.arange(S) >= torch.tensor([[S // 3], [0]])
    for name, mask in (("causal", Mask(causal=True)), ("left-padded", Mask(causal=True, key_mask=padded))):
        want = _derivatives(subject, S, _defined, mask)
        rings = name == "left-padded" and not subject.needs_scores
        ways: dict[str, Attend] = {"attention": attention} | ({"a ring of two": _ring} if rings else {})
        for way, attend in ways.items():
            for order, got in enumerate(_derivatives(subject, S, attend, mask)):
                what = f"{name}, {way}, {('gradients', 'gradients with a graph', 'second derivatives')[order]}"
                # This allows a few thousand rounding errors of sums as large as the largest number.
                near(got, want[order], 1e-11 * (1 + want[order].abs().max()), what)


def _derivatives(subject: Subject, S: int, attend: Attend, mask: Mask) -> list[Tensor]:
    """Return gradients of three layers, the same gradients with a graph, and the gradients of their cosines."""
    encoding = subject.build().double()
    x, q, k, v = given = [tensor.requires_grad_() for tensor in inputs(subject, S, torch.float64)]
    leaves = [*given, *encoding.parameters()]
    placed = encoding.at(subject.plain(S), dtype=torch.float64)
    total = torch.zeros((), dtype=torch.float64)
    for _, awaiting in each_layer(placed, subject.period):
        here = awaiting.with_content(placed.embed(x))[0]
        turned_q, turned_k = here.rotate(q, k)
        y = attend(turned_q, turned_k, v, here, mask)
        for _ in range(2):
            y = attend(turned_q + pad(y, (0, turned_q.shape[-1] - y.shape[-1])), turned_k, v, here, mask)
        total = total + y.sin().sum()
    derivatives = partial(torch.autograd.grad, inputs=leaves, allow_unused=True, materialize_grads=True)
    plain, graphed = derivatives(total, retain_graph=True), derivatives(total, create_graph=True)
    second = derivatives(torch.stack([g.cos().sum() for g in graphed]).sum())
    return [torch.cat([g.detach().flatten() for g in grads]) for grads in (plain, graphed, second)]


def _defined(q: Tensor, k: Tensor, v: Tensor, here: Placed, mask: Mask) -> Tensor:
    return defined(q, k, v, here, mask)[0]


def _ring(q: Tensor, k: Tensor, v: Tensor, here: Placed, mask: Mask) -> Tensor:
    """Merge attention to keys with odd indices and attention to keys with even indices."""
    order = torch.arange(k.shape[2])
    odd = order.remainder(2).bool().expand(k.shape[0], -1)
    visible = torch.ones_like(odd) if mask.key_mask is None else mask.key_mask
    parts = [Mask(causal=True, q_order=order, k_order=order, key_mask=visible & some) for some in (odd, ~odd)]
    return merge([attention(q, k, v, here, part, return_logsumexp=True) for part in parts])[0]


def _is_layers(subject: Subject) -> str:
    return "it says which encoding every layer has already" if isinstance(subject.declared, Layers) else ""


@law(_is_layers)
def windows_travel(subject: Subject) -> None:
    """A placed layer of ``Layers`` keeps its window, and attention applies the window in addition to the mask.

    Return a changed ``copy.copy`` of the placed encoding from ``with_content`` and ``with_state``.
    """
    S = subject.longest(9)
    x, q, k, v = inputs(subject, S, torch.float64)
    layers = Layers({"near": subject.make().double()}, ("near",), layers=1, windows={"near": 3})
    alone = layers.layer(0).at(subject.plain(S), dtype=torch.float64)
    here, bare = layers.at(subject.plain(S), dtype=torch.float64)[0].with_content(x)[0], alone.with_content(x)[0]
    q, k = bare.rotate(q, k)
    for window, narrowest in ((None, 3), (2, 2), (S, 3)):
        want = attention(q, k, v, bare, Mask(causal=True, window=narrowest))
        near(attention(q, k, v, here, Mask(causal=True, window=window)), want, 0.0, f"window {window}")


def _no_parameters(subject: Subject) -> str:
    return "" if list(subject.declared.parameters()) else "it has no parameters"


@law(_no_parameters)
def changed_parameters_are_refused(subject: Subject) -> None:
    """An encoding that was placed before an optimiser's step is refused after the step, until it is placed again.

    Call ``self.check_current()`` in every method of a ``Placed`` that uses values computed from parameters.
    """
    S = subject.longest(9)
    x, q, k, v = inputs(subject, S, torch.float64)
    encoding = subject.build().double()
    placed = encoding.at(subject.plain(S), dtype=torch.float64)

    def use() -> None:
        embedded = placed.embed(x)
        for _, awaiting in each_layer(placed, subject.period):
            here = awaiting.with_content(embedded)[0]
            attention(*here.rotate(q, k), v, here, causal=True)

    use()
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.mul_(1.5)
    with suppress(InvalidArgument):
        use()
        owed(False, "it goes on with the parameters that it was placed with")
    placed = encoding.at(subject.plain(S), dtype=torch.float64)
    use()


LAWS = (shared_placings_train, windows_travel, changed_parameters_are_refused)
