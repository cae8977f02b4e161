"""Open questions as interviews ask them: the reader answers in words, then compares."""

from posenc.workbench.lab.card import Card

INTERVIEW = (
    Card(
        "interview-sin-learned",
        "table",
        2,
        "Sinusoidal or learned positions: what does each give, and what does it cost?",
        "Sinusoidal: no parameters, any position computable, similarity with structure. Learned: flexible, but "
        "capped at its rows, and every row needs training. In range their quality is about equal.",
    ),
    Card(
        "interview-derive",
        "clock",
        3,
        "Show that sinusoidal codes carry relative position. Which transform takes PE(p) to PE(p + k)?",
        "sin a sin b + cos a cos b = cos(a − b), so PE(p)·PE(q) = Σ cos(θᵢ (p − q)). By the sum of angles "
        "PE(p + k) = R(k) PE(p), where R(k) is block-diagonal with a rotation per pair: orthogonal, norms stay.",
    ),
    Card(
        "interview-frequencies",
        "clock",
        3,
        "Why different frequencies? What if all were equal?",
        "With one frequency the code is one circle: positions a wavelength apart collide, and only one scale is "
        "resolved. A geometric ladder resolves neighbours with fast pairs and long ranges with slow ones.",
    ),
    Card(
        "interview-extrapolate",
        "length",
        2,
        "Your model must read texts longer than it was trained on. How does each encoding fare?",
        "A learned table fails by construction. Sinusoidal and plain RoPE degrade once angles are unseen. ALiBi "
        "stays level but local. RoPE holds after its frequencies are rescaled, best with brief tuning.",
    ),
    Card(
        "interview-rope-standard",
        "rotation",
        3,
        "Why did RoPE become the standard over sinusoidal codes?",
        "It multiplies q and k in every layer instead of adding to the input once. Scores depend on the offset, "
        "values stay clean, there are no parameters, and contexts can be extended by rescaling.",
    ),
    Card(
        "interview-alibi-rope",
        "bias",
        2,
        "ALiBi against RoPE: where does each win?",
        "ALiBi is a linear penalty with strong recency, no parameters, and level loss at any length. RoPE's phase "
        "depends on content, so far tokens stay reachable, and it can be extended.",
    ),
    Card(
        "interview-million",
        "length",
        3,
        "Design the positions of a model for a million tokens.",
        "Rescaled RoPE (YaRN, LongRoPE) or a mix of RoPE and NoPE layers; phases exact at 10⁶; a query scale that "
        "grows with position; a cache that stays consistent when frequencies change; biases that need no L × L "
        "memory; needle tests, because perplexity alone does not show that far text is used.",
    ),
)
