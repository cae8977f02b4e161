"""What ships is right by ``check``, and each planted fault breaks the law that is about it."""

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers.utils import ModelOutput

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import assert_packed, check, positions_callback, read
from posenc.integrations.huggingface.families import FAMILIES, NOT_IN_CONFIG
from posenc.integrations.huggingface.folder import open_model
from posenc.integrations.huggingface.language_model import cached
from posenc.integrations.huggingface.measuring.evidence import untested_windows
from posenc.integrations.huggingface.model_laws import LoadedModel, reads_chunks_as_the_whole
from posenc.laws.check import verdict
from posenc.scaling import Default
from support.pretrained import save_tokenizer
from support.small_models import small
from support.tiny_models import MODELS, SIZES, by_plain_products, tiny, turns_neighbours
from support.trainers import trained

QUICK = ("llama-2-yarn", "phi3", "gemma3", "deepseek-v3", "gpt-neox", "gpt2", "bloom", "bert")
UNPACKED = {"gpt-oss", "falcon"}
"""Families whose code in transformers hands no position ids on to its masks."""


def of_three_axes() -> Any:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    sizes = {**SIZES, "hidden_size": 64, "rope_parameters": rope}
    return transformers.Qwen2VLTextModel(transformers.Qwen2VLTextConfig(**sizes)).eval()


def model_of(family: str) -> Any:
    model = tiny(family) if family in MODELS else of_three_axes() if family == "qwen2-vl" else small(family)
    by_plain_products(model)
    return model


def broken(model: Any, **how: Any) -> set[str]:
    return {verdict.law for verdict in check(model, **how).broken}


@pytest.mark.parametrize(
    "family",
    [
        *QUICK,
        "qwen2-vl",
        "t5",
        *(pytest.param(one, marks=pytest.mark.slow) for one in (*sorted({*MODELS} - {*QUICK}), "roberta")),
    ],
)
@pytest.mark.usefixtures("recent_transformers")
def test_models_that_ship_are_right(family: str) -> None:
    report = check(model_of(family), packed=family not in UNPACKED)
    assert report.ok, report
    assert "0 broken, 0 ended in an error" in str(report)


def positions_given(model: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """A model whose trunk is given something else: it is changed on its way in."""

    def changed(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        change(kwargs)
        return args, kwargs

    model.base_model.register_forward_pre_hook(changed, with_kwargs=True)
    return model


def past(kwargs: dict[str, Any]) -> int:
    return max((int(cache.get_seq_length()) for cache in cached(kwargs).values()), default=0)


def ignores_the_mask() -> Any:
    return positions_given(tiny("llama-2"), lambda kwargs: kwargs.update(attention_mask=None))


def counts_chunks_anew() -> Any:
    def anew(kwargs: dict[str, Any]) -> None:
        if past(kwargs) and kwargs["input_ids"].shape[1] > 1:
            kwargs["position_ids"] = torch.arange(kwargs["input_ids"].shape[1])[None]

    return positions_given(tiny("llama-2"), anew)


def is_one_off_beside_a_cache() -> Any:
    def one_off(kwargs: dict[str, Any]) -> None:
        if past(kwargs) and kwargs.get("position_ids") is not None:
            kwargs["position_ids"] = kwargs["position_ids"] + 1

    return positions_given(tiny("llama-2"), one_off)


def with_values(family: str, **values: Any) -> Any:
    """A model whose modules have other values wherever they have one of this name."""
    model = tiny(family)
    for module, name in [(m, name) for m in model.modules() for name in values if hasattr(m, name)]:
        setattr(module, name, values[name])
    return model


def turns_in_16_bits() -> Any:
    model = tiny("llama-2").to(torch.bfloat16)
    rotary, fresh = model.model.rotary_emb, tiny("llama-2").model.rotary_emb
    rotary.inv_freq, rotary.original_inv_freq = fresh.inv_freq, fresh.original_inv_freq

    def forward(x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angles = (position_ids[..., None].to(x.dtype) * rotary.inv_freq.to(x.dtype)).repeat(1, 1, 2)
        return angles.cos(), angles.sin()

    rotary.forward = forward
    return model


def with_a_table(rows: int, clamped: bool) -> Any:
    model = tiny("llama-2")
    rotary = model.model.rotary_emb
    cos, sin = (x[0] for x in rotary(torch.zeros(1), torch.arange(rows)[None]))

    def forward(x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        at = position_ids.clamp(max=rows - 1) if clamped else position_ids
        return cos[at], sin[at]

    rotary.forward = forward
    return model


FREQUENCIES = {"does_what_its_config_says", "holds_the_buffers_that_its_code_makes"}


def with_base(family: str, base: float) -> Any:
    return with_values(family, inv_freq=torch.tensor(Default().frequencies(16, base).float32))


FAULTS: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "ignores padding": (
        lambda: positions_given(tiny("gpt2"), lambda kwargs: kwargs.update(position_ids=None)),
        {"reads_padded_texts_as_each_alone", "generates_as_without_a_cache"},
    ),
    "ignores the mask": (ignores_the_mask, {"generates_as_without_a_cache"}),
    "counts chunks anew": (counts_chunks_anew, {"reads_chunks_as_the_whole"}),
    "is one off beside a cache": (is_one_off_beside_a_cache, {"generates_as_without_a_cache"}),
    "forgets the factor": (partial(with_values, "llama-2-yarn", attention_scaling=1.0), FREQUENCIES),
    "forgets 1/√D": (partial(with_values, "llama-2", scaling=1.0), {"does_what_its_config_says"}),
    "sees the future": (partial(with_values, "llama-2", is_causal=False), {"does_what_its_config_says"}),
    "stops counting": (partial(with_a_table, 60, clamped=True), {"does_what_its_config_says"}),
    "has the default base": (partial(with_base, "smollm2", 1e4), FREQUENCIES),
    "ignores its scaling": (partial(with_base, "llama-3.1", 5e5), FREQUENCIES),
    "holds garbage": (
        partial(with_values, "llama-2", inv_freq=torch.tensor([float("nan"), 3e38, -1e-30, 0.0] * 2)),
        {"holds_the_buffers_that_its_code_makes"},
    ),
    "holds garbage beside": (
        partial(with_values, "llama-2", original_inv_freq=torch.zeros(8)),
        {"holds_the_buffers_that_its_code_makes"},
    ),
    "was cast to 16 bits": (
        partial(tiny, "llama-2", torch.bfloat16),
        {"rounds_no_frequency_to_16_bits", "does_what_its_config_says"},
    ),
    "was cast and back": (
        lambda: tiny("llama-2", torch.bfloat16).float(),
        {"rounds_no_frequency_to_16_bits", "does_what_its_config_says"},
    ),
    "turns in 16 bits": (turns_in_16_bits, {"rounds_no_frequency_to_16_bits"}),
    "has a short table": (partial(with_a_table, 250, clamped=False), {"reaches_the_length_of_its_config"}),
    "has a short table that saturates": (
        partial(with_a_table, 250, clamped=True),
        {"reaches_the_length_of_its_config"},
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("recent_transformers")
def test_a_planted_fault_breaks_the_law_that_is_about_it(fault: str) -> None:
    make, laws = FAULTS[fault]
    report = check(make())
    assert laws <= {verdict.law for verdict in report.broken}, report
    assert laws != FREQUENCIES or "BROKEN  rounds" not in str(report)
    assert all(verdict.remedy and verdict.detail for verdict in report.broken)


def swaps_pairs(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(code_of("llama"), "apply_rotary_pos_emb", turns_neighbours)
    return tiny("llama-2")


def takes_axes_for_texts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its masks are made of the first axis, where that is no count of tokens."""
    rows: list[Tensor] = []

    def keep(kwargs: dict[str, Any]) -> None:
        at = kwargs.get("position_ids")
        rows[:] = [] if at is None or len(at) != 3 else [at[0]]

    model = with_masks("qwen2_vl", lambda at: rows[0] if rows else at, monkeypatch)
    return positions_given(model, keep)


def sees_past_its_window(monkeypatch: pytest.MonkeyPatch) -> Any:
    code = code_of("gemma3")
    monkeypatch.setattr(code, "create_sliding_window_causal_mask", code.create_causal_mask)
    return tiny("gemma3")


def with_keys(change: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model whose keys rotate differently from its queries."""
    turn = code_of("llama").apply_rotary_pos_emb
    monkeypatch.setattr(
        code_of("llama"),
        "apply_rotary_pos_emb",
        lambda q, k, *by, **more: (turn(q, k, *by)[0], change(partial(turn, q), k, *by)),
    )
    return tiny("llama-2")


def code_of(name: str) -> Any:
    return sys.modules[f"transformers.models.{name}.modeling_{name}"]


def with_masks(name: str, change: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model whose masks are made of other position ids."""
    model = tiny("llama-2") if name == "llama" else of_three_axes()
    before = code_of(name).create_causal_mask
    monkeypatch.setattr(
        code_of(name),
        "create_causal_mask",
        lambda *args, position_ids=None, **more: before(*args, position_ids=change(position_ids), **more),
    )
    return model


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        (swaps_pairs, "does_what_its_config_says"),
        (partial(with_masks, "llama", lambda at: None), "reads_packed_texts_as_each_alone"),
        (takes_axes_for_texts, "sees_across_positions_that_stand_still"),
        (sees_past_its_window, "does_what_its_config_says"),
        (partial(with_keys, lambda turn, k, *by: k), "does_what_its_config_says"),
        (partial(with_keys, lambda turn, k, *by: turn(turn(k, *by)[1], *by)[1]), "does_what_its_config_says"),
        (
            partial(with_keys, lambda turn, k, *by: turn(turn(k, *by)[1], *(x[:, 1:2] for x in by))[1]),
            "does_what_its_config_says",
        ),
    ],
    ids=["pairs", "packed texts", "axes", "window", "no keys", "keys twice", "keys ahead"],
)
@pytest.mark.usefixtures("recent_transformers")
def test_code_with_a_fault_breaks_the_law_that_is_about_it(
    fault: Callable[[pytest.MonkeyPatch], Any], law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny("llama-2"), tiny("gemma3")  # so that their code is loaded
    assert law in broken(fault(monkeypatch))


@pytest.mark.parametrize("family", ["llama-2-yarn", "phi3"])
def test_a_model_is_left_as_it_was(family: str) -> None:
    model = tiny(family).train()
    model.model.layers[0].eval()
    attributes = {name: {**vars(one)} for name, one in model.named_modules()}
    buffers, state, config = (
        {name: (one, one.clone()) for name, one in model.named_buffers()},
        copy.deepcopy(model.state_dict()),
        copy.deepcopy(model.config),
    )
    torch.manual_seed(3)
    drawn = torch.rand(3)
    torch.manual_seed(3)
    assert check(model).ok
    assert torch.equal(torch.rand(3), drawn)
    assert all(vars(one).keys() == attributes[name].keys() for name, one in model.named_modules())
    assert all(one.training == attributes[name]["training"] for name, one in model.named_modules())
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())
    assert all((one is buffers[name][0]) & torch.equal(*buffers[name]) for name, one in model.named_buffers())
    assert all(torch.equal(one, state[name]) for name, one in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert model.config.to_dict() == config.to_dict()


def test_16_bit_weights_are_checked_as_float32_where_frequencies_stayed() -> None:
    model = tiny("llama-2")
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    report = check(model)
    assert report.ok, report
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_what_is_not_owed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def reasons(model: Any, **how: Any) -> dict[str, str]:
        return {verdict.law: f"{verdict.outcome}: {verdict.detail}" for verdict in check(model, **how).verdicts}

    bert, llama = reasons(tiny("bert")), reasons(tiny("llama-2"), packed=False)
    assert bert["reads_chunks_as_the_whole"] == "not owed: it is not causal"
    assert llama["reads_packed_texts_as_each_alone"] == "not asked: packed=False"
    assert llama["sees_across_positions_that_stand_still"] == "not owed: its positions have one axis"
    monkeypatch.delitem(FAMILIES, "llama")
    monkeypatch.setitem(NOT_IN_CONFIG, "llama", "rotates as it likes")
    unread = reasons(tiny("llama-2"))["does_what_its_config_says"]
    assert unread.startswith("not asked: model_type 'llama'"), unread
    monkeypatch.undo()
    monkeypatch.setattr("posenc.integrations.huggingface.model_laws.free_memory", lambda device: 0)
    assert "a float32 copy does not fit" in reasons(tiny("llama-2", torch.bfloat16))["does_what_its_config_says"]
    report = str(check(tiny("llama-2"), packed=False))
    assert "1 do not apply, 1 were not tested" in report
    assert "4,096 tokens were" in untested_windows(
        replace(read(tiny("mistral").config), windows=(4096, 22), max_length=8192)
    )
    assert "  ?     reads_packed_texts_as_each_alone: packed=False" in report
    for wrong, message in (
        (42, "model is a int; load it first"),
        (small("vit"), "ViTModel does not take token ids; its first argument is pixel_values"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            check(wrong)


def test_a_tokenizer_that_pads_on_the_right_is_found_out(tmp_path: Path) -> None:
    save_tokenizer(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert "reads_padded_texts_as_each_alone" in broken(tiny("llama-2"), tokenizer=tokenizer)  # it has no padding
    tokenizer.pad_token = "?"
    tokenizer.padding_side = "left"
    assert check(tiny("llama-2"), tokenizer).ok
    tokenizer.padding_side = "right"
    assert broken(tiny("llama-2"), tokenizer=tokenizer) == {"generates_as_without_a_cache"}


def test_a_trainer_refuses_a_model_with_a_fault_before_its_first_step(tmp_path: Path) -> None:
    assert trained(tmp_path, tiny("llama-2"), positions_callback()).state.global_step == 4
    faulty = ignores_the_mask()
    before = copy.deepcopy(faulty.state_dict())
    with pytest.raises(AssertionError, match="BROKEN  generates_as_without_a_cache"):
        trained(tmp_path, faulty, positions_callback())
    assert all(torch.equal(one, before[name]) for name, one in faulty.state_dict().items())


def test_packed_lengths_are_those_of_the_position_ids() -> None:
    at = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 0]])
    lengths = torch.tensor([0, 4, 7, 8])
    assert_packed(at, lengths)
    assert_packed(at.expand(3, 1, -1), lengths)
    assert_packed(torch.arange(4).repeat(2, 1), torch.tensor([0, 4, 8]))
    picture = torch.tensor([[[0, 1, 1, 1, 0, 1]], [[0, 1, 1, 2, 0, 1]], [[0, 1, 2, 1, 0, 1]]])
    assert_packed(picture, torch.tensor([0, 4, 6]))
    for ids, ends, message in (
        (
            picture,
            [0, 6, 12, 18],
            r"6, the number of tokens: an axis of position_ids \(3, 1, 6\) is not a text; pass the start",
        ),
        (at, [0, 4, 7], r"cu_seqlens \[0, 4, 7\] does not increase from 0 to 8, the number of tokens; pass"),
        (at, [0, 4, 4, 8], "does not increase from 0 to 8, the number of tokens; pass the start"),
        (at, [0, 4, 8, 8], "does not increase from 0 to 8, the number of tokens; pass the start"),
        (at, [], r"cu_seqlens \[\] does not increase from 0 to 8"),
        (at, [0, 5, 7, 8], r"token 4 has position \[0\] but is at index 4 of its text; restart position ids"),
        (at, [0, 8], "token 4 has position"),
        (picture, [0, 3, 6], r"token 3 has position \[1, 2, 1\] but is at index 0 of its text"),
        (torch.tensor([[0, 1, 3]]), [0, 3], r"token 2 has position \[3\] but is at index 2"),
    ):
        with pytest.raises(AssertionError, match=message):
            assert_packed(ids, torch.tensor(ends))


@pytest.mark.real
def test_a_released_model_is_right(smollm: Path) -> None:
    """SmolLM2's tokenizer pads on the right until told otherwise."""
    model, tokenizer = open_model(smollm, torch.float32)
    assert broken(model, tokenizer=tokenizer) == {"generates_as_without_a_cache"}
    tokenizer.padding_side = "left"
    report = check(model, tokenizer)
    assert report.ok, report
    model.model.rotary_emb.inv_freq = torch.as_tensor(Default().frequencies(64, 1e4).float32)
    assert "does_what_its_config_says" in broken(model, tokenizer=tokenizer)


def renamed(model: Any, key: str | None) -> LoadedModel:
    """A model whose cache has another name, on the way in and on the way out; None gives none."""
    before = model.forward
    (own,) = cached(before(torch.arange(4, 6)[None], use_cache=True))

    def forward(input_ids: Tensor, use_cache: bool = True, **given: Any) -> Any:
        cache = {own: given.pop(key)} if key in given else {}
        output = dict(before(input_ids, use_cache=use_cache, **cache, **given))
        kept = output.pop(own, None)
        return ModelOutput(output if key is None or kept is None else {**output, key: kept})

    model.forward = forward
    return LoadedModel(model)


@torch.no_grad()
@pytest.mark.parametrize("key", ["past_key_values", "cache", "anything"])
def test_a_cache_is_handed_back_under_the_key_that_gave_it(key: str) -> None:
    assert verdict(reads_chunks_as_the_whole, renamed(tiny("llama-2"), key)).outcome == "kept"
    assert verdict(reads_chunks_as_the_whole, renamed(counts_chunks_anew(), key)).outcome == "broken"


@torch.no_grad()
def test_a_model_that_gives_no_cache_is_not_asked() -> None:
    """Which is no law that does not apply: it may be broken."""
    said = verdict(reads_chunks_as_the_whole, renamed(tiny("llama-2"), None))
    assert (said.outcome, said.detail[:29]) == ("not asked", "its output has no transformer")


@pytest.mark.usefixtures("recent_transformers")
def test_whose_fault_it_is_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's, where one built anew of its config does what was read; else its code's, or the reader's."""
    alone = check(with_base("smollm2", 1e4))
    assert "(only this model: a new one built from its config agrees with posenc's reading of the config)" in str(
        alone
    )
    assert "(a new model built from its config differs from posenc's reading of the config too)" in str(
        check(swaps_pairs(monkeypatch))
    )
