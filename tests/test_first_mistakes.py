"""The first mistakes of newcomers: each error says what to write instead."""

import pickle
from collections.abc import Callable
from dataclasses import fields
from inspect import signature

import pytest
import torch

import posenc
from posenc.encodings.layers import Layers
from posenc.errors import InvalidArgument
from posenc.integrations import huggingface
from posenc.mask import Mask
from posenc.positions import arange, multimodal
from posenc.scaling import DynamicNTK, YaRN

Q = torch.randn(2, 8, 10, 64)
ROPE = posenc.Rotary(64, pairing="half")
FOX = posenc.FoX(512, 8)
LAYERED = Layers({"rope": ROPE}, ("rope",))
PLACED = ROPE.at(arange(10))
TRUE = torch.ones(10, 10, dtype=torch.bool)
PLACE_FIRST = r"this encoding has no positions yet; place it first: placed = encoding.at\(posenc.positions.arange"
YARN = "known: factor, original_length, "

MISTAKES: list[tuple[Callable[[], object], str]] = [
    *(
        (lambda act=act, encoding=encoding: act(encoding), PLACE_FIRST)
        for encoding in (ROPE, FOX, LAYERED, posenc.Stack(ROPE), posenc.NoPE())
        for act in (
            lambda encoding: encoding.rotate(Q, Q),
            lambda encoding: encoding.embed(Q[:, 0]),
            lambda encoding: encoding.with_content(Q[:, 0], None),
            lambda encoding: encoding(Q, k=Q),
        )
    ),
    (lambda: YaRN(factor=4), "YaRN needs original_length; add original_length="),
    (lambda: YaRN(), "YaRN needs factor; add factor="),
    (
        lambda: YaRN(4, 4096, factor_attention=2),
        f"argument of YaRN 'factor_attention'; {YARN}",
    ),
    (lambda: YaRN(4, original_max_position_embeddings=8), f"did you mean 'original_length'. {YARN}"),
    (lambda: YaRN(*range(20)), "YaRN: too many positional arguments; pass arguments by name: factor, "),
    (lambda: DynamicNTK(factor=2), "DynamicNTK needs original_length"),
    (lambda: Mask(sliding_window=4), "argument of Mask 'sliding_window'; did you mean 'window'. known: causal, q"),
    (lambda: Mask(is_causal=True), "did you mean 'causal'"),
    (lambda: Mask(attention_mask=TRUE), r"key_mask=attention_mask.bool\(\)"),
    (lambda: posenc.attention(Q, Q, Q, PLACED, attention_mask=TRUE), r"key_mask=attention_mask.bool\(\)"),
    (lambda: posenc.encoding("a" * 300), "unknown encoding 'aaa"),  # too long for the name of a file
    (lambda: posenc.Rotary(dim=64), "argument of Rotary 'dim'; did you mean 'head_dim'"),
    (lambda: posenc.Sinusoidal(dim=64), "argument of Sinusoidal 'dim'; did you mean 'width'"),
    (lambda: posenc.ALiBi(num_attention_heads=4), "did you mean 'heads'"),
    (lambda: multimodal(["hello"], "qwen2-vl"), r"spans\[0\] is 'hello'; expected a Text, Image or Video"),
    (lambda: Mask(key_mask=TRUE[0]), r"\(10,\); expected bool \(B, S\), true for .* seen; pass key_mask\[None\]$"),
    (lambda: Mask(key_mask=TRUE[0].long()), r"pass key_mask.bool\(\)$"),
    (lambda: Mask(dense=TRUE), r"may see the key; pass dense\[None, None\]$"),
    (lambda: Mask(dense=TRUE[None]), r"pass dense\[:, None\] for one mask per row of the batch, or dense\[None\]"),
    (lambda: Mask(dense=TRUE[None, None].float()), r"may see the key; for an additive mask, pass dense == 0$"),
    (lambda: Mask(dense=TRUE[None, None, None]), "may see the key; remove the other axes$"),
    *(
        (lambda scaling=scaling: posenc.Rotary(64, pairing="half", scaling=scaling), "such as posenc.scaling.YaRN")
        for scaling in ("yarn(4, 4096)", {"rope_type": "yarn", "factor": 4.0}, YaRN)
    ),
    (
        lambda: posenc.rerotate(Q, arange(7), ROPE, ROPE),
        "k has length 10 but .* 7 positions; pass one position per",
    ),
    (
        lambda: PLACED.rotate(Q.mT.mT[:, :, :7], Q),
        "q has length 7 but .* 10 positions; pass one position per token",
    ),
    *(
        (act, r"q has length 8 but .*; if its shape is \(B, T, H, D\), pass posenc.layouts.from_bthd\(q\)")
        for act in (
            lambda: PLACED.rotate(Q.transpose(1, 2), Q.transpose(1, 2)),
            lambda: posenc.attention(*[Q.transpose(1, 2)] * 3, PLACED),
        )
    ),
    (lambda: posenc.attention(Q, Q, Q, LAYERED.at(arange(10))), r"one layer: placed\[layer\]$"),
    (lambda: posenc.attention(Q, Q, Q, FOX.at(arange(10))), r"first result of placed.with_content\(x, state\)$"),
    *(
        (lambda encodings=encodings: Layers(encodings, (0,)), r"encodings=.* must be a dict .* Layers\(\{.rope.: ")
        for encodings in ([ROPE, ROPE], ROPE, {})
    ),
    *(
        (
            lambda types=types: Layers({"rope": ROPE}, types),
            "layer_types=.* must be a list of the type of every layer",
        )
        for types in (2, "rope", (), None)
    ),
    (lambda: posenc.Rotary(16), "Rotary needs pairing; add pairing='half' or pairing='interleaved': half in Llama"),
    (lambda: posenc.Rotary(16, pairing="half", theta=5e5), "argument of Rotary 'theta'; did you mean 'base'?"),
    (lambda: posenc.Rotary(16, pairing="half", max_seq_len=9), "'max_seq_len'; .* positions need no maximum here"),
    (lambda: posenc.Rotary(16, 10_000.0), "Rotary: too many positional arguments; pass arguments by name"),
    (lambda: posenc.ALiBi(2, two_sided=True), "'two_sided'; .* the same on both sides; pass causal=True"),
    (lambda: posenc.ALiBi(num_heads=2), "'num_heads'; did you mean 'heads'?"),
    (lambda: posenc.NoPE().with_settings(theta=1.0), "unknown argument of NoPE 'theta'"),
    (lambda: posenc.attention(Q, Q, Q, causal=True), "placed is None; place the encoding first: encoding.at"),
    (lambda: posenc.attention(Q, Q, Q, PLACED, is_causal=True), "'is_causal'; did you mean 'causal'?"),
    (lambda: posenc.scores(Q, Q, causal=True), "placed is None; place the encoding first: encoding.at"),
    (lambda: posenc.scores(Q, Q, PLACED, is_causal=True), "argument of scores 'is_causal'; did you mean 'causal'?"),
    (lambda: posenc.scores(Q, Q.half(), PLACED), "q is .*32 and k is .*16; q and k must have the same dtype: cast"),
    (lambda: posenc.ring_attention(Q, Q, Q, PLACED), r"group=None has no ranks yet; .*init_process_group\(…\)"),
    *(
        (lambda act=act: act("rope"), "layer='rope' must be the index of a layer, such as 0; by_name holds")
        for act in (LAYERED.layer, lambda layer: LAYERED.at(arange(10))[layer])
    ),
    *(
        (
            lambda none=none: Layers({"a": none}, ("a",)),
            r"must be a dict of .* per layer type, NoPE\(\) for none; w",
        )
        for none in (None, "rotary")
    ),
    (lambda: posenc.attention(Q, Q, Q, PLACED, key_mask=TRUE[0]), r"the mask: mask=posenc.Mask\(…\)"),
    (lambda: posenc.attention(Q, Q, Q, PLACED, attn_mask=Q), r"'attn_mask'.*mask=posenc.Mask\(dense=…\)"),
    (
        lambda: posenc.Stack(ROPE, posenc.Rotary(32, pairing="half")),
        "Rotary has head_dim=64 but Rotary has head_dim=32",
    ),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("act", "message"), MISTAKES)
def test_a_first_mistake_is_answered_by_what_to_write(act: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        act()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("module", "word", "meant"),
    [
        *(
            (posenc, word, meant)
            for word, meant in {
                "RoPE": "Rotary",
                "rope": "Rotary",
                "RotaryEmbedding": "Rotary",
                "rotary": "Rotary",
                "Alibi": "ALiBi",
                "PositionalEncoding": "Sinusoidal",
                "atention": "attention",
                "YaRN": "scaling",
                "scaled_dot_product_attention": "attention",
                "zzzz": None,
                "__wrapped__": None,
            }.items()
        ),
        (huggingface, "patch_model", "patched"),
        (huggingface, "convert_pairings", "convert_pairing"),
    ],
)
def test_an_unknown_public_name_suggests_the_nearest(module: object, word: str, meant: str | None) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{word}'") as caught:
        getattr(module, word)
    assert str(caught.value).endswith(f"; did you mean {meant!r}?" if meant else f"{word!r}")
    assert caught.value.name is None, "Python would add a suggestion of its own: NoPE for RoPE"


def test_masks_and_scalings_keep_their_signatures_and_copies() -> None:
    for value in (Mask(causal=True, window=3), YaRN(4, 4096)):
        assert list(signature(type(value)).parameters) == [field.name for field in fields(value)]
        assert vars(pickle.loads(pickle.dumps(value))) == vars(value)
