"""Laws of tracing: compiled and exported with one graph for all lengths, fake tensors, make_fx, vmap, meta."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from posenc.attend import attention
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import Placed
from posenc.laws.effects import inputs
from posenc.laws.law import Broken, law, near, owed
from posenc.laws.subject import Subject, each_layer
from posenc.mask import Mask

LENGTHS = (9, 12, 5, 31, 17, 8, 24, 2, 20, 30)
"""Ten lengths, none of them 1, for which every compiler makes a graph of its own."""

SINGLE = 2.0**-23 * 64
"""float32, sums of at most 64 terms."""


@contextmanager
def traceable(how: str) -> Iterator[None]:
    """Broken where a tracer gives up: on looking at values, on telling lengths apart, on what it does not know."""
    from torch._dynamo.exc import TorchDynamoException  # the compiler is loaded by those who compile

    try:
        yield
    except Broken:
        raise
    except (RuntimeError, ValueError, TorchDynamoException) as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        raise Broken(f"{how} gives up: {type(error).__name__}: {reason[:200]}") from error


class Whole(nn.Module):
    """All effects of every layer in one forward."""

    def __init__(self, subject: Subject, encoding: Encoding, way: str = "causal") -> None:
        super().__init__()
        self.encoding, self.layers, self.way = encoding, subject.period, way

    def forward(
        self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, key_mask: Tensor
    ) -> list[Tensor]:
        placed = self.encoding.at(positions)
        mask = Mask(causal=True)
        if self.way == "masked":
            mask = Mask(
                causal=True, key_mask=key_mask, q_segments=positions.reshape(-1, positions.shape[-1])[0] // 16
            )
        results = [placed.embed(x)]
        for _layer, awaiting in each_layer(placed, self.layers):
            here = awaiting.with_content(x)[0]
            results.append(attention(*here.rotate(q, k), v, here, mask))
        return results


def given(subject: Subject, T: int = 9, offset: int = 0) -> tuple[Tensor, ...]:
    """Arguments of a whole."""
    mask = torch.ones(2, T, dtype=torch.bool)
    mask[0, : T // 4] = False
    return *inputs(subject, T), subject.plain(T, offset), mask


def _lengths(subject: Subject) -> list[tuple[int, int]]:
    """Lengths, each with an offset of its own."""
    limit = subject.declared.position_limit
    return [(T, min(i, limit - T)) for i, T in enumerate(LENGTHS) if limit >= T]


@law(traces=True)
def compiles_to_one_graph(subject: Subject) -> None:
    """Compiled whole, causal and masked, with one graph at ten lengths: equal to eager, forward and backward.

    Decide nothing by values or lengths: no ``.item()``, ``bool(tensor)`` or ``if length == …``.
    """
    for way in ("causal", "masked"):
        graphs: list[object] = []

        def counting(module: Any, example: list[Tensor], graphs: list[object] = graphs) -> Callable[..., Any]:
            graphs.append(module)
            return module.forward

        torch._dynamo.reset_code(Whole.forward.__code__)  # and nothing that somebody else compiled
        module = Whole(subject, subject.build(), way)
        compiled = torch.compile(module, fullgraph=True, backend=counting, dynamic=True)
        for T, offset in _lengths(subject):
            results = []
            for call in (module, compiled):
                x, q, k, v, *rest = given(subject, T, offset)
                leaves = [tensor.requires_grad_() for tensor in (x, q, k, v)]
                with traceable("torch.compile"):
                    outputs = call(*leaves, *rest)
                sum(y.square().sum() for y in outputs).backward()
                results.append([*outputs, *(t.grad for t in leaves if t.grad is not None)])
            for i, (want, got) in enumerate(zip(*results, strict=True)):
                near(got, want, SINGLE * (1 + want.abs().max()), f"result {i} of {T} tokens from {offset}, {way}")
        owed(len(graphs) == 1, f"{len(graphs)} graphs for {len(LENGTHS)} lengths, {way}")


@law(traces=True)
def exports_to_one_graph(subject: Subject) -> None:
    """torch.export takes it with a length left open, and gives what eager gives at ten lengths.

    Decide nothing by values or lengths: no ``.item()``, ``bool(tensor)`` or ``if length == …``.
    """
    length = torch.export.Dim("length", min=2, max=subject.longest(1024))
    for way in ("causal", "masked"):
        module = Whole(subject, subject.build(), way)
        arguments = given(subject, 12 if subject.longest(12) == 12 else subject.longest(12))
        axes = [tensor.dim() - 1 if i > 3 else tensor.dim() - 2 for i, tensor in enumerate(arguments)]
        shapes = tuple({axis: length} for axis in axes)
        with traceable("torch.export"):
            exported = torch.export.export(module, arguments, dynamic_shapes=shapes).module()
        for T, offset in _lengths(subject):
            now = given(subject, T, offset)
            for i, (got, want) in enumerate(zip(exported(*now), module(*now), strict=True)):
                near(got, want, SINGLE * (1 + want.abs().max()), f"result {i} of {T} tokens from {offset}, {way}")


class Attends(nn.Module):
    """What a layer does with a placed encoding that it is given."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask) -> Tensor:
        return attention(*placed.rotate(q, k), v, placed, mask)


@law(traces=True)
def exports_with_a_placing(subject: Subject) -> None:
    """torch.export takes a placed encoding and a mask as arguments, and the program serves other positions.

    Keep tensors as attributes of the ``Placed`` and of its bias, which are its leaves; a closure hides them.
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
    """Under FakeTensorMode and on the meta device it gives the shapes and types that it gives.

    Look at no value: no ``.item()``, ``.tolist()`` or ``bool(tensor)``.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    arguments = given(subject)
    for way in ("causal", "masked"):
        want = [(y.shape, y.dtype) for y in Whole(subject, subject.build(), way)(*arguments)]
        module = Whole(subject, subject.build(), way)
        with traceable("FakeTensorMode"), FakeTensorMode(allow_non_fake_inputs=True) as mode:
            faked = module(*(mode.from_tensor(t) for t in arguments))
        on_meta = Whole(subject, subject.build().to("meta"), way)(*(t.to("meta") for t in arguments))
        for outputs, name in ((faked, "fake"), (on_meta, "meta")):
            got = [(y.shape, y.dtype) for y in outputs]
            owed(got == want, f"{name} tensors, {way}: {got}, wanted {want}")


@law()
def survives_make_fx(subject: Subject) -> None:
    """make_fx traces it, and the trace gives at other positions what eager gives there.

    Look at no value: no ``.item()``, ``.tolist()`` or ``bool(tensor)``.
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
    """vmap over what models compute, at shared positions, gives what each gives alone.

    Look at no value, and write into no tensor that was made before the call.
    """
    module = Whole(subject, subject.build().requires_grad_(False))
    x, q, k, v, positions, mask = given(subject)
    both = [torch.stack((t, 0.5 * t)) for t in (x, q, k, v)]
    with traceable("vmap"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that torch maps its own attention one by one
        got = torch.vmap(lambda *mapped: module(*mapped, positions, mask))(*both)
    for i in range(2):
        want = module(*(t[i] for t in both), positions, mask)
        for j, (mapped, alone) in enumerate(zip(got, want, strict=True)):
            near(mapped[i], alone, SINGLE * (1 + alone.abs().max()), f"result {j} of the {('first', 'second')[i]}")


LAWS = (
    compiles_to_one_graph,
    exports_to_one_graph,
    exports_with_a_placing,
    survives_fake_tensors,
    survives_make_fx,
    survives_vmap,
)
