"""Mutated configs are refused with a message or read as transformers reads them: nothing else ever happens."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product

import pytest
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.errors import InvalidArgument, PosencError
from posenc.integrations.huggingface.schema import KEYS, RARE
from support import fuzzing

WHOLE, SAMPLE, PARTS = 100_000, 200, 8
FEW = fuzzing.HERE[::11]
"""Families of the sample; the whole has all of them."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    import logging
    import warnings

    with warnings.catch_warnings():
        fuzzing.quiet()
        yield
    logging.disable(logging.NOTSET)


def wrong(count: int, first: int, families: Sequence[str] = FEW) -> list[tuple[str, object]]:
    return [(said, config) for said, config, _ in fuzzing.run(count, first, families) if said.startswith("WRONG")]


def test_a_sample_of_mutated_configs() -> None:
    assert not wrong(SAMPLE, 0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_thousand_mutated_configs(part: int) -> None:
    assert not wrong(WHOLE // PARTS, part * (WHOLE // PARTS), fuzzing.HERE)


def test_a_slice_that_rotates_and_its_share_of_a_head_must_agree() -> None:
    """Mistral 4's module takes the share of head_dim, and its attention the slice."""
    seed = next(one for one in fuzzing.seeds("mistral4") if "partial_rotary_factor" in one["rope_parameters"])
    wrong = fuzzing.as_object({**seed, "head_dim": 1}, seed)
    with pytest.raises(InvalidArgument, match=r"of head_dim=1 contradicts qk_rope_head_dim=64; correct one"):
        fuzzing.read(wrong)
    unstated = {key: value for key, value in seed["rope_parameters"].items() if key != "partial_rotary_factor"}
    with pytest.raises(InvalidArgument, match=r"partial_rotary_factor=1.0 of head_dim=128 contradicts"):
        fuzzing.read(fuzzing.as_object({**seed, "rope_parameters": unstated}, seed))
    assert fuzzing.read({**seed, "rope_parameters": unstated}).rotary.get("head_dim") == 64
    for junk in (float("nan"), "half", [1]):
        stated = {**seed["rope_parameters"], "partial_rotary_factor": junk}
        with pytest.raises(InvalidArgument, match="partial_rotary_factor="):
            fuzzing.read(fuzzing.as_object({**seed, "rope_parameters": stated}, seed))


ODD = (None, [], 0, "x", 1.5, True, {})


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[] if name == "jamba" else pytest.mark.slow) for name in fuzzing.HERE]
)
def test_an_object_with_an_odd_value_is_read_or_refused(family: str) -> None:
    """A class may compute what is read from a value that only its constructor checks."""
    keys = vars(CONFIG_MAPPING[family]()).keys() & {*KEYS, *RARE, "attn_layer_period"}
    for key, value in product(sorted(keys), ODD):
        made = CONFIG_MAPPING[family]()
        vars(made)[key] = value
        with suppress(PosencError):
            fuzzing.read(made)


def test_stacks_that_rotate_must_have_equal_heads() -> None:
    """Moonshine has one rotary module a stack, whose channels are those of its heads."""
    seed = fuzzing.seeds("moonshine")[-1]
    with pytest.raises(InvalidArgument, match=r"decoder_num_attention_heads=4 .* but its encoder has 8"):
        fuzzing.read({**seed, "decoder_num_attention_heads": 4})


def test_the_fuzz_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that halves every base, and one that breaks, are found out."""
    right, _ = fuzzing.read, [fuzzing.seeds(family) for family in FEW]

    def broken(given: object) -> object:
        return 1 / 0

    monkeypatch.setattr(fuzzing, "read", broken)
    assert wrong(5, 1)
    monkeypatch.setattr(fuzzing, "read", lambda given: right(given).with_scaling(fuzzing.LINEAR))
    assert {said for said, _ in wrong(60, 1)} == {"WRONG: tables differ"}
