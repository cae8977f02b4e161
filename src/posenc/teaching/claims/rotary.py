"""Claims about RoPE: what scores depend on, the two pairings, and the effect of distance."""

import torch
from jaxtyping import Float
from torch import Tensor

import posenc
from posenc.encodings.rotary import Pairing, half_from_interleaved, interleaved_from_half, rotate
from posenc.scaling import Default
from posenc.teaching.claims.claim import Evidence, Verdict, above, below, claim, near, same
from posenc.teaching.views.rotation import K, Q, rotate_pair
from posenc.teaching.views.scores import contents, scores

SU = "Su et al. 2021, section 3.2"


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Draw a float64 tensor from N(0, 1)."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def score(q: Tensor, k: Tensor, at_q: int, at_k: int, rotary: posenc.Rotary | None = None) -> float:
    """Return the score ⟨R(m)q, R(n)k⟩ in float64."""
    rotary = rotary or posenc.Rotary(q.shape[-1], pairing="half")
    rotated_q, rotated_k = (
        rotary.rotate_keys(x.view(1, 1, 1, -1), torch.tensor([at])) for x, at in ((q, at_q), (k, at_k))
    )
    return float((rotated_q * rotated_k).sum())


def plane_score(m: int, n: int, direction: int = 1) -> float:
    """Return the score in the lessons' widget: q = (1.5, 0.5) at m, k = (0.8, 1.0) at n, π/4 per position."""
    q, k = torch.tensor([Q, K], dtype=torch.float64)
    return float(rotate_pair(q, direction * m, "eighth") @ rotate_pair(k, direction * n, "eighth"))


@claim(
    statement="A rotary score depends only on the offset n − m.",
    precise="⟨R(m)q, R(n)k⟩ = ⟨q, R(n−m)k⟩ for every q and k, and rotation keeps norms.",
    verdict=Verdict.HOLDS,
    source=SU,
)
def offset_only() -> Evidence:
    q, k = draw(2, 64)
    x = draw(1, 1, 100, 64)
    rotated = posenc.Rotary(64, pairing="half").rotate_keys(x, torch.arange(100))
    return (
        *(
            # 64 products of numbers below 16 in float64; phases are off by p · 2^−64 turn, 3e-13 at 10^6.
            near(f"score at ({m}, {m + 7}) − at (0, 7)", score(q, k, m, m + 7) - score(q, k, 0, 7), 0.0, 1e-9)
            for m in (3, 1000, 10**6)
        ),
        below("change of a norm", float((rotated.norm(dim=-1) - x.norm(dim=-1)).abs().max()), 1e-12),
        below("change at position 0", float((rotated - x)[0, 0, 0].abs().max()), 0.0),
    )


@claim(
    statement="Moving every position by 5 leaves rotary scores unchanged.",
    precise="Scores are unchanged up to rounding, which grows with position for float32 angles but not for exact "
    "phases.",
    verdict=Verdict.HOLDS,
    source=SU,
)
def shift_by_five() -> Evidence:
    q, k = draw(2, 64)
    start = score(q, k, 4, 9)
    legacy = posenc.Rotary(64, pairing="half", phases="float32")
    drift = abs(score(q, k, 10**6 + 4, 10**6 + 9, legacy) - score(q, k, 4, 9, legacy))
    return (
        near("change at shift 5", score(q, k, 9, 14) - start, 0.0, 1e-10),
        near("change at shift 10⁶, exact phases", score(q, k, 10**6 + 4, 10**6 + 9) - start, 0.0, 1e-9),
        above("change at shift 10⁶, float32 angles", drift, 1e-3),
    )


@claim(
    statement="In the lesson “Position, three ways”, the widget's score is −1.100 if q and k are two positions "
    "apart.",
    precise="q·k is 1.700 unrotated and −1.100 at offset 2 (key − query); the opposite rotation gives +1.100.",
    verdict=Verdict.HOLDS,
    source=SU,
)
def widget_numbers() -> Evidence:
    by_offset = {0: 1.7, 1: 0.424, 2: -1.1, 4: -1.7, 8: 1.7}
    return (
        *(near(f"offset {n}", plane_score(0, n), value, 5e-4) for n, value in by_offset.items()),
        near("m=1, n=3", plane_score(1, 3), -1.1, 1e-12),
        near("m=3, n=5", plane_score(3, 5), -1.1, 1e-12),
        near("error at m=100, n=102", plane_score(100, 102) + 1.1, 0.0, 1e-13),
        near("offset −2", plane_score(2, 0), 1.1, 1e-12),
        # Rotating both q and k the wrong way is the same as negating the offset.
        near("both rotated the other way", plane_score(0, 2, direction=-1), 1.1, 1e-12),
    )


@claim(
    statement="With π/4 per position, the widget in “Position, three ways” exaggerates RoPE's rotation.",
    precise="RoPE's first pair turns by 1 radian (57.3°) per position, which is faster; only slow pairs are "
    "exaggerated.",
    verdict=Verdict.FAILS,
    source=SU,
)
def first_pair_is_faster_than_the_widget() -> Evidence:
    degrees = [360 * int(t) / 2**64 for t in posenc.Rotary(64, pairing="half").clock.turns[:4]]
    return (
        near("first pair (degrees per position)", degrees[0], 57.29578, 1e-4),
        same("pairs faster than 45°", sum(d > 45 for d in degrees), 1),
    )


@claim(
    statement="Rotary scores decay with distance.",
    precise="Only scores of aligned vectors (such as all ones) fall, and not monotonically. The scores of random "
    "vectors do not decay, and for any distance, some key's score is highest at that distance.",
    verdict=Verdict.FAILS,
    source="Su et al. 2021, section 3.4.3, against direct calculation; Barbero et al. 2024 (arXiv 2410.06205)",
)
def decay_with_distance() -> Evidence:
    aligned = scores(*contents("aligned", 64, 0, 0, 1e4), 1024)
    known = {0: 64.0, 1: 61.8, 2: 56.6, 4: 47.9, 128: 18.2, 256: 22.6, 512: 11.9, 1024: 16.8}
    q, k = contents("peaked", 64, 300, 0, 1e4)
    drawn_q, drawn_k = draw(2, 200, 1, 1, 64)
    back = torch.arange(0, 1025, 8)
    placed = posenc.Rotary(64, pairing="half").at(torch.tensor([1024]), 1024 - back, dtype=torch.float64)
    rotated_q, rotated_k = placed.rotate(drawn_q, drawn_k.expand(-1, -1, len(back), -1))
    sd = (rotated_k @ rotated_q.mT)[:, 0, :, 0].std(0)
    return (
        *(
            near(f"score of q = k = 1, 32 pairs, distance {d}", float(aligned[d]), value, 0.05)
            for d, value in known.items()
        ),
        same("distance at which a key built to peak at 300 peaks", int(scores(q, k, 1000).argmax()), 300),
        # With 200 draws, a standard deviation has an error of 5%; far and near each average 60 of them.
        near("random vectors: standard deviation far / near", float(sd[-60:].mean() / sd[:60].mean()), 1.0, 0.05),
    )


@claim(
    statement="RoPE pairs channels 2i and 2i+1.",
    precise="The paper, GPT-J and Meta's Llama code pair 2i and 2i+1; Llama in transformers pairs i and i+d/2. The "
    "outputs differ, but agree after one permutation of channels.",
    verdict=Verdict.WHEN,
    source="Su et al. 2021, section 3.2.2; public checkpoints",
)
def pairings() -> Evidence:
    x, at = draw(1, 1, 256, 64), torch.arange(256)
    rope = posenc.Rotary(64, pairing="half")
    half, interleaved = rope.rotate_keys(x, at), posenc.Rotary(64, pairing="interleaved").rotate_keys(x, at)
    permuted = rope.rotate_keys(x[..., half_from_interleaved(64)], at)[..., interleaved_from_half(64)]
    return (
        above("largest difference of the outputs on N(0, 1)", float((half - interleaved).abs().max()), 3.0),
        below("largest difference after the permutation", float((permuted - interleaved).abs().max()), 1e-14),
    )


def rotate_complex(
    x: Float[Tensor, "*batch T D"],
    cos: Float[Tensor, "*table T pairs"],
    sin: Float[Tensor, "*table T pairs"],
    pairing: Pairing,
) -> Float[Tensor, "*batch T D"]:
    """Rotate by a complex multiplication, (x + iy)·e^{iφ}, which is the same function as ``rotate``."""
    pairs = cos.shape[-1]
    rotary, tail = x[..., : 2 * pairs].to(cos.dtype), x[..., 2 * pairs :]
    split = rotary.unflatten(-1, (2, pairs)).mT if pairing == "half" else rotary.unflatten(-1, (pairs, 2))
    product = torch.view_as_real(torch.complex(split[..., 0], split[..., 1]) * torch.complex(cos, sin))
    product = product.mT if pairing == "half" else product
    return torch.cat((product.flatten(-2).to(x.dtype), tail), dim=-1)


@claim(
    statement="Rotation by real arithmetic and by complex multiplication are different methods.",
    precise="Both compute the same function, (x + iy)·e^{iφ}.",
    verdict=Verdict.FAILS,
    source="Touvron et al. 2023, Llama's published code",
)
def real_and_complex() -> Evidence:
    x, at = draw(2, 3, 16, 32), torch.arange(16)
    tables = posenc.Rotary(32, pairing="half").tables(at, torch.float64)
    ways: tuple[Pairing, ...] = ("half", "interleaved")
    off = {way: rotate(x, *tables, way) - rotate_complex(x, *tables, way) for way in ways}
    return tuple(below(f"difference, {way}", float(error.abs().max()), 1e-14) for way, error in off.items())


@claim(
    statement="θ is computed from d_model.",
    precise="θ is computed from the head's rotary dimension, so all heads share the same frequencies at any model "
    "width.",
    verdict=Verdict.FAILS,
    source=SU,
)
def frequencies_of_the_head() -> Evidence:
    q, k = draw(2, 1, 4, 8, 16)
    placed = posenc.Rotary(16, pairing="half").at(torch.arange(8), dtype=torch.float64)
    together = placed.rotate(q, k)[0]
    apart = torch.cat([placed.rotate(q[:, h : h + 1], k[:, h : h + 1])[0] for h in range(4)], 1)
    narrow, wide = Default().frequencies(16, 1e4).exact, Default().frequencies(64, 1e4).exact
    return (
        below("heads rotated together − rotated one by one", float((together - apart).abs().max()), 0.0),
        near("second frequency, head_dim 16", float(narrow[1]), 0.316228, 1e-6),
        near("second frequency, d_model 64", float(wide[1]), 0.749894, 1e-6),
    )


@claim(
    statement="RoPE puts positions into q, k and v.",
    precise="Values and embeddings are unchanged: if attention picks a single key, the output is its value, bit "
    "for bit.",
    verdict=Verdict.FAILS,
    source=SU,
)
def values_pass() -> Evidence:
    length, dim = 16, 8
    placed = posenc.Rotary(dim, pairing="half").at(posenc.positions.arange(length))
    x = draw(1, length, dim)
    v = draw(1, 1, length, dim, seed=1)
    q = draw(1, 1, length, dim, seed=2) * 1e4  # each query attends to a single key
    y = posenc.attention(*placed.rotate(q, q), v, placed)
    nearest = (y[0, 0, :, None] - v[0, 0, None]).abs().amax(-1).min(-1).values
    return (
        same("embeddings are unchanged", torch.equal(placed.embed(x), x), True),
        below("largest distance of an output from the nearest value", float(nearest.max()), 0.0),
    )


@claim(
    statement="In a model trained at 4096 and run at 8192, tokens less than 4096 apart behave as in training.",
    precise="For the same q and k the score is the same, but the output is not, because more keys share the "
    "softmax.",
    verdict=Verdict.WHEN,
    source="direct calculation",
)
def known_distances_in_a_longer_context() -> Evidence:
    q, k = draw(2, 64)
    inside, beyond = score(q, k, 4000, 500), score(q, k, 8000, 4500)
    weight = [float((torch.zeros(n)).softmax(-1)[0]) for n in (4096, 8192)]
    return (
        near("score at (8000, 4500) − at (4000, 500)", beyond - inside, 0.0, 1e-9),
        near("weight of one of 8192 equal keys / one of 4096", weight[1] / weight[0], 0.5, 1e-6),
    )
