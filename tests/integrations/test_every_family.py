"""Every family that is read: measured as it was read, and the same answers with its own positions put in for it."""

import inspect
import math
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from tools.walk_type import corrected_since
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from posenc.encodings.encoding import Encoding
from posenc.errors import InvalidArgument, PosencError
from posenc.integrations.huggingface import patched, read
from posenc.integrations.huggingface.families import FAMILIES, parse
from posenc.integrations.huggingface.language_model import cached
from posenc.integrations.huggingface.measuring import differences, measure
from posenc.integrations.huggingface.measuring.probe import shown
from support.places import ROOT
from support.small_models import answers, check_swapped, other, own, small

SAMPLE = ("arcee", "bart", "cohere2", "deepseek_v3", "pixtral", "t5", "umt5", "vit", "whisper")
HERE = [name for name in FAMILIES if name in CONFIG_MAPPING]  # an older transformers has not all of them


def changed() -> set[str]:
    """Families whose entry is another than in the commit before, or in that of POSENC_SINCE; none without git."""
    table = "src/posenc/integrations/huggingface/families.toml"
    command = ["git", "show", f"{os.environ.get('POSENC_SINCE', 'HEAD~1')}:{table}"]
    try:
        text = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, encoding="utf-8").stdout
        before = parse(text)
    except (OSError, subprocess.CalledProcessError, PosencError):
        return set()
    return {name for name, family in FAMILIES.items() if before.get(name) != family}


MEASURED = {*SAMPLE, *changed()}
"""Families that every run of the tests measures; ``make slow`` measures the others."""
ELSEWHERE = {"arcee", "cohere2", "pixtral", "t5", "vit", "whisper"}
"""Those that test_measure.py and test_shown.py measure in every run."""
SWAPPED = [
    pytest.param(name, marks=[] if name in MEASURED else pytest.mark.slow)
    for name in HERE
    if FAMILIES[name].kind in ("rotary", "t5") and FAMILIES[name].layout is None
]


@contextmanager
def put_in(model: Any, encodings: dict[str, Encoding]) -> Iterator[None]:
    """``patched``; skips the test for what it refuses: T5 in older transformers, and angles from tables."""
    try:
        with patched(model, encodings):
            yield
    except InvalidArgument as error:
        if not any(
            told in str(error)
            for told in ("does not use transformers' attention interface", "looks its angles up in tables")
        ):
            raise
        pytest.skip(str(error))


def texts(model: Any) -> dict[str, torch.Tensor]:
    """Two texts, or sounds for a model that takes none, and where the model decodes what it decodes."""
    ids = torch.randint(4, 60, (2, 12), generator=torch.Generator().manual_seed(3))
    takes = inspect.signature(model.forward).parameters
    given = {"input_ids": ids} if "input_ids" in takes else shown(model).given(1, False, 0)
    rows = len(next(iter(given.values()))) if model.config.is_encoder_decoder else 0
    return {**given, "decoder_input_ids": ids[:rows, :9]} if rows else given


@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=[] if name in MEASURED - ELSEWHERE else pytest.mark.slow) for name in HERE],
)
def test_a_family_does_what_is_read_of_it(family: str) -> None:
    model = small(family)
    positions = read(model.config)
    if corrected_since(positions):
        pytest.skip(positions.known_issues[-1])
    assert differences(measure(model), positions) == []


@pytest.mark.parametrize("family", SWAPPED)
def test_the_same_answers_with_its_own_positions_and_others_with_others(family: str) -> None:
    model = small(family)
    encodings = own(model, 12)
    if not any(encoding.acts_on for encoding in encodings.values()):
        pytest.skip("no positions")
    given = texts(model)
    calls: list[dict[str, Any]] = [given]
    if "input_ids" in given:
        padded = torch.ones_like(given["input_ids"])
        padded[1, :4] = 0
        calls.append({**given, "attention_mask": padded})
    with put_in(model, encodings):  # or it is skipped
        pass
    # Angles are bit for bit the same, and sums may come in another order: n roundings of 2^-24 to either side,
    # √n·2^-24 together, and in the worst of some thousands of numbers four times that. n counts the sums that
    # lead to a number of the answer, one map after the other.
    roundings = sum(weight.shape[-1] for weight in model.parameters() if weight.dim() == 2)
    for call in calls:
        one = answers(model, **call)
        seen = torch.ones(one.shape[:2], dtype=torch.bool)
        mask = call.get("attention_mask", seen).bool()
        if "decoder_input_ids" not in call and mask.shape == seen.shape:  # padding is the encoder's there
            seen &= mask
        most = 4 * math.sqrt(roundings) * 2.0**-24 * float(one.abs().max())
        answer = partial(lambda call, seen: answers(model, **call)[seen], call, seen)
        check_swapped(model, encodings, other(own(model, 12)), answer, most=most)


def in_parts(model: Any, given: dict[str, torch.Tensor]) -> torch.Tensor:
    """What the model says of the last tokens where a cache has the first; skipped where it keeps none."""
    key = "decoder_input_ids" if "decoder_input_ids" in given else "input_ids"
    if key not in given or "use_cache" not in inspect.signature(model.forward).parameters:
        pytest.skip("no cache")
    rest, ids = {name: one for name, one in given.items() if name != key}, given[key]
    with torch.no_grad():
        try:
            first = model(**rest, **{key: ids[:, :6]}, use_cache=True)
        except ValueError as error:  # Switch's encoder, to which it is handed on
            if "`use_cache` can only be set" not in str(error):
                raise
            pytest.skip("no cache")
        caches = cached(first) if isinstance(first, Mapping) else {}  # BLT's patcher returns a tuple, without one
        if not caches:
            pytest.skip("no cache")
        last: torch.Tensor = model(**rest, **{key: ids[:, 6:]}, **caches, use_cache=True)[0]
    return last.float()


@pytest.mark.parametrize("family", SWAPPED)
def test_the_same_answers_with_a_cache(family: str) -> None:
    model = small(family)
    given, encodings = texts(model), own(model, 12)
    if not any(encoding.acts_on for encoding in encodings.values()):
        pytest.skip("no positions")
    with put_in(model, encodings):  # or it is skipped
        pass
    check_swapped(model, encodings, other(own(model, 12)), lambda: in_parts(model, given), least=0.0)


@pytest.mark.parametrize("additive", [False, True])
def test_t5_takes_masks_of_which_every_query_has_its_own(additive: bool) -> None:
    """Two documents in a row, as the unpatched model has them, and as each document has them alone."""
    model = small("t5")
    ids = texts(model)["input_ids"]
    B, T = ids.shape
    document = torch.arange(T) // 5
    packed = (document[:, None] == document).expand(B, 1, T, T)
    keys = torch.ones(B, T, dtype=torch.int64)
    keys[1, :4] = keys[0, 9:] = 0
    for stack, before in ((model.encoder, T), (model.decoder, 0)):
        allowed = packed & torch.ones(T, T, dtype=torch.bool).tril(before)
        added = torch.zeros(B, 1, T, T).masked_fill(~allowed, torch.finfo(torch.float32).min)
        with torch.no_grad():
            want = stack(input_ids=ids, attention_mask=added)[0]
            with put_in(model, own(model, 12)):
                stack(input_ids=ids, attention_mask=keys)
                got = stack(input_ids=ids, attention_mask=added if additive else allowed)[0]
                alone = stack(input_ids=ids[:, :5])[0]
                with pytest.raises(InvalidArgument, match="changes scores without hiding keys"):
                    stack(input_ids=ids, attention_mask=added + 0.5)
        for wanted, mine in ((want, got), (alone, got[:, :5])):
            torch.testing.assert_close(mine, wanted, rtol=0, atol=2e-5 * float(want.abs().max()))
