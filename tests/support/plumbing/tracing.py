"""Laws about tracing: export with a placed encoding as input, fake tensors, make_fx and vmap."""

import warnings

import torch
from torch import Tensor, nn

from posenc.attend import attention
from posenc.encodings.placed import Placed
from posenc.laws.effects import Whole, inputs
from posenc.laws.law import law, near, owed
from posenc.laws.subject import Subject, each_layer
from posenc.laws.tracing import SINGLE, given, traceable
from posenc.mask import Mask


class Attends(nn.Module):
    """An attention layer that receives a placed encoding."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask) -> Tensor:
        return attention(*placed.rotate(q, k), v, placed, mask)


@law(traces=True)
def exports_with_a_placing(subject: Subject) -> None:
    """torch.export accepts a placed encoding and a mask as arguments, and the program works at other positions.

    Keep tensors as attributes of the ``Placed`` and of its bias, which become leaves; a closure hides tensors.
    """
    encoding, offset = subject.build().requires_grad_(False), min(5, subject.declared.position_limit - 9)
    x, q, k, v = inputs(subject)
    masks = [Mask(causal=True, q_segments=torch.arange(9) // n) for n in (3, 4)]
    at = [encoding.at(subject.plain(9, first)) for first in (0, offset)]
    for layer, _ in each_layer(at[0], subject.period):
        first, later = (placed[layer].with_content(x)[0] for placed in at)
        with traceable("torch.export"):
            exported = torch.export.export(Attends(), (q, k, v, first, masks[0])).module()
            got = exported(2 * q, k, v, later, masks[1])
        want = Attends()(2 * q, k, v, later, masks[1])
        near(got, want, SINGLE * (1 + want.abs().max()), f"layer {layer} from position {offset}")


@law()
def survives_fake_tensors(subject: Subject) -> None:
    """Results have the same shapes and dtypes under FakeTensorMode with a mask, and on the meta device.

    It can also be built there, as for an estimate of memory. Read no values: no ``.item()``, ``.tolist()`` or
    ``bool(tensor)``.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    arguments = given(subject)
    module = Whole(subject, subject.build(), "masked")
    want = [(y.shape, y.dtype) for y in module(*arguments)]
    with traceable("FakeTensorMode"), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        faked = module(*(mode.from_tensor(t) for t in arguments))
    if subject.constructs:
        with traceable("FakeTensorMode"), FakeTensorMode():
            subject.make()
    on_meta = Whole(subject, subject.build().to("meta"))(*(t.to("meta") for t in arguments))
    for outputs, name in ((faked, "fake"), (on_meta, "meta")):
        got = [(y.shape, y.dtype) for y in outputs]
        owed(got == want, f"{name} tensors: {got}, wanted {want}")


@law()
def survives_make_fx(subject: Subject) -> None:
    """make_fx traces an encoding, and the trace gives the results of eager mode at any positions.

    Read no values: no ``.item()``, ``.tolist()`` or ``bool(tensor)``.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    module = Whole(subject, subject.build().requires_grad_(False))
    with traceable("make_fx"):
        through = make_fx(lambda *arguments: module(*arguments), tracing_mode="fake", _allow_non_fake_inputs=True)
        traced = through(*given(subject))
    now = given(subject, 9, min(5, subject.declared.position_limit - 9))
    for i, (got, want) in enumerate(zip(traced(*now), module(*now), strict=True)):
        near(got, want, SINGLE * (1 + want.abs().max()), f"result {i}")


@law()
def survives_vmap(subject: Subject) -> None:
    """vmap over the inputs of a model at shared positions gives the results of each input alone.

    Read no values, and do not write into tensors that were made before the call.
    """
    module = Whole(subject, subject.build().requires_grad_(False))
    x, q, k, v, positions, mask = given(subject)
    both = [torch.stack((t, 0.5 * t)) for t in (x, q, k, v)]
    with traceable("vmap"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that it maps its attention one by one
        got = torch.vmap(lambda *mapped: module(*mapped, positions, mask))(*both)
    for i in range(2):
        want = module(*(t[i] for t in both), positions, mask)
        for j, (mapped, alone) in enumerate(zip(got, want, strict=True)):
            near(mapped[i], alone, SINGLE * (1 + alone.abs().max()), f"result {j} of the {('first', 'second')[i]}")


LAWS = (
    exports_with_a_placing,
    survives_fake_tensors,
    survives_make_fx,
    survives_vmap,
)
