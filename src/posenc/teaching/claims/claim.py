"""A claim: a common sentence, the precise one, a verdict, and the findings that the verdict stands on."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What becomes of a sentence when it is run."""

    HOLDS = "holds"
    WHEN = "holds when"
    FAILS = "fails"


@dataclass(frozen=True)
class Finding:
    """One number that a verdict stands on, and whether it came out as the verdict needs it."""

    name: str
    value: float
    expected: str
    ok: bool


Evidence = tuple[Finding, ...]


@dataclass(frozen=True)
class Claim:
    """A sentence that can be run.

    Args:
        name: short, with hyphens.
        statement: the sentence as people commonly say it.
        precise: what is true instead, or under which condition.
        verdict: on the statement.
        source: where the precise sentence comes from.
        compute: runs the library and returns the findings.
        topic: the heading it stands under.
        slow: whether it trains a model; left out unless asked for.
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
    """A claim that was run."""

    claim: Claim
    findings: Evidence
    seconds: float
    error: str = ""

    @property
    def stands(self) -> bool:
        """Whether the verdict stands: nothing was raised and every finding came out as needed."""
        return not self.error and bool(self.findings) and all(f.ok for f in self.findings)


def claim(
    statement: str, precise: str, verdict: Verdict, source: str, slow: bool = False
) -> Callable[[Callable[[], Evidence]], Claim]:
    """Decorate the function that computes a claim's evidence; its name becomes the claim's."""

    def make(compute: Callable[[], Evidence]) -> Claim:
        name = compute.__name__.replace("_", "-")
        topic = compute.__module__.rpartition(".")[2].capitalize()
        return Claim(name, statement, precise, verdict, source, compute, topic, slow)

    return make


def run(claim: Claim) -> Outcome:
    """Compute the evidence. A library that raises breaks the claim; it does not stop the others."""
    start = time.perf_counter()
    try:
        findings, error = claim.compute(), ""
    except Exception as raised:
        findings, error = (), f"{type(raised).__name__}: {raised}"
    return Outcome(claim, findings, time.perf_counter() - start, error)


def near(name: str, value: float, expected: float, within: float) -> Finding:
    """The value is ``expected``, give or take ``within``."""
    return Finding(name, float(value), f"{expected:.10g} ± {within:.0e}", abs(value - expected) <= within)


def same(name: str, value: float, expected: float) -> Finding:
    """The value is ``expected`` exactly: a count, a flag (1 is yes), or numbers that must be equal bit for bit."""
    return Finding(name, float(value), f"{expected:.10g}", value == expected)


def below(name: str, value: float, bound: float) -> Finding:
    """The value is at most ``bound``; NaN is not."""
    return Finding(name, float(value), f"≤ {bound:.4g}", value <= bound)


def above(name: str, value: float, bound: float) -> Finding:
    """The value is at least ``bound``, and finite."""
    return Finding(name, float(value), f"≥ {bound:.4g}", bound <= value < math.inf)
