"""Claims, each with a common statement, the precise statement, a verdict, and the findings that support it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from posenc.errors import PosencError
from posenc.pictures.numbers import short


class Verdict(StrEnum):
    """The verdict on a statement."""

    HOLDS = "holds"
    WHEN = "holds when"
    FAILS = "fails"


@dataclass(frozen=True)
class Finding:
    """A number that supports a verdict, and whether the number is as expected."""

    name: str
    value: float
    expected: str
    ok: bool


Evidence = tuple[Finding, ...]


@dataclass(frozen=True)
class Claim:
    """A statement about positional encodings, with the code that tests the statement.

    Args:
        name: a short name with hyphens.
        statement: the statement as people commonly say it.
        precise: the true statement, or the condition under which the common statement is true.
        verdict: the verdict on the statement.
        source: the source of the precise statement.
        compute: a function that runs the library and returns the findings.
        topic: the heading under which pages show the claim.
        slow: whether the claim trains a model; such claims run only on request.
    """

    name: str
    statement: str
    precise: str
    verdict: Verdict
    source: str
    compute: Callable[[], Evidence]
    topic: str
    slow: bool = False


@dataclass(frozen=True)
class Outcome:
    """The result of running a claim."""

    claim: Claim
    findings: Evidence
    seconds: float
    error: str = ""

    @property
    def stands(self) -> bool:
        """Whether the verdict stands: no error was raised, and every finding is as expected."""
        return not self.error and bool(self.findings) and all(f.ok for f in self.findings)


def claim(
    statement: str, precise: str, verdict: Verdict, source: str, slow: bool = False
) -> Callable[[Callable[[], Evidence]], Claim]:
    """Return a decorator that turns a function that computes evidence into a claim with the function's name."""

    def make(compute: Callable[[], Evidence]) -> Claim:
        return Claim(
            compute.__name__.replace("_", "-"),
            statement,
            precise,
            verdict,
            source,
            compute,
            topic=compute.__module__.rpartition(".")[2].capitalize(),
            slow=slow,
        )

    return make


def run(claim: Claim) -> Outcome:
    """Compute the evidence for a claim. If an error is raised, this claim fails, but other claims still run."""
    start = time.perf_counter()
    try:
        findings, error = claim.compute(), ""
    except Exception as raised:
        findings, error = (), f"{type(raised).__name__}: {raised}"
    return Outcome(claim, findings, time.perf_counter() - start, error)


def refusal(make: Callable[..., object], *given: object, **named: object) -> str:
    """Return the message of the library's error for a call with these arguments, or "" if there is no error."""
    try:
        make(*given, **named)
    except PosencError as error:
        return str(error)
    return ""


def near(name: str, value: float, expected: float, within: float) -> Finding:
    """Return a finding that holds if the value differs from ``expected`` by at most ``within``."""
    return Finding(name, float(value), f"{expected:.10g} ± {short(within)}", abs(value - expected) <= within)


def same(name: str, value: float, expected: float) -> Finding:
    """Return a finding that holds if the value, such as a count or a flag, equals ``expected`` exactly."""
    return Finding(name, float(value), f"{expected:.10g}", value == expected)


def below(name: str, value: float, bound: float) -> Finding:
    """Return a finding that holds if the value is at most ``bound`` and not NaN."""
    return Finding(name, float(value), f"≤ {short(bound)}", value <= bound)


def above(name: str, value: float, bound: float) -> Finding:
    """Return a finding that holds if the value is at least ``bound`` and finite."""
    return Finding(name, float(value), f"≥ {short(bound)}", bound <= value < math.inf)
