"""The number of float32 roundings in each encoding's bias, which determines the tolerances of laws."""

from collections.abc import Callable
from typing import Any

from posenc.encodings.encoding import Encoding

ROUNDINGS: dict[str, Callable[[Any], int]] = {
    "cope": lambda cope: cope.head_dim + 4,
    "deberta": lambda deberta: deberta.head_dim + 4,
    "decomposed": lambda decomposed: len(decomposed.size) * (decomposed.head_dim + 2),
    "fire": lambda _: 16,  # two logarithms of products, a quotient, a value and a slope of all units
    "inkling": lambda inkling: inkling.basis + inkling.width + 4,
    "kerple": lambda _: 8,  # exponentials of two parameters, a distance, a product, a logarithm, a product
    "layoutlm": lambda _: 4,  # sums of several tables
    "sandwich": lambda _: 2,  # the factor, and the sum, which is computed in a wider type
    "shaw": lambda shaw: shaw.head_dim + 4,
    "stack": lambda stack: len([one for one in stack.encodings if "bias" in one.acts_on][1:]),  # their sum
    "transformer-xl": lambda xl: xl.width + xl.head_dim + 8,
}
"""The number of roundings by name, without the rounding of a factor and of the result. Each error is at most 2^-24
times the largest number of the bias, or of the products of its parameters with queries and keys. Encodings that are
not listed have no further roundings."""


def roundings(encoding: Encoding) -> int:
    """Return the number of roundings of an encoding and of all encodings inside it."""
    parts = [module for module in encoding.modules() if isinstance(module, Encoding)]
    return sum(ROUNDINGS[part.name](part) for part in parts if part.name in ROUNDINGS)
