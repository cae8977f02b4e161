"""Schedules are values: validated fields, a JSON round trip, and refusals that name the fix."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import posenc
from posenc.errors import InvalidArgument
from posenc.scaling import (
    METHODS,
    NTK,
    SCALINGS,
    Default,
    DynamicNTK,
    LengthScaling,
    Linear,
    Llama3,
    LongRoPE,
    PerPair,
    Proportional,
    Scaling,
    YaRN,
    from_dict,
    method,
    planned,
    to_dict,
)

ONE_OF_EACH: list[Scaling | LengthScaling] = [
    Default(),
    Linear(2),
    NTK(4.0, form="fixed"),
    NTK(4.0, form="abf"),
    DynamicNTK(2.0, 2048),
    YaRN(4, 4096, truncate=False, mscale=0.7, mscale_all_dim=0.7),
    LongRoPE((1.0, 1.5), (2.0, 3.0), 4096, 32, attention_factor=1.2),
    PerPair((1.0, 2.0), 1.1),
    Llama3(),
    Proportional(0.25),
]


@pytest.mark.parametrize("scaling", ONE_OF_EACH, ids=lambda s: type(s).__name__)
def test_json_round_trip(scaling: Scaling | LengthScaling) -> None:
    back = from_dict(json.loads(json.dumps(to_dict(scaling))))
    assert back == scaling
    assert hash(back) == hash(scaling)


def test_one_of_each_covers_the_registry() -> None:
    assert {type(s) for s in ONE_OF_EACH} == set(SCALINGS.values())


@given(st.floats(1, 1e6), st.integers(2, 10**7))
def test_numbers_survive_json_bit_for_bit(factor: float, length: int) -> None:
    scalings = [YaRN(factor, length), DynamicNTK(factor, length)]
    assert [from_dict(json.loads(json.dumps(to_dict(scaling)))) for scaling in scalings] == scalings


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Linear(0.5), r"factor=0.5 must be a finite number of at least 1"),
    (lambda: Linear(float("nan")), r"factor=nan must be"),
    (lambda: Linear(True), r"factor=True must be"),
    (lambda: NTK(2, form="bas"), r"unknown form 'bas'; did you mean 'base'"),
    (lambda: NTK(2).frequencies(2, 1e4), r"rotary_dim=2 must be at least 4 for NTK"),
    (lambda: DynamicNTK(2, 1), r"original_length=1 must be at least 2"),
    (lambda: DynamicNTK(2, 4096).plan(0), r"total_length=0 must be at least 1"),
    (lambda: YaRN(2, 4096, beta_fast=1, beta_slow=2), r"beta_fast=1 must be above beta_slow=2"),
    (lambda: YaRN(2, 4096, beta_fast=1, beta_slow=1, ramp="rotations"), r"beta_fast=1 must be above beta_slow=1"),
    (lambda: YaRN(2, 4096, beta_slow=0), r"beta_slow=0 must be a finite number above 0"),
    (lambda: YaRN(2, 4096, ramp="dimensions"), r"did you mean 'dimension'"),
    (
        lambda: YaRN(2, 4096, ramp="rotations", truncate=False),
        r"truncate=False has no effect with ramp='rotations'",
    ),
    (lambda: YaRN(2, 4096, mscale=1.0), r"mscale=1.0 and mscale_all_dim=None must be passed together"),
    (
        lambda: YaRN(2, 4096, attention_factor=1.0, mscale=1.0, mscale_all_dim=1.0),
        r"attention_factor=1.0 cannot be combined with mscale=1.0",
    ),
    (
        lambda: YaRN(2, 10**7).frequencies(64, 100.0),
        r"every pair is on the same side of the ramp; use ramp='rotations'",
    ),
    (
        lambda: Llama3(low_freq_factor=4, high_freq_factor=1),
        r"low_freq_factor=4 must be at most high_freq_factor=1",
    ),
    (lambda: LongRoPE((1.0,), (1.0, 2.0), 4096, 2), r"short_factors has 1 numbers but long_factors has 2"),
    (lambda: LongRoPE((), (), 4096, 2), r"short_factors=\(\) must be a list of positive numbers"),
    (lambda: PerPair((1.0, -2.0)), r"factors\[1\]=-2.0 must be a finite number above 0"),
    (lambda: PerPair((1.0, 2.0)).frequencies(8, 1e4), r"factors has 2 numbers but must have 4 for rotary_dim=8"),
    (lambda: Proportional(1.5), r"fraction=1.5 must be in 0 … 1"),
    (lambda: from_dict({"scaling": "yarn", "factor": 2, "original_lenght": 5}), r"did you mean 'original_length'"),
    (lambda: from_dict({"scaling": "yarm"}), r"unknown scaling 'yarm'; did you mean 'yarn'"),
    (lambda: from_dict({"scaling": "base", "factor": 5e5}), r"unknown scaling 'base'; did you mean 'ntk'"),
    (lambda: from_dict({"factor": 2}), r"the keys \['factor'\] do not include 'scaling'"),
    (lambda: from_dict({"scaling": "linear"}), "Linear needs factor; add factor=…"),
    (lambda: to_dict("yarn"), r"unknown scaling 'str'"),
    (lambda: NTK(8, form="fixed").base(128, 1e4), "form='fixed' has no equivalent base"),
    (lambda: method("yarm", 8, 4096), "unknown method 'yarm'; did you mean 'yarn'"),
    (
        lambda: planned(DynamicNTK(8, 4096), None),
        "DynamicNTK depends on the length of the request; pass total",
    ),
    (
        lambda: Default().frequencies(0, 1e4),
        "rotary_dim=0 must be even and at least 2, because channels rotate in pairs; use 2",
    ),
    *(
        (lambda base=base: Default().frequencies(8, base), f"base={base} must be finite and above 1")
        for base in (1.0, float("nan"), float("inf"))
    ),
    (
        lambda: posenc.Rotary(8, pairing="half", scaling=DynamicNTK(2, 16)),
        r"must be a Scaling; .* scaling.plan\(total_length\)",
    ),
]


def test_a_method_and_a_factor_make_a_scaling() -> None:
    """Dynamic NTK has the factor that a config would state, and so scales more than NTK at the full length."""
    made = {name: method(name, 8, 4096) for name in METHODS}
    assert made["none"] == method("default", 8, 4096) == Default()
    assert made["linear"] == Linear(8)
    assert (made["ntk"], made["ntk-fixed"]) == (NTK(8), NTK(8, form="fixed"))
    assert made["abf"] == NTK(8, form="abf")
    assert made["abf"].base(128, 1e4) == pytest.approx(500_000, rel=1e-15)
    assert (made["yarn"], made["yarn-paper"]) == (YaRN(8, 4096), YaRN(8, 4096, ramp="rotations"))
    assert (made["llama3"], made["proportional"]) == (Llama3(8, 4096), Proportional(0.25))
    assert made["dynamic"] == DynamicNTK(8, 4096)
    assert planned(made["dynamic"], 8 * 4096) == NTK(8**2 - 8 + 1)
    assert method("yarn", 8, 4096, beta_fast=16) == YaRN(8, 4096, 16)
    assert method("linear", 8, 4096, beta_fast=16) == Linear(8)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_keys_are_stale_where_plans_differ() -> None:
    lists = (1.0, 1.0), (2.0, 3.0)
    for scaling in (DynamicNTK(2.0, 1024), LongRoPE(*lists, 1024, 4)):
        assert not scaling.stale(100, 1024)
        assert scaling.stale(1024, 1025)
    assert DynamicNTK(2.0, 1024).stale(1025, 2048)
