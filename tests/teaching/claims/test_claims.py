"""Every quick claim stands on the library; a library broken on purpose breaks the claims that speak of it."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import cache, partial

import pytest
import torch
import typer

import posenc
from posenc.clock import Clock
from posenc.commands.verify import verify
from posenc.encodings import sinusoidal
from posenc.encodings.alibi import LinearBias
from posenc.encodings.catalogue import Entry
from posenc.scaling import scaling
from posenc.teaching.claims import properties, sinusoids, training
from posenc.teaching.claims.catalogue import CLAIMS, chosen
from posenc.teaching.claims.claim import Finding, Verdict, above, below, claim, near, run, same
from posenc.teaching.views import rotation
from posenc.teaching.views.four import Four

pytestmark = pytest.mark.usefixtures("unchecked")  # claims ask what the library itself refuses


KINDS = ("nope", "sinusoidal", "rotary", "alibi", "ssmax")
"""Encodings that act in different places."""


def broken(*names: str) -> set[str]:
    """Which of these claims do not stand now."""
    return {name for name in names if not run(CLAIMS[name]).stands}


@pytest.mark.parametrize(
    "name",
    [pytest.param(c.name, marks=pytest.mark.slow if c.name == "as-declared" else ()) for c in chosen()],
)
def test_the_verdict_stands(name: str) -> None:
    outcome = run(CLAIMS[name])
    assert outcome.stands, (outcome.error, [f for f in outcome.findings if not f.ok])


def test_an_encoding_of_every_kind_acts_as_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each place to act one; the slow test asks the whole catalogue."""
    every = {posenc.encoding(name, width=16, heads=4, head_dim=4, num_positions=8).acts_on: name for name in KINDS}
    assert len(every) == len(KINDS)
    monkeypatch.setattr(posenc, "CATALOGUE", {name: posenc.CATALOGUE[name] for name in KINDS})
    assert not broken("as-declared")


def test_claims_that_train_can_be_asked_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "PLAN", replace(training.PLAN, steps=1, batch=1, test_count=1))
    for cached in (training.trained_model, training.stretched):
        monkeypatch.setattr(training, cached.__name__, cache(cached.__wrapped__))
    for name in ("flat-perplexity-is-no-proof", "remapping-beats-scaling", "remapped-is-not-used"):
        outcome = run(CLAIMS[name])
        assert outcome.error == ""
        assert all(math.isfinite(found.value) for found in outcome.findings)


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_says_all_it_must(name: str) -> None:
    assert CLAIMS[name].statement.endswith(".")
    assert CLAIMS[name].precise.endswith((".", "…"))
    assert CLAIMS[name].source


def flipped(right: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *given: -right(*given)


def one_further(right: Callable[..., object]) -> Callable[..., object]:
    return lambda clock, positions, *rest: right(clock, positions + 1, *rest)


def the_other_way(right: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda x, cos, sin, pairing: right(x, cos, -sin, pairing)


def in_float32(right: object) -> Callable[..., tuple[torch.Tensor, ...]]:
    def rounded(
        clock: Clock, positions: torch.Tensor, dtype: torch.dtype = torch.float32, scale: float = 1.0
    ) -> tuple[torch.Tensor, ...]:
        angle = positions.unsqueeze(-1).float() * torch.tensor(clock.spectrum.float32)
        return (scale * angle.cos()).to(dtype), (scale * angle.sin()).to(dtype)

    return rounded


def twice_the_first(right: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def collided(width: int, positions: range, base: float) -> torch.Tensor:
        code = right(width, positions, base)
        return torch.cat((code[:1], code[:1], code[2:]))

    return collided


def ideal(right: object) -> Callable[[str], Four]:
    return lambda name: Four(name, 1.0, 1.0, -1.0, 0.0)


FAULTS = {
    "ALiBi rewards distance": (
        (LinearBias, "values", flipped),
        {"sign-of-the-bias", "after-the-scaling", "defined-at-every-distance"},
    ),
    "positions are off by one": (
        (Clock, "forward", one_further),
        {"first-rows", "by-hand", "offset-only", "no-maximum-length"},
    ),
    "rotations turn the other way": ((rotation, "rotate", the_other_way), {"widget-numbers"}),
    "angles are in float32": (
        (Clock, "forward", in_float32),
        {"shift-by-five", "offset-only", "no-maximum-length"},
    ),
    "two positions have one code": ((sinusoids, "table", twice_the_first), {"unique-and-bounded"}),
    "an encoding has all four properties": ((properties, "four", ideal), {"desiderata"}),
}
"""What is wrong: where the fault is planted, and the claims that must not stand then."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_library_breaks_the_claims_that_speak_of_it(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (owner, name, wrong), claims = FAULTS[fault]
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))
    assert broken(*claims) == claims
    # What depends on offsets alone cannot see where positions begin, and must not.
    assert fault != "positions are off by one" or not broken("shift-by-five", "nearer-is-more-alike")


def test_a_wrong_base_breaks_the_claims_of_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    right = scaling.falling
    for module in (scaling, sinusoidal):
        monkeypatch.setattr(module, "falling", lambda base, *rest: right(Decimal(base) / 10, *rest))
    names = {"slowest-wavelength", "by-hand", "base-buys-range", "nearer-is-more-alike", "frequencies-of-the-head"}
    assert broken(*names) == names


@pytest.mark.slow
def test_what_is_said_of_the_catalogue_is_asked_of_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posenc.T5, "relative", False)
    monkeypatch.setattr(posenc.Kerple, "acts_on", ())
    names = {"as-declared", "encodings-show-order"}
    assert broken(*names) == names
    monkeypatch.setitem(posenc.CATALOGUE, "large", Entry(partial(posenc.FoX, 4096, 12)))
    assert broken("parameters") == {"parameters"}


@pytest.mark.parametrize(
    "finding",
    [
        below("x", math.nan, 1.0),
        above("x", math.inf, 1.0),
        near("x", math.nan, 1.0, 1.0),
        same("x", math.nan, 1.0),
    ],
    ids=["below", "above", "near", "same"],
)
def test_findings_refuse_what_is_no_number(finding: Finding) -> None:
    assert not finding.ok


def test_a_claim_that_raises_or_finds_nothing_does_not_stand() -> None:
    @claim("statement.", "precise.", Verdict.HOLDS, "nowhere")
    def raises() -> tuple[()]:
        raise ValueError("no such thing")

    @claim("statement.", "precise.", Verdict.HOLDS, "nowhere")
    def empty() -> tuple[()]:
        return ()

    assert run(raises).error == "ValueError: no such thing"
    assert not run(raises).stands
    assert not run(empty).stands


def test_verify_prints_verdicts_and_leaves_in_peace(capsys: pytest.CaptureFixture[str]) -> None:
    verify(["first-rows", "by-hand"])
    out = capsys.readouterr().out
    assert "PE(0) is all zeros." in out
    assert "2 of 2 verdicts hold" in out


def test_verify_leaves_with_1_when_the_library_breaks_a_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LinearBias, "values", lambda self, distances: torch.zeros(self.heads, *distances.shape))
    with pytest.raises(typer.Exit) as left:
        verify(["sign-of-the-bias"])
    assert left.value.exit_code == 1
    out = capsys.readouterr().out
    for words in (
        "BROKEN",
        "The verdict of sign-of-the-bias does not hold",
        "bias of head 1, query 0, key 7: 0, expected -1.75",
    ):
        assert words in out


def test_verify_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    verify(["slowest-wavelength"], as_json=True)
    (described,) = json.loads(capsys.readouterr().out)
    assert described["stands"] is True
    assert described["verdict"] == "fails"
    assert described["findings"][0]["value"] == pytest.approx(60611.477, abs=1e-3)
