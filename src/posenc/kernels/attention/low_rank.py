"""Extra channels of queries and keys, whose products add a bias to q·k.

A kernel sums a score channel by channel. The extra channels come first, and the bias's terms for the query and for
the key alternate, so that large terms cancel before q·k is added. Each product of two extra channels is exact,
even in 16-bit dtypes, because kernels sum in float32. After the cancellation, the sum is only as large as the
bias. This method depends on the order in which a kernel sums, so ``exact`` tests once per device and dtype whether
it is accurate.
"""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils._python_dispatch import _disable_current_modes

from posenc.kernels.attention.softmax import pieces, repeat_kv

Channels = tuple[Float[Tensor, "#B #H T r"], Float[Tensor, "#B #H S r"]]
"""The extra channels of queries and those of keys. Key channels that all heads share have a head axis of size 1, so
that they also work with grouped queries.
"""

UNIT = 256.0
"""The unit of the extra channels: positions and sums are divided by it, so that the channels of long sequences stay
below 65 504, the largest float16 number.
"""

SPAN = 1 << 16
"""The limit of distances, which therefore have 16 bits. A piece of a slope has 8 bits, and float32 sums products of
8 + 16 bits exactly.
"""

LEAST_SCALE = 2.0**-7
"""The smallest softmax scale. With a smaller scale, slope/scale would exceed the range of float16."""


def linear(
    slopes: Float[Tensor, " H"],
    q_positions: Int[Tensor, "*B T"],
    k_positions: Int[Tensor, "*B S"],
    dtype: torch.dtype,
    scale: float,
) -> Channels:
    """Return extra channels of q and k whose dot product is m_h·(p_k − p_q)/scale, for positions less than ``SPAN``
    from the first position of their row.

    Slopes are split into three pieces of 8 bits. A position is stored as one number in float32 and as two base-256
    digits in 16-bit dtypes. The query's term m·p_q is the same for all keys, so rounding it does not
    change attention; the only purpose of this term is to cancel the large terms.
    """
    start = k_positions.amin(-1, keepdim=True)
    q_at, k_at = ((at - start).double() / UNIT for at in (q_positions, k_positions))
    digits = [k_at] if dtype == torch.float32 else [k_at.floor(), k_at - k_at.floor()]
    per_step = slopes.double() / scale
    steepest, *finer = (piece * UNIT for piece in pieces(per_step, torch.bfloat16, 3))
    anchors = pieces(-per_step[:, None] * (q_at if q_at.dim() == 1 else q_at[:, None]), dtype, len(digits))
    q, k = [], []
    for digit, anchor in zip(digits, anchors, strict=True):
        q += [steepest[:, None], anchor]
        k += [digit, torch.full_like(digit, UNIT)]
    for piece in finer:
        q += [piece[:, None]] * len(digits)
        k += digits
    shape = anchors[0].shape if anchors[0].dim() == 3 else (1, *anchors[0].shape)
    keys = torch.stack(k, dim=-1)
    return (
        torch.stack([channel.expand(shape) for channel in q], dim=-1).to(dtype),
        (keys[None, None] if keys.dim() == 2 else keys[:, None]).to(dtype),
    )


def of_sums(
    q_sums: Float[Tensor, "B H T"], k_sums: Float[Tensor, "B H S"], dtype: torch.dtype, scale: float
) -> Channels:
    """Return extra channels of q and k whose dot product is (c_q − c_k)/scale. c_q and c_k are the running sums at
    the query and at the key, such as FoX's sums of log gates. They are split into enough pieces for the precision
    of float32. c_q is the same for all keys of a query, so it needs no gradient.
    """
    last = k_sums[..., -1:]
    ones = torch.full_like(k_sums, UNIT), torch.full_like(q_sums, UNIT)
    count = 2 if dtype == torch.float32 else 3
    of_keys = pieces((last - k_sums) / (scale * UNIT), dtype, count)
    of_queries = pieces((q_sums - last).detach() / (scale * UNIT), dtype, count)
    q = torch.stack([x for piece in of_queries for x in (ones[1], piece)], dim=-1)
    k = torch.stack([x for piece in of_keys for x in (piece, ones[0])], dim=-1)
    return q.to(dtype), k.to(dtype)


def widened(q: Tensor, k: Tensor, v: Tensor, channels: Channels) -> tuple[Tensor, Tensor, Tensor]:
    """Prepend these channels to q and k, and pad v with zeros to the same width.

    Heads that share keys remain grouped if all heads have the same extra key channels.
    """
    B, H, more_q, more_k = q.shape[0], q.shape[1], *channels
    # GPU kernels need widths that are multiples of 8.
    padding = 0 if q.device.type == "cpu" else -(q.shape[-1] + more_q.shape[-1]) % 8
    if more_k.shape[1] != 1:
        k, v = (repeat_kv(x, H) for x in (k, v))
    q = torch.cat((more_q.expand(B, H, -1, -1), pad(q, (0, padding))), dim=-1)
    k = torch.cat((more_k.expand(B, k.shape[1], -1, -1), pad(k, (0, padding))), dim=-1)
    return q, k, pad(v, (0, max(q.shape[-1] - v.shape[-1], 0)))


def exact(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether attention on this device sums channels of this dtype accurately enough for a bias in extra
    channels. The result is cached for each device, dtype and combination of torch's matmul and attention settings.
    """
    cuda = torch.backends.cuda
    settings = (  # that a process may change and that affect how products are summed
        torch.get_float32_matmul_precision(),
        cuda.matmul.allow_tf32,
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
        cuda.math_sdp_enabled(),
    )
    return _exact(str(device), dtype, settings)


# Like torch.compiler.assume_constant_result, but without loading the compiler: evaluated while tracing.
exact._dynamo_marked_constant = True  # type: ignore[attr-defined]


@lru_cache
def _exact(device: str, dtype: torch.dtype, settings: tuple[object, ...]) -> bool:
    """Return whether the error of attention with a steep and a shallow slope is within ``TOLERANCE``. The test
    includes positions far from the first key, where inexact sums lose the most digits.
    """
    if dtype not in (torch.float32, torch.bfloat16, torch.float16) or device.split(":")[0] not in ("cpu", "cuda"):
        return False
    unrounded = torch.autocast(device.split(":")[0], enabled=False)
    # With torch functions disabled, tensors are on the CPU for any default device, and torch.export does not record
    # no_grad, which would make its graph impossible to save.
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad(), unrounded:
        return _deviation(torch.device(device), dtype) <= TOLERANCE[dtype]


TOLERANCE = {torch.float32: 2.0**-18, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}
"""The tolerance for attention weights of each dtype. Scores of a few units are summed over 68 channels in
float32 and then rounded to the dtype.
"""


def _deviation(device: torch.device, dtype: torch.dtype) -> float:
    """Return the largest error of a weight in causal attention with two slopes, for tokens spread over ``SPAN``
    positions.
    """
    generator = torch.Generator().manual_seed(0)
    T, D, scale = 64, 64, 0.125
    q, k = torch.randn(2, 1, 2, T, D, generator=generator).to(dtype)
    # Pairs of neighbours, spread over the whole span.
    at = torch.arange(T // 2).mul(2 * SPAN // T).repeat_interleave(2) + torch.arange(T) % 2
    slopes = torch.tensor([0.5**0.5, 0.5**8.5])
    bias = slopes.double()[:, None, None] * (at[None] - at[:, None])
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
    want = ((q.double() @ k.double().mT) * scale + bias).masked_fill(hidden, -torch.inf).softmax(-1)
    channels = linear(slopes, at, at, dtype, scale)
    v = torch.eye(T, D, dtype=dtype).expand(1, 2, T, D)
    q, k, v = (x.to(device) for x in widened(q, k, v, channels))
    got = sdpa(q, k, v, is_causal=True, scale=scale)[..., :D]
    return float((got.double().cpu() - want).abs().max())
