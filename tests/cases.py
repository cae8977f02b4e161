"""What the laws run over: the whole catalogue, and the settings of each encoding that change its formula."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

import posenc
import reference
from posenc import ALiBi, Encoding, Learned, Rotary, Sinusoidal
from posenc.schedules import NTK, Proportional, YaRN
from posenc.workbench.transformer import Transformer, TransformerConfig

ROWS = 64
"""Rows of every learned table here; no law that all encodings owe leaves them."""


@dataclass(frozen=True)
class Case:
    """One encoding as one model would use it.

    Args:
        make: builds it.
        other: builds it with a setting that must change its result; None where there is no setting.
        formula: the same encoding in float64 from the paper; None where it has parameters only.
    """

    name: str
    make: Callable[[], Encoding]
    other: Callable[[], Encoding] | None = None
    formula: reference.Reference | None = None
    width: int = 32
    heads: int = 4
    kv_heads: int = 2

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    def build(self) -> Encoding:
        """The encoding, with the same parameters every time."""
        torch.manual_seed(1)
        return self.make()

    def model(self, *, causal: bool = True) -> Transformer:
        """A float64 transformer around it: float64, so that a law can ask for twelve digits."""
        config = TransformerConfig(
            17, width=self.width, layers=2, heads=self.heads, kv_heads=self.kv_heads, causal=causal
        )
        return Transformer(config, self.build()).initialise(0).double().requires_grad_(False)

    def __str__(self) -> str:
        return self.name


def by_name(name: str, width: int = 32) -> Callable[[], Encoding]:
    return lambda: posenc.encoding(name, width=width, heads=4, head_dim=width // 4, num_positions=ROWS)


OTHERS: dict[str, Callable[[], Encoding]] = {
    "sinusoidal": lambda: Sinusoidal(32, base=100.0),
    "learned": lambda: Learned(ROWS, 32, std=2.0),
    "learned-clamped": lambda: Learned(ROWS, 32, past_end="clamp", std=2.0),
    "rotary": lambda: Rotary(8, pairing="half", base=5e5),
    "alibi": lambda: ALiBi(4, max_exponent=4.0),
}
FORMULAS: dict[str, reference.Reference] = {
    "nope": reference.Reference(),
    "sinusoidal": reference.Sinusoids(32),
    "rotary": reference.Rotation(8, "half"),
    "alibi": reference.Slopes(reference.slopes(4)),
}
CATALOGUE = [Case(name, by_name(name), OTHERS.get(name), FORMULAS.get(name)) for name in posenc.CATALOGUE]

VARIANTS = [
    Case(
        "rotary-interleaved",
        lambda: Rotary(8, pairing="interleaved"),
        lambda: Rotary(8, pairing="interleaved", base=5e5),
        reference.Rotation(8, "interleaved"),
    ),
    Case(
        "rotary-partial",
        lambda: Rotary(8, pairing="half", rotary_dim=4),
        lambda: Rotary(8, pairing="half", rotary_dim=2),
        reference.Rotation(4, "half"),
    ),
    Case(
        "rotary-partial-interleaved",
        lambda: Rotary(8, pairing="interleaved", rotary_dim=6),
        lambda: Rotary(8, pairing="half", rotary_dim=6),
        reference.Rotation(6, "interleaved"),
    ),
    Case(
        "rotary-float32-phases",
        lambda: Rotary(8, pairing="half", phases="float32"),
        lambda: Rotary(8, pairing="half", phases="float32", base=5e5),
    ),
    Case(
        "rotary-ntk",
        lambda: Rotary(8, pairing="half", schedule=NTK(4.0)),
        lambda: Rotary(8, pairing="half", schedule=NTK(8.0)),
        reference.Rotation(8, "half", 1e4 * 4.0 ** (8 / 6)),
    ),
    Case(
        "rotary-yarn",
        lambda: Rotary(8, pairing="half", schedule=YaRN(4.0, 512, attention_factor=1.0)),
        lambda: Rotary(8, pairing="half", schedule=YaRN(8.0, 512, attention_factor=1.0)),
    ),
    Case(
        "rotary-proportional",
        lambda: Rotary(8, pairing="interleaved", schedule=Proportional(0.5)),
        lambda: Rotary(8, pairing="interleaved", schedule=Proportional(0.75)),
    ),
    Case(
        "sinusoidal-odd",
        lambda: Sinusoidal(15),
        lambda: Sinusoidal(15, scale=0.5),
        reference.Sinusoids(15),
        width=15,
        heads=3,
        kv_heads=1,
    ),
    Case(
        "sinusoidal-block",
        lambda: Sinusoidal(32, order="block"),
        lambda: Sinusoidal(32),
        reference.Sinusoids(32, "block"),
    ),
    Case(
        "sinusoidal-tensor2tensor",
        lambda: Sinusoidal(32, order="block", spacing="tensor2tensor"),
        lambda: Sinusoidal(32, order="block"),
        reference.Sinusoids(32, "block", "tensor2tensor"),
    ),
    Case(
        "alibi-12",
        lambda: ALiBi(12),
        lambda: ALiBi(12, max_exponent=16.0),
        reference.Slopes(reference.slopes(12)),
        width=48,
        heads=12,
        kv_heads=4,
    ),
]

CASES = CATALOGUE + VARIANTS
