"""Laws of tracing: torch.compile and torch.export produce one graph for all lengths."""

import io
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from posenc.errors import first_line
from posenc.laws.effects import Whole, inputs
from posenc.laws.law import Broken, law, near, owed
from posenc.laws.subject import Subject

LENGTHS = (9, 12, 5, 31, 17, 8, 24, 2, 20, 30)
"""Ten sequence lengths. Length 1 is omitted, because compilers make a separate graph for it."""

SINGLE = 2.0**-23 * 64
"""The tolerance for float32 sums of at most 64 terms."""


@contextmanager
def traceable(how: str) -> Iterator[None]:
    """Turn an error that a tracer raises into ``Broken``. Such an error means that the encoding's code reads a
    value, branches on a length, or uses an unsupported operation.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise Broken(f"{how} fails: {type(error).__name__}: {first_line(error)[:200]}") from error


def given(subject: Subject, T: int = 9, offset: int = 0) -> tuple[Tensor, ...]:
    """Return arguments for ``Whole.forward``."""
    mask = torch.ones(2, T, dtype=torch.bool)
    mask[0, : T // 4] = False
    return *inputs(subject, T), subject.plain(T, offset), mask


def _lengths(subject: Subject) -> list[tuple[int, int]]:
    """Return the sequence lengths to test, each with the position of its first token."""
    limit = subject.declared.position_limit
    return [(T, min(i, limit - T)) for i, T in enumerate(LENGTHS) if limit >= T]


@law(traces=True)
def compiles_to_one_graph(subject: Subject) -> None:
    """With causal and padding masks, one compiled graph matches eager mode at ten lengths, forward and backward.

    Do not branch on values or lengths, as with ``.item()``, ``bool(tensor)`` or ``if length == …``.
    """
    from torch._dynamo.testing import CompileCounter  # only loaded when compiling

    for way in ("causal", "masked"):
        torch._dynamo.reset_code(Whole.forward.__code__)  # leaves other compiled functions alone
        module, graphs = Whole(subject, subject.build(), way), CompileCounter()
        compiled = torch.compile(module, fullgraph=True, backend=graphs, dynamic=True)
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
        owed(graphs.frame_count == 1, f"{graphs.frame_count} graphs, not one, for {len(LENGTHS)} lengths, {way}")


@law(traces=True)
def exports_to_one_graph(subject: Subject) -> None:
    """A graph from torch.export with a dynamic length, saved and loaded, matches eager mode at ten lengths.

    Do not branch on values or lengths, as with ``.item()``, ``bool(tensor)`` or ``if length == …``.
    """
    length = torch.export.Dim("length", min=2, max=subject.longest(1024))
    for way in ("causal", "masked"):
        module = Whole(subject, subject.build(), way)
        arguments = given(subject, subject.longest(12))
        shapes = tuple({tensor.dim() - (2 if i < 4 else 1): length} for i, tensor in enumerate(arguments))
        with traceable("torch.export"):
            saved = io.BytesIO()
            torch.export.save(torch.export.export(module, arguments, dynamic_shapes=shapes), saved)
            saved.seek(0)
            exported = torch.export.load(saved).module()
        for T, offset in _lengths(subject):
            now = given(subject, T, offset)
            for i, (got, want) in enumerate(zip(exported(*now), module(*now), strict=True)):
                near(got, want, SINGLE * (1 + want.abs().max()), f"result {i} of {T} tokens from {offset}, {way}")
