"""Claims about scaling RoPE: what each method preserves and changes, and the effect of YaRN's temperature."""

import math
from itertools import pairwise

import torch

import posenc
from posenc.remap import DCA, STRING, ReRoPE, SelfExtend
from posenc.scaling import NTK, Default, DynamicNTK, Linear, Llama3, Proportional, Scaling, YaRN
from posenc.teaching.claims.claim import Evidence, Verdict, below, claim, near, same

PENG = "Peng et al. 2023 (arXiv 2309.00071)"
DIM, BASE = 128, 10_000.0
LENGTH = 4096


def frequencies(scaling: Scaling, dim: int = DIM, base: float = BASE) -> list[float]:
    """Return the frequency of every pair in radians per position."""
    return [float(f) for f in scaling.frequencies(dim, base).exact]


def excess(scaling: Scaling, factor: float) -> list[float]:
    """Return each slow pair's largest angle at ``factor`` times the trained length, divided by the pair's
    largest angle in training. A slow pair completes no turn within the trained length.
    """
    both = zip(frequencies(Default()), frequencies(scaling), strict=True)
    return [factor * after / before for before, after in both if 2 * math.pi / before > LENGTH]


@claim(
    statement="Position Interpolation lets a model read 8 times its trained length without loss.",
    precise="Every pair stays in its trained range, but neighbours become 8 times closer: the first pair "
    "rotates by 7.2° per step instead of 57.3°. Quality drops at every length until the model is tuned.",
    verdict=Verdict.FAILS,
    source="Chen et al. 2023 (arXiv 2306.15595), section 2.3 and table 3",
)
def interpolation_loses_resolution() -> Evidence:
    return (
        near("first pair (degrees per position)", math.degrees(frequencies(Linear(8.0))[0]), 7.16197, 1e-4),
        near("largest angle / trained range", max(excess(Linear(8.0), 8.0)), 1.0, 1e-12),
        *(
            near(f"factor {s:g}: frequency of pair 40 × factor", frequencies(Linear(s))[40] * s, 10**-2.5, 1e-12)
            for s in (8.0, 32.0, 256.0)
        ),
    )


@claim(
    statement="NTK-aware scaling interpolates slow pairs, so that they stay inside the trained range.",
    precise="With 128 channels and base 10 000, 18 pairs complete no turn in 4096 tokens. At 8 times that length, "
    "17 of them, all but the last, exceed their trained range, by up to 75%.",
    verdict=Verdict.FAILS,
    source=f"{PENG}, section 3.1, against direct calculation",
)
def ntk_leaves_the_trained_range() -> Evidence:
    ranges = excess(NTK(8.0), 8.0)
    before, after = frequencies(Default()), frequencies(NTK(8.0))
    return (
        same("pairs without a full turn in 4096", len(ranges), 18),
        same("those that exceed their trained range", sum(r > 1 + 1e-9 for r in ranges), 17),
        near("largest angle / trained range", max(ranges), 1.75, 5e-3),
        near("first pair: scaled / unscaled frequency", after[0] / before[0], 1.0, 1e-12),
        near("last pair: scaled / unscaled frequency", after[-1] / before[-1], 1 / 8, 1e-12),
        near("equivalent base", NTK(8.0).base(DIM, BASE), 82_684.6, 0.1),
    )


@claim(
    statement="YaRN is one formula.",
    precise="The paper's ramp depends on turns within the trained length; the released code's ramp depends on "
    "the pair's index. The two ramps differ by a factor of up to 3.04 (d=128, L=4096, s=16, pair 38); "
    "checkpoints follow the code.",
    verdict=Verdict.FAILS,
    source=f"{PENG}, section 3.2, and its authors' code",
)
def yarn_has_two_ramps() -> Evidence:
    by_index = frequencies(YaRN(16.0, LENGTH))
    by_turns = frequencies(YaRN(16.0, LENGTH, ramp="rotations"))
    ratios = [max(a / b, b / a) for a, b in zip(by_index, by_turns, strict=True)]
    return (
        near("largest ratio of the two frequencies", max(ratios), 3.04, 5e-3),
        same("pair with the largest ratio", ratios.index(max(ratios)), 38),
        same("the code's ramp starts at pair", YaRN(16.0, LENGTH).ends(DIM, BASE)[0], 20),
        same("the code's ramp ends at pair", YaRN(16.0, LENGTH).ends(DIM, BASE)[1], 46),
    )


@claim(
    statement="YaRN keeps slow pairs and interpolates fast ones.",
    precise="The opposite is true: fast pairs are kept, and slow pairs are divided by the factor. From fast to "
    "slow pairs, the divisor never decreases.",
    verdict=Verdict.FAILS,
    source=f"{PENG}, section 3.2",
)
def direction_of_the_ramp() -> Evidence:
    divisors = {
        name: [a / b for a, b in zip(frequencies(Default()), frequencies(scaling), strict=True)]
        for name, scaling in (("YaRN", YaRN(16.0, LENGTH)), ("Llama 3", Llama3(16.0, LENGTH)))
    }
    return tuple(
        finding
        for name, ratios in divisors.items()
        for finding in (
            near(f"{name}: first pair divided by", ratios[0], 1.0, 1e-12),
            near(f"{name}: last pair divided by", ratios[-1], 16.0, 1e-9),
            below(f"{name}: largest decrease of the divisor", max(a - b for a, b in pairwise(ratios)), 1e-9),
        )
    )


@claim(
    statement="YaRN's temperature softens attention.",
    precise="The temperature sharpens attention: cos and sin are multiplied by a = 0.1·ln s + 1, so every score "
    "is multiplied by a².",
    verdict=Verdict.FAILS,
    source=f"{PENG}, section 3.3",
)
def temperature_sharpens() -> Evidence:
    a = YaRN(16.0, LENGTH).frequencies(DIM, BASE).attention_factor
    scores = torch.randn(256, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    entropies = [float(torch.distributions.Categorical(logits=x).entropy()) for x in (scores, scores * a * a)]
    return (
        near("a at factor 16", a, 0.1 * math.log(16) + 1, 1e-12),
        near("factor of the scores", a * a, 1.6314, 1e-3),
        below("change of entropy (nats)", entropies[1] - entropies[0], -0.1),
        near("a at factor 1", YaRN(1.0, LENGTH).frequencies(DIM, BASE).attention_factor, 1.0, 0.0),
    )


@claim(
    statement="Dynamic NTK scaling always changes the base.",
    precise="Up to the trained length, nothing changes. Past the trained length, the base grows with the length, "
    "and cached keys keep the old base unless they are rotated again.",
    verdict=Verdict.WHEN,
    source="released code, as in Hugging Face transformers",
)
def dynamic_by_length() -> Evidence:
    plain = frequencies(Default())
    scaling = DynamicNTK(2.0, LENGTH)
    inside, longer = (frequencies(scaling.plan(n)) for n in (LENGTH, 2 * LENGTH))
    return (
        same("at the trained length nothing changes", inside == plain, True),
        near("last pair at twice the length: scaled / unscaled", longer[-1] / plain[-1], 1 / 3, 1e-9),
        near("first pair at twice the length", longer[0], 1.0, 1e-12),
    )


@claim(
    statement="Partial rotation and proportional RoPE are the same thing.",
    precise="Partial rotation gives the rotated channels a complete set of frequencies; proportional RoPE keeps "
    "the head's frequencies and sets the slowest to zero. Reading a config with the wrong method gives a "
    "different model.",
    verdict=Verdict.FAILS,
    source="Barbero et al. 2024 (arXiv 2410.06205), section 6",
)
def partial_is_not_proportional() -> Evidence:
    partial = frequencies(Default(), DIM // 4)
    proportional = frequencies(Proportional(0.25))
    return (
        same("pairs that turn, partial", sum(f > 0 for f in partial), 16),
        same("pairs that turn, proportional", sum(f > 0 for f in proportional), 16),
        near("slowest of them, partial", min(partial), 1e4 ** (-15 / 16), 1e-12),
        near("slowest of them, proportional", min(f for f in proportional if f > 0), 1e4 ** (-15 / 64), 1e-12),
    )


@claim(
    statement="With remapped positions, a model sees only trained distances, in texts of any length.",
    precise="ReRoPE and DCA use only trained distances at any length; Self-Extend and STRING do up to a length "
    "that depends on their settings (for STRING, below twice the trained length).",
    verdict=Verdict.WHEN,
    source="arXiv 2401.01325, 2402.17463 and 2410.18745; Su 2023, kexue.fm 9708",
)
def remapped_distances() -> Evidence:
    rope, trained, length = posenc.Rotary(2, pairing="half", scaling=Linear(1024.0)), 128, 1024
    at = torch.arange(length)
    q = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(1, 1, length, 2)

    def furthest(remap: posenc.Encoding) -> float:
        """Return the longest distance used in the scores. It is measured with a pair that rotates by 1/1024 rad
        per position."""
        placed = remap.at(at[-1:], at, dtype=torch.float64)
        cosines = posenc.scores(*placed.rotate(q[:, :, -1:], q), placed, causal=True, scale=1.0)
        return float(cosines.clamp(-1, 1).acos().max() * 1024)

    return (
        near("RoPE at 8 times the length", furthest(rope), 1023, 1e-4),
        near("ReRoPE, window 64", furthest(ReRoPE(rope, 64)), 64, 1e-4),
        near("DCA, chunks of 96 and local 32", furthest(DCA(rope, 96, 32)), 127, 1e-4),
        near("Self-Extend, groups of 16 after 64", furthest(SelfExtend(rope, 16, 64)), 63 + 64 - 4, 1e-4),
        near("Self-Extend, groups of 4 after 64", furthest(SelfExtend(rope, 4, 64)), 255 + 64 - 16, 1e-4),
        same("longest text for STRING, shift 96, window 16", STRING(rope, 96, 16).longest(trained), 208),
    )
