"""Every scaling against transformers' function of the same formula, to the last bit in float32."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from posenc.errors import InvalidArgument
from posenc.scaling import (
    NTK,
    Default,
    DynamicNTK,
    Frequencies,
    Linear,
    Llama3,
    LongRoPE,
    Proportional,
    Scaling,
    YaRN,
)
from posenc.scaling.scaling import unscaled_float32
from support.scaling_oracle import check_same, theirs

DIMS = st.integers(2, 128).map(lambda n: 2 * n)
BASES = st.one_of(st.sampled_from([1e4, 1e5, 5e5, 1e6, 1.5e8]), st.floats(50.0, 1e7))
FACTORS = st.one_of(st.sampled_from([1, 2.0, 4.0, 8.0, 16, 32.0, 40.0]), st.floats(1.0, 64.0))
LENGTHS = st.integers(256, 300_000)


def close(ours: Frequencies, bound: float) -> None:
    """The exact part equals the float32 part within ``bound`` relative."""
    for exact, rounded in zip(ours.exact, ours.float32, strict=True):
        assert abs(float(exact) - rounded) <= bound * float(exact)


def ladder_error(base: float) -> float:
    """Rounding of a float32 ladder: the exponent (times ln base), and a handful of operations."""
    return 2.0**-24 * (math.log(base) + 8)


@given(DIMS, BASES, FACTORS)
def test_default_linear_and_ntk(dim: int, base: float, factor: float) -> None:
    check_same(Default().frequencies(dim, base), theirs("default", dim, base))
    check_same(Linear(factor).frequencies(dim, base), theirs("linear", dim, base, factor=factor))
    ntk = NTK(factor)
    check_same(ntk.frequencies(dim, base), theirs("default", dim, ntk.base(dim, base)))
    for each in (Default(), Linear(factor), ntk, NTK(factor, form="fixed")):
        close(each.frequencies(dim, base), ladder_error(base * factor))
    larger = NTK(factor, form="abf")
    check_same(larger.frequencies(dim, base), theirs("default", dim, larger.base(dim, base)))


@given(DIMS, BASES, FACTORS, LENGTHS, st.floats(0.1, 8.0))
def test_dynamic(dim: int, base: float, factor: float, length: int, stretch: float) -> None:
    total = max(1, int(length * stretch))
    ours = DynamicNTK(factor, length).plan(total).frequencies(dim, base)
    check_same(ours, theirs("dynamic", dim, base, length, seq_len=total, factor=factor))


@given(DIMS, BASES, FACTORS, LENGTHS, st.floats(4, 64), st.floats(0.2, 3), st.booleans())
def test_yarn(dim: int, base: float, factor: float, length: int, fast: float, slow: float, truncate: bool) -> None:
    scaling = YaRN(factor, length, beta_fast=fast, beta_slow=slow, truncate=truncate)
    ramp = {"beta_fast": fast, "beta_slow": slow, "truncate": truncate}
    try:
        ours = scaling.frequencies(dim, base)
    except InvalidArgument:  # the ends cross: transformers runs the ramp backwards there
        reject()
    parameters = {"factor": factor, "original_max_position_embeddings": length, **ramp}
    check_same(ours, theirs("yarn", dim, base, length, **parameters))
    assert scaling.softmax_factor == 1
    # A share g is off by a few units of 2^−24, and weighs at most `factor` times against θ/factor.
    low, high = scaling.ends(dim, base)
    steep = 1 if high - low > 0.5 else 1e3
    close(ours, ladder_error(base) + 2.0**-24 * 8 * factor * steep * max(1, high))


@given(DIMS, BASES, FACTORS, st.floats(0.1, 2), st.floats(0.1, 2))
def test_deepseek_pair(dim: int, base: float, factor: float, one: float, other: float) -> None:
    ours = YaRN(factor, 4096, mscale=one, mscale_all_dim=other, ramp="rotations")
    parameters = {"factor": factor, "original_max_position_embeddings": 4096}
    _, attention_factor = theirs("yarn", dim, base, **parameters, mscale=one, mscale_all_dim=other)
    assert ours.scale == pytest.approx(attention_factor, rel=2**-50)
    assert ours.softmax_factor == pytest.approx((0.1 * other * math.log(factor) + 1) ** 2)


@given(DIMS, BASES, FACTORS, LENGTHS, st.data())
def test_longrope(dim: int, base: float, factor: float, length: int, data: st.DataObject) -> None:
    lists = st.lists(st.floats(0.5, 64), min_size=dim // 2, max_size=dim // 2)
    short, long = data.draw(lists), data.draw(lists)
    stated = data.draw(st.none() | st.floats(0.5, 2))
    scaling = LongRoPE(tuple(short), tuple(long), length, factor, attention_factor=stated)
    parameters = {"factor": factor, "original_max_position_embeddings": length, "attention_factor": stated}
    for total in (1, length, length + 1, 3 * length):
        want = theirs("longrope", dim, base, seq_len=total, short_factor=short, long_factor=long, **parameters)
        ours = scaling.plan(total).frequencies(dim, base)
        check_same(ours, want)
        close(ours, ladder_error(base))


@given(DIMS, BASES, FACTORS, LENGTHS, st.floats(0.5, 4), st.floats(0.5, 8))
def test_llama3(dim: int, base: float, factor: float, length: int, low: float, width: float) -> None:
    ours = Llama3(factor, length, low, low + width).frequencies(dim, base)
    parameters = {"factor": factor, "original_max_position_embeddings": length, "low_freq_factor": low}
    check_same(ours, theirs("llama3", dim, base, high_freq_factor=low + width, **parameters))
    # The turns r state the ladder's error; as a share of the ramp it weighs at most `factor` times.
    close(ours, ladder_error(base) * (1 + factor * (low + width) / width))


@given(DIMS, BASES, FACTORS, st.floats(0, 1))
def test_proportional(dim: int, base: float, factor: float, fraction: float) -> None:
    ours = Proportional(fraction, factor).frequencies(dim, base)
    check_same(ours, theirs("proportional", dim, base, factor=factor, partial_rotary_factor=fraction))
    close(ours, ladder_error(base))


YARN = YaRN(16.0, 4096)


class Inverted(Scaling):
    """YaRN with its ramp the wrong way round: fast pairs interpolated, slow ones kept."""

    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        right, plain = YARN.frequencies(rotary_dim, base), unscaled_float32(rotary_dim, base).tolist()
        wrong = tuple(p / 16 + p - f for f, p in zip(right.float32, plain, strict=True))
        return Frequencies(right.exact, wrong, right.attention_factor)


class Dropped(Scaling):
    """YaRN without its attention factor."""

    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        return replace(YARN.frequencies(rotary_dim, base), attention_factor=1.0)


@pytest.mark.parametrize("mutant", [Inverted(), Dropped(), replace(YARN, truncate=False)])
def test_broken_yarn_is_rejected(mutant: Scaling) -> None:
    want = theirs("yarn", 128, 1e4, factor=16.0, original_max_position_embeddings=4096)
    check_same(YARN.frequencies(128, 1e4), want)
    with pytest.raises(AssertionError):
        check_same(mutant.frequencies(128, 1e4), want)
