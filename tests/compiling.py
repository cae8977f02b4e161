"""The law of compilation, run by test_compile.py in an interpreter of its own: ``python compiling.py BACKEND``.

torch.compile cannot trace the run-time checks that conftest.py wraps around the library. Prints one line per
case that breaks the law; the exit status is 1 if there is any.
"""

import sys
import traceback

import torch

from cases import CASES, Case
from posenc import ALiBi
from posenc.positions import plain
from probe import inputs, near
from survival import Whole


def survives_compile(case: Case, backend: str) -> None:
    """One graph, forward and backward, equal to eager; positions are data, so that moving them compiles nothing."""
    whole = Whole(case.build())
    compiled = torch.compile(whole, fullgraph=True, backend=backend, dynamic=False)
    for offset in (0, 40):
        results = []
        for call in (whole, compiled):
            given = [tensor.requires_grad_() for tensor in inputs(case)]
            embedded, attended = call(*given, plain(9, offset=offset))
            (embedded.square().sum() + attended.square().sum()).backward()
            results.append([embedded, attended, *(t.grad for t in given if t.grad is not None)])
        for got, want in zip(results[1], results[0], strict=True):
            near(got, want, 2**-23 * 64 * (1 + want.abs().max()))  # float32, sums of at most 64 terms


def refuses_far_positions_when_compiled(backend: str) -> None:
    """A compiled graph does not look at positions, and still must not let a position without a row pass."""
    case = next(case for case in CASES if case.name == "learned")
    compiled = torch.compile(Whole(case.build()), fullgraph=True, backend=backend)
    try:
        compiled(*inputs(case), plain(9, offset=60))
    except (RuntimeError, IndexError):
        return
    raise AssertionError("position 68 of 64 passed")


def alibi_stays_linear(backend: str) -> None:
    """Compiled ALiBi over three blocks of rows equals eager's, whose masks are views."""
    length = 700
    case = Case("alibi-long", lambda: ALiBi(4))
    whole = Whole(case.build())
    given = inputs(case, length)
    compiled = torch.compile(whole, fullgraph=True, backend=backend)
    near(compiled(*given, plain(length))[1], whole(*given, plain(length))[1], 2**-23 * 64)


def main(backend: str) -> int:
    broken = 0
    cases = CASES if backend == "eager" else [case for case in CASES if case.name in ("rotary", "alibi", "learned")]
    laws = [(str(case), lambda case=case: survives_compile(case, backend)) for case in cases]
    laws.append(("far positions", lambda: refuses_far_positions_when_compiled(backend)))
    laws.append(("alibi over blocks", lambda: alibi_stays_linear(backend)))
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
