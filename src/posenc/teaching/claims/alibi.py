"""Claims about ALiBi: the slopes, the sign of the bias, and how far attention reaches."""

from itertools import pairwise

import torch

import posenc
from posenc.encodings.alibi import alibi_bias, slopes
from posenc.teaching.claims.claim import Evidence, Verdict, above, below, claim, near, same
from posenc.teaching.claims.order import MIRRORED, order_error

PRESS = "Press et al. 2022, section 3"


@claim(
    statement="ALiBi's slopes are 1/2, 1/4, … 1/256.",
    precise="True for 8 heads. With n = 2^k heads, the slopes are 2^(−8h/n); other head counts use two geometric "
    "series.",
    verdict=Verdict.WHEN,
    source=f"{PRESS} and authors' code",
)
def slopes_by_head_count() -> Evidence:
    known = {
        8: [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625],
        4: [0.25, 0.0625, 0.015625, 0.00390625],
        6: [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125],
        12: [2.0**-h for h in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
    }
    off = {n: max(abs(a - b) for a, b in zip(slopes(n), wanted, strict=True)) for n, wanted in known.items()}
    return (
        *(below(f"{n} heads: largest difference from the authors' list", most, 1e-15) for n, most in off.items()),
        near("16 heads: first", slopes(16)[0], 2**-0.5, 1e-15),
        near("16 heads: last", slopes(16)[-1], 2**-8, 1e-15),
    )


@claim(
    statement="ALiBi's slopes form one geometric series.",
    precise="True for 2^k heads; 12 heads use the 8 slopes of 8 heads, then slopes 1, 3, 5 and 7 of 16 heads.",
    verdict=Verdict.WHEN,
    source="Press et al. 2022, authors' code",
)
def one_geometric_series() -> Evidence:
    def spread(heads: int) -> float:
        ratios = [b / a for a, b in pairwise(slopes(heads))]
        return max(ratios) - min(ratios)

    return (
        *(below(f"{n} heads: spread of the ratios of neighbours", spread(n), 1e-12) for n in (2, 4, 8, 16, 64)),
        *(above(f"{n} heads: spread of the ratios of neighbours", spread(n), 0.1) for n in (6, 12)),
        near("12 heads: smallest", min(slopes(12)), 1 / 256, 1e-15),
    )


@claim(
    statement="The bias is slope·(j − i).",
    precise="The bias is −slope·|i − j|, in both directions, after the 1/√D scaling. Without a mask, "
    "slope·(j − i) favours future tokens.",
    verdict=Verdict.FAILS,
    source=PRESS,
)
def sign_of_the_bias() -> Evidence:
    ours = alibi_bias(4, 8)
    offsets = torch.arange(8)[None, :] - torch.arange(8)[:, None]
    wrong = torch.tensor(slopes(4)).view(-1, 1, 1) * offsets
    rewarded = (0.25 * (torch.arange(64)[None] - torch.arange(64)[:, None])).softmax(-1)
    return (
        same("alibi_bias(4, 8) has shape (4, 8, 8)", tuple(ours.shape) == (4, 8, 8), True),
        below("largest bias", float(ours.max()), 0.0),
        below("largest difference from the transpose", float((ours - ours.mT).abs().max()), 0.0),
        near("bias of head 1, query 0, key 7", float(ours[0, 0, 7]), -1.75, 0.0),
        near("slope·(j − i) of head 1, query 0, key 7", float(wrong[0, 0, 7]), 1.75, 0.0),
        above(
            "mean weight on future keys with slope·(j − i), length 64",
            float(rewarded.triu(1).sum(-1)[:-1].mean()),
            0.8,
        ),
    )


@claim(
    statement="ALiBi is added to the scores q·k.",
    precise="ALiBi is added after the scores are divided by √D, so with equal keys each step lowers the score by "
    "exactly the slope, for any head size.",
    verdict=Verdict.WHEN,
    source=PRESS,
)
def after_the_scaling() -> Evidence:
    placed = posenc.ALiBi(1).at(posenc.positions.arange(4))

    def cost(dim: int) -> float:
        same_key = torch.ones(1, 1, 4, dim)
        # v has one channel per key, so that the output is the row of weights.
        y = posenc.attention(same_key, same_key, torch.eye(4)[None, None], placed)
        return float((y[0, 0, 3, 3] / y[0, 0, 3, 2]).log())

    # One head has slope 2^−8; log of a float32 ratio near 1 is good to about 2e-7.
    return tuple(near(f"cost of a step, head_dim {dim}", cost(dim), 2**-8, 1e-6) for dim in (4, 64))


@claim(
    statement="ALiBi has no parameters and no maximum length.",
    precise="ALiBi's penalty is a function of distance, so no untrained row is ever looked up.",
    verdict=Verdict.HOLDS,
    source=PRESS,
)
def defined_at_every_distance() -> Evidence:
    encoding = posenc.ALiBi(8)
    placed = encoding.at(torch.tensor([2**31 - 1]), torch.tensor([0, 2**31 - 2, 2**31 - 1]))
    assert placed.bias is not None
    row = placed.bias.rows(0, 1, 3)[0, 0, 0]
    return (
        same("parameters", sum(p.numel() for p in encoding.parameters()), 0),
        near("bias at distance 0", float(row[2]), 0.0, 0.0),
        near("bias at distance 1", float(row[1]), -0.5, 0.0),
        near("bias at distance 2³¹ − 1", float(row[0]), -(2.0**30), 64.0),
    )


@claim(
    statement="With ALiBi, a model without a causal mask can tell the order of tokens.",
    precise="ALiBi sees distances without directions, so a sequence and its mirror image look the same. A causal "
    "mask distinguishes these sequences, and so does RoPE, whose angle has a sign.",
    verdict=Verdict.WHEN,
    source="direct calculation",
)
def alibi_sees_no_direction() -> Evidence:
    return (
        # Biases are float32 and the model is float64: the same numbers, summed in a different order.
        below("change by mirroring, no mask", order_error("alibi", causal=False, order=MIRRORED), 1e-12),
        above("change by mirroring, causal mask", order_error("alibi", causal=True, order=MIRRORED), 0.01),
        above("change by mirroring, RoPE without a mask", order_error("rotary", False, MIRRORED), 0.01),
    )


@claim(
    statement="ALiBi lets a model use contexts of any length.",
    precise="ALiBi is stable at any length but attends locally: with equally relevant keys, the head with the "
    "smallest of 8 slopes gives 99.97 % of its weight to the last 2048 of 131 072 tokens. In a model trained at "
    "1024 tokens and run at 8192, this head gives 98.17 % to the last 1024 tokens.",
    verdict=Verdict.FAILS,
    source="direct calculation",
)
def reach() -> Evidence:
    m = slopes(8)
    distance = torch.arange(131_072, dtype=torch.float64)
    shares = [(-slope * distance).softmax(-1) for slope in (m[0], m[-1])]
    return (
        near("head with the smallest slope: weight on the last 2048", float(shares[1][:2048].sum()), 0.99966, 1e-5),
        near(
            "head with the smallest slope: weight on the last 1024 of 8192",
            float((-m[-1] * distance[:8192]).softmax(-1)[:1024].sum()),
            0.98168,
            1e-5,
        ),
        near("head with the largest slope: weight on the last 8", float(shares[0][:8].sum()), 0.98168, 1e-5),
    )
