"""The views that the lab asks first: order and exactness."""

from posenc.teaching.views import exactness, order_blind


def test_a_causal_mask_alone_tells_order() -> None:
    assert order_blind.shuffle(causal=True).readouts["status"] == "changed"


def test_two_sided_alibi_cannot_tell_a_mirror_image() -> None:
    assert order_blind.shuffle(order=(2, 1, 0), encoding="alibi").readouts["status"] == "the same vectors, moved"
    assert order_blind.shuffle(order=(1, 0, 2), encoding="alibi").readouts["status"] == "changed"


def test_float32_angles_drift_far_out() -> None:
    for position, drift in ((1_000_000, 2e-2), (2**31 - 1, 0.5)):
        assert float(exactness.floor(position).readouts["largest error"]) > drift
