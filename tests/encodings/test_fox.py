"""FoX over long sequences, where sums of log gates leave what narrow types hold."""

import pytest
import torch

from posenc.encodings.fox import ForgetBias


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_channels_hold_sums_that_no_float16_reaches(dtype: torch.dtype) -> None:
    """200 000 in all, three times float16's largest: channels are what the type holds and add up to the rows."""
    gates = torch.full((1, 1, 20_000), -10.0)
    order = torch.arange(20_000)
    bias = ForgetBias(gates).ordered(order, order)
    channels = bias.channels(dtype)
    assert channels is not None
    q, k = (side.to(dtype).double() for side in channels)
    assert q.isfinite().all()
    assert k.isfinite().all()
    for row in (0, 9_000, 19_999):
        got = (q[0, 0, row] * k[0, 0]).sum(-1)
        got = got - got[row]
        want = bias.rows(row, row + 1, 20_000)[0, 0, 0].double()
        assert (got - want).abs().max() <= 4 * 2.0**-24 * 200_000
