"""Composition: what a stack, a slice of heads and layers declare, describe, state and refuse."""

import pytest
import torch

import posenc
from posenc import (
    ALiBi,
    FoPE,
    FoX,
    Kerple,
    Layers,
    NoPE,
    QueryScale,
    Rotary,
    Shaw,
    Sinusoidal,
    Stack,
)
from posenc.encodings.axes import chunked
from posenc.encodings.layers import for_layers
from posenc.errors import InvalidArgument
from posenc.positions import arange


def rope() -> Rotary:
    return Rotary(8, pairing="half")


def test_a_stack_declares_what_its_parts_declare_together() -> None:
    stack = Stack(Sinusoidal(32), rope(), FoX(32, 4))
    assert stack.acts_on == ("embeddings", "queries_keys", "bias")
    assert (stack.relative, stack.needs_content, stack.per_layer) == (False, True, True)
    # Rotated queries read Shaw's offsets differently at every position.
    assert [Stack(rope(), part).relative for part in (NoPE(), Shaw(8, 4), Kerple(4))] == [True, False, True]


def test_scales_multiply_and_biases_add() -> None:
    scale = QueryScale(floor=2)
    placed = Stack(scale, scale, ALiBi(4), ALiBi(4)).at(arange(5))
    torch.testing.assert_close(placed.scale, scale.at(arange(5)).scale ** 2)
    one = ALiBi(4).at(arange(5)).bias
    assert torch.equal(placed.bias.rows(0, 5, 5), 2 * one.rows(0, 5, 5))
    assert torch.equal(placed.bias.toeplitz, 2 * one.toeplitz)


def test_parts_are_reset_and_carries_are_told_apart() -> None:
    stack = Stack(FoX(16, 2), rope(), FoX(16, 2))
    before = [p.clone() for p in stack.parameters()]
    stack.reset_parameters()
    assert not torch.equal(next(stack.parameters()), before[0])
    here, state = stack.at(arange(3)).with_content(torch.randn(1, 3, 16))
    assert state.shape == (1, 4, 3)
    with pytest.raises(InvalidArgument, match="state has 3 values per key; it must have 4"):
        here.with_state(state[:, :3])


def test_layers_inside_a_composition_stay_layers() -> None:
    """A stack of layers has at every layer what that layer has, and so have some of its heads."""
    mixed = Layers({"rope": rope(), "nope": NoPE()}, ("rope", "nope"), windows={"rope": 3})
    q = torch.randn(1, 4, 5, 8)
    placed = Stack(mixed, ALiBi(8)).at(arange(5))
    for here, nothing in (placed[0], placed[1]), (placed[0].slice_heads(4, 8), placed[1].slice_heads(4, 8)):
        assert not torch.equal(here.rotate(q, q)[0], q)
        assert torch.equal(nothing.rotate(q, q)[0], q)
        assert (here.window, nothing.window) == (3, None)
    assert torch.equal(here.bias.rows(0, 5, 5), ALiBi(8).at(arange(5)).bias.rows(0, 5, 5)[:, 4:])


def test_a_layer_beyond_those_that_there_are_is_refused() -> None:
    """It would share the parameters of another; without parameters of layers a pattern just goes on."""
    own = for_layers(FoX(8, 2), 2)
    for ask in (own.layer, own.at(arange(3)).__getitem__):
        assert ask(-1) is ask(1) is not ask(0)
        with pytest.raises(
            InvalidArgument, match="layer=2 is not a layer of this encoding, which was built for layers=2"
        ):
            ask(2)
    assert Layers({"nope": NoPE(), "rope": rope()}, ("nope", "rope")).layer(7).name == "rotary"


def test_layers_describe_themselves_and_own_what_is_per_layer() -> None:
    layers = Layers({"near": rope(), "fox": FoX(32, 4)}, ("near", "near", "fox"), layers=6, windows={"near": 9})
    told = layers.describe().splitlines()
    assert [line.split(":")[0] for line in told] == ["layers 0–1", "layer 2", "layers 3–4", "layer 5"]
    assert told[0].endswith("window 9")
    assert [kind for kind in layers.names if kind.startswith("fox")] == ["fox_2", "fox_5"]
    assert layers.by_name["fox_2"].weight is not layers.by_name["fox_5"].weight
    assert [layers.at(arange(3))[i].window for i in range(3)] == [9, 9, None]
    assert for_layers(rope(), 3).name == "rotary"
    assert for_layers(FoX(32, 4), 3).names == ("fox_0", "fox_1", "fox_2")


@pytest.mark.parametrize("text", ["fox", "t5(shared=False)", "stack(rotary, shaw)"])
def test_one_module_in_several_layers_is_refused_where_parameters_are_per_layer(text: str) -> None:
    """Its text with the number of layers is the way out; what says that it is shared stays one module."""
    shape = {"width": 32, "heads": 4, "head_dim": 8}
    placed = posenc.encoding(text, **shape).at(arange(5))
    assert placed[1] is placed[1]
    with pytest.raises(InvalidArgument, match=r"layers \[0, 1\] would share .*layers=n\)"):
        placed[0]
    placed = posenc.encoding(text, **shape, layers=3).at(arange(5))
    assert len({id(placed[i]) for i in range(3)}) == 3
    shared = posenc.encoding("stack(rotary, t5)", **shape, layers=3).at(arange(5))
    assert [shared[i] for i in range(3)] == 3 * [shared]


@pytest.mark.parametrize(("first", "last"), [(0, 4), (2, 4), (0, 2), (1, 2), (3, 4)])
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
def test_a_slice_of_a_slice_has_the_rotations_of_its_heads(groups: int, first: int, last: int) -> None:
    placed, q = FoPE(8, 64, pairing="half", groups=groups, heads=8).at(arange(5)), torch.randn(1, 8, 5, 8)
    got = placed.slice_heads(4, 8).slice_heads(first, last).rotate(q[:, 4 + first : 4 + last], None)[0]
    assert torch.equal(got, placed.rotate(q, None)[0][:, 4 + first : 4 + last])


@pytest.mark.parametrize("text", ["fox", "t5(shared=False)", "shaw", "deberta", "kerple", "cope"])
def test_every_layer_draws_its_own_parameters(text: str) -> None:
    """Constructed, and reset afterwards; the first layer has those of the pattern."""
    layered = posenc.encoding(text, width=32, heads=4, head_dim=8, layers=3)
    for _ in range(2):
        drawn = [next(iter(layered.layer(i).parameters())).detach().clone() for i in range(3)]
        assert not any(torch.equal(drawn[i], drawn[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
        layered.reset_parameters()
    assert layered.with_settings(windows={layered.layer_types[0]: 4}).encodings == layered.encodings
    pattern = FoX(8, 2)
    assert torch.equal(for_layers(pattern, 2).layer(0).weight, pattern.weight)


def test_a_type_of_one_axis_gets_the_first_of_several() -> None:
    layers = Layers(
        {"rotary": Rotary(8, pairing="half", axes=chunked(2, 1, 1)), "alibi": ALiBi(4)}, ("rotary", "alibi")
    )
    at = torch.stack([arange(5), 3 * arange(5), 7 * arange(5)])
    assert torch.equal(layers.at(at)[1].bias.rows(0, 5, 5), ALiBi(4).at(arange(5)).bias.rows(0, 5, 5))


@pytest.mark.parametrize(
    ("text", "count"),
    {
        "fire": 18,
        "fire(shared=True)": 6,
        "kerple": 6,
        "kerple(shared=True)": 2,
        "t5(shared=False)": 3,
        "t5": 1,
    }.items(),
)
def test_three_layers_have_parameters_of_their_own_unless_they_share_them(text: str, count: int) -> None:
    assert len(list(posenc.encoding(f"layers({text})", heads=2, layers=3).parameters())) == count
