"""Another schedule in an encoding: what turns gets it, what was learnt is shared, near layers keep their own."""

import torch

import posenc
from posenc.encodings.axes import chunked
from posenc.positions import plain
from posenc.schedules import NTK, Default, YaRN

ROTARY = posenc.Rotary(8, pairing="half", base=500.0, rotary_dim=4)


def turned(encoding: posenc.Encoding) -> torch.Tensor:
    q = torch.ones(1, 2, 6, 8)
    return encoding.at(plain(6)).rotate(q, q)[0]


def test_what_turns_gets_the_schedule_and_keeps_the_rest() -> None:
    wanted = posenc.Rotary(8, pairing="half", base=500.0, rotary_dim=4, schedule=NTK(4.0), phases="float32")
    made = ROTARY.rescaled(NTK(4.0), "float32")
    assert made.schedule == NTK(4.0)
    assert torch.equal(turned(made), turned(wanted))
    assert not torch.equal(turned(made), turned(ROTARY))
    assert torch.equal(turned(ROTARY.rescaled(None)), torch.ones(1, 2, 6, 8))


def test_axes_and_signs_are_kept() -> None:
    made = posenc.Rotary(8, pairing="half", axes=chunked(2, 2), signed=True).rescaled(NTK(4.0))
    assert (made.axes, made.signed) == (2, True)
    at = torch.tensor([[-1, 2], [3, 0]])
    q = torch.ones(1, 1, 2, 8)
    wanted = posenc.Rotary(8, pairing="half", axes=chunked(2, 2), signed=True, schedule=NTK(4.0))
    assert torch.equal(made.at(at).rotate(q, q)[0], wanted.at(at).rotate(q, q)[0])


def test_what_has_no_schedule_stays_itself() -> None:
    for encoding in (posenc.ALiBi(2), posenc.NoPE(), posenc.Learned(8, 16)):
        assert encoding.schedule is None
        assert encoding.rescaled(NTK(4.0)) is encoding


def test_composed_encodings_share_what_they_learnt() -> None:
    t5 = posenc.T5(2)
    for made in (posenc.Stack(ROTARY, t5), posenc.Heads((ROTARY, 2), (t5, 2))):
        again = made.rescaled(NTK(4.0))
        assert (made.schedule, again.schedule) == (Default(), NTK(4.0))
        assert made.layer(0) is made
        assert [p is q for p, q in zip(made.parameters(), again.parameters(), strict=True)] == [True]
    assert posenc.Stack(ROTARY, t5).rescaled(None).doors == ("bias",)


def test_near_layers_keep_their_own_schedule() -> None:
    local = posenc.Rotary(8, pairing="half", base=100.0)
    kinds = {"far": ROTARY, "near": local, "nope": posenc.NoPE()}
    layers = posenc.Layers(kinds, ("near", "far", "nope"), windows={"near": 16})
    made = layers.rescaled(YaRN(4, 64))
    assert made.layer(0) is local
    assert (made.layer(1).schedule, made.layer(4).schedule) == (YaRN(4, 64), YaRN(4, 64))
    assert made.layer(2) is kinds["nope"]
    assert made.at(posenc.positions.plain(4))[0].window == 16
    assert torch.equal(turned(made.rescaled(Default()).layer(1)), turned(ROTARY))


def test_as_configured_each_kind_keeps_its_own() -> None:
    scaled = posenc.Rotary(8, pairing="half", schedule=YaRN(4, 64))
    layers = posenc.Layers({"plain": ROTARY, "scaled": scaled}, ("plain", "scaled"))
    assert layers.schedule == YaRN(4, 64)
    made = layers.rescaled(YaRN(4, 64), "float32")
    assert (made.layer(0).schedule, made.layer(1).schedule) == (Default(), YaRN(4, 64))
    assert layers.rescaled(Default()).layer(1).schedule == Default()


def test_where_every_layer_that_turns_is_near_they_are_all_stretched() -> None:
    layers = posenc.Layers({"near": ROTARY, "nope": posenc.NoPE()}, ("near", "nope"), windows={"near": 16})
    assert layers.rescaled(NTK(4.0)).layer(0).schedule == NTK(4.0)


def test_another_in_every_layer_stays_so() -> None:
    kinds = {"fox": posenc.FoX(16, 2), "rotary": ROTARY}
    layers = posenc.Layers(kinds, ("fox", "rotary"), layers=4)
    made = layers.rescaled(NTK(4.0))
    assert made.layer(0) is layers.layer(0)
    assert made.layer(2) is not made.layer(0)
    assert not made.per_layer


def test_composed_encodings_reset_their_parts() -> None:
    t5 = posenc.T5(2)
    torch.nn.init.ones_(t5.weight)
    posenc.Layers({"rotary": ROTARY, "t5": t5}, ("rotary", "t5")).reset_parameters()
    assert not (t5.weight == 1).all()
