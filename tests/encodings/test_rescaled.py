"""Another scaling in an encoding: what turns gets it, what was learnt is shared, near layers keep their own."""

import pytest
import torch

import posenc
from posenc.clock import Clock
from posenc.encodings.axes import chunked
from posenc.positions import arange
from posenc.scaling import NTK, Default, YaRN

ROTARY = posenc.Rotary(8, pairing="half", base=500.0, rotary_dim=4)


def turned(encoding: posenc.Encoding) -> torch.Tensor:
    q = torch.ones(1, 2, 6, 8)
    return encoding.at(arange(6)).rotate(q, q)[0]


def test_what_turns_gets_the_schedule_and_keeps_the_rest() -> None:
    wanted = posenc.Rotary(8, pairing="half", base=500.0, rotary_dim=4, scaling=NTK(4.0), phases="float32")
    made = ROTARY.with_scaling(NTK(4.0), "float32")
    assert made.scaling == NTK(4.0)
    assert torch.equal(turned(made), turned(wanted))
    assert not torch.equal(turned(made), turned(ROTARY))
    assert torch.equal(turned(ROTARY.with_scaling(None)), torch.ones(1, 2, 6, 8))


@pytest.mark.parametrize(
    "encoding",
    [
        posenc.Rotary(8, pairing="half", phases="float32"),
        posenc.XPos(8, pairing="half", phases="float32"),
        posenc.PoPE(8, 2, phases="float32"),
        posenc.Stack(posenc.Rotary(8, pairing="half", phases="float32"), posenc.ALiBi(2)),
        posenc.Layers({"a": posenc.Rotary(8, pairing="half", phases="float32")}, ("a",)),
    ],
    ids=lambda encoding: encoding.name,
)
def test_phases_are_kept_unless_others_are_named(encoding: posenc.Encoding) -> None:
    """A checkpoint's angles stay a checkpoint's under another scaling."""

    def phases(encoding: posenc.Encoding) -> set[str]:
        return {module.phases for module in encoding.modules() if isinstance(module, Clock)}

    assert phases(encoding.with_scaling(YaRN(4, 64))) == {"float32"}
    assert phases(encoding.with_scaling(YaRN(4, 64), "exact")) == {"exact"}


def test_axes_and_signs_are_kept() -> None:
    made = posenc.Rotary(8, pairing="half", axes=chunked(2, 2), signed=True).with_scaling(NTK(4.0))
    assert (made.axes, made.signed) == (2, True)
    at = torch.tensor([[-1, 2], [3, 0]])
    q = torch.ones(1, 1, 2, 8)
    wanted = posenc.Rotary(8, pairing="half", axes=chunked(2, 2), signed=True, scaling=NTK(4.0))
    assert torch.equal(made.at(at).rotate(q, q)[0], wanted.at(at).rotate(q, q)[0])


def test_what_has_no_schedule_stays_itself() -> None:
    for encoding in (posenc.ALiBi(2), posenc.NoPE(), posenc.Learned(8, 16)):
        assert encoding.scaling is None
        assert encoding.with_scaling(NTK(4.0)) is encoding


def test_composed_encodings_share_what_they_learnt() -> None:
    made = posenc.Stack(ROTARY, posenc.T5(2))
    again = made.with_scaling(NTK(4.0))
    assert (made.scaling, again.scaling) == (Default(), NTK(4.0))
    assert made.layer(0) is made
    assert [p is q for p, q in zip(made.parameters(), again.parameters(), strict=True)] == [True]
    assert made.with_scaling(None).acts_on == ("bias",)


def test_near_layers_keep_their_own_scaling() -> None:
    local = posenc.Rotary(8, pairing="half", base=100.0)
    kinds = {"far": ROTARY, "near": local, "nope": posenc.NoPE()}
    made = posenc.Layers(kinds, ("near", "far", "nope"), windows={"near": 16}).with_scaling(YaRN(4, 64))
    assert made.layer(0) is local
    assert (made.layer(1).scaling, made.layer(4).scaling) == (YaRN(4, 64), YaRN(4, 64))
    assert made.layer(2) is kinds["nope"]
    assert made.at(posenc.positions.arange(4))[0].window == 16
    assert torch.equal(turned(made.with_scaling(Default()).layer(1)), turned(ROTARY))


def test_as_configured_each_kind_keeps_its_own() -> None:
    scaled = posenc.Rotary(8, pairing="half", scaling=YaRN(4, 64))
    layers = posenc.Layers({"plain": ROTARY, "scaled": scaled}, ("plain", "scaled"))
    assert layers.scaling == YaRN(4, 64)
    made = layers.with_scaling(YaRN(4, 64), "float32")
    assert (made.layer(0).scaling, made.layer(1).scaling) == (Default(), YaRN(4, 64))
    assert layers.with_scaling(Default()).layer(1).scaling == Default()


def test_an_enlarged_one_stretches_as_before() -> None:
    """Its scaling is that of the layers which a longer context stretches, not of the first that turns."""
    axes, tables = chunked(2, 2), posenc.Decomposed(8, 2, size=(4, 4), shared=True)
    turning = {
        f"{i}": posenc.Rotary(8, pairing="half", axes=axes, scaling=s) for i, s in enumerate((None, NTK(4.0)))
    }
    layers = posenc.Layers({**turning, "tables": tables}, ("0", "1", "tables"))
    assert layers.scaling == NTK(4.0)
    assert layers.enlarged(6, 6).scaling == NTK(4.0)


def test_where_every_layer_that_turns_is_near_they_are_all_stretched() -> None:
    layers = posenc.Layers({"near": ROTARY, "nope": posenc.NoPE()}, ("near", "nope"), windows={"near": 16})
    assert layers.with_scaling(NTK(4.0)).layer(0).scaling == NTK(4.0)


def test_another_in_every_layer_stays_so() -> None:
    layers = posenc.Layers({"fox": posenc.FoX(16, 2), "rotary": ROTARY}, ("fox", "rotary"), layers=4)
    made = layers.with_scaling(NTK(4.0))
    assert made.layer(0) is layers.layer(0)
    assert made.layer(2) is not made.layer(0)
    assert not made.per_layer
