"""The laws of compiling, run by test_compile.py in an interpreter of its own: ``python compiling.py WHAT``.

torch.compile cannot trace the run-time checks that conftest.py wraps around the library. Prints one line per
case that breaks a law; the exit status is 1 if there is any.
"""

import sys
import traceback
from collections.abc import Callable

import pytest
import torch

from cases import CASES, Case
from mutants import TRACED
from posenc import ALiBi
from posenc.laws import LAWS, Broken
from posenc.laws.law import near
from posenc.laws.tracing import SINGLE, Whole, given


def compiles_with_inductor(case: Case) -> None:
    """One graph, forward and backward, equal to eager; positions are data, so that moving them compiles nothing."""
    whole = Whole(case, case.build())
    compiled = torch.compile(whole, fullgraph=True, backend="inductor", dynamic=False)
    for offset in (0, 40):
        results = []
        for call in (whole, compiled):
            x, q, k, v, *rest = given(case, 9, offset)
            leaves = [tensor.requires_grad_() for tensor in (x, q, k, v)]
            outputs = call(*leaves, *rest)
            sum(y.square().sum() for y in outputs).backward()
            results.append([*outputs, *(t.grad for t in leaves if t.grad is not None)])
        for got, want in zip(results[1], results[0], strict=True):
            near(got, want, SINGLE * (1 + want.abs().max()))


def refuses_far_positions_when_compiled(backend: str) -> None:
    """A compiled graph does not look at positions, and still must not let a position without a row pass."""
    case = next(case for case in CASES if case.name == "learned")
    compiled = torch.compile(Whole(case, case.build()), fullgraph=True, backend=backend)
    try:
        compiled(*given(case, 9, 60))
    except (RuntimeError, IndexError):
        return
    raise AssertionError("position 68 of 64 passed")


def alibi_over_blocks(backend: str) -> None:
    """Compiled ALiBi, whole, equals eager's, which works in three blocks of rows."""
    length = 700
    case = Case("alibi-long", lambda: ALiBi(4))
    whole = Whole(case, case.build())
    arguments = given(case, length)
    compiled = torch.compile(whole, fullgraph=True, backend=backend)
    near(compiled(*arguments)[1], whole(*arguments)[1], SINGLE)


def mutants_are_rejected() -> None:
    """Encodings that break a law of tracing are told so by that law."""
    for mutant in TRACED:
        with pytest.raises(Broken) as broken:
            mutant.law(mutant.case)
        assert broken.value.law == mutant.law.name, mutant


FEW = ("rotary", "alibi", "learned", "fox", "t5")
SOME = (
    *FEW,
    "cope",
    "query-scale",
    "stack(rotary, fox(bias=1))",
    "layers with a window",
    "rotary(axes=chunked(2, 1, 1))",
)
"""One of every door, and of what is made of others."""

Laws = list[tuple[str, Callable[[], None]]]


def traced(cases: list[Case]) -> Laws:
    laws = [law for law in LAWS if law.traces]
    return [(f"{case}: {law}", lambda case=case, law=law: law(case)) for case in cases for law in laws]


def chosen(what: str) -> Laws:
    """``some``: one of every kind; ``rest``: the others; ``inductor``: few, down to the code that is made."""
    if what == "inductor":
        return [(str(case), lambda case=case: compiles_with_inductor(case)) for case in CASES if case.name in FEW]
    if what == "rest":
        return traced([case for case in CASES if case.name not in SOME])
    return [*traced([case for case in CASES if case.name in SOME]), ("mutants", mutants_are_rejected)]


def main(what: str) -> int:
    broken, backend = 0, "inductor" if what == "inductor" else "eager"
    laws = [
        ("far positions", lambda: refuses_far_positions_when_compiled(backend)),
        ("alibi over blocks", lambda: alibi_over_blocks(backend)),
        *chosen(what),
    ]
    for name, law in laws:
        torch._dynamo.reset()
        try:
            law()
        except Exception:
            broken += 1
            print(f"{name}: {traceback.format_exc()}")
    return 1 if broken else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1]))
