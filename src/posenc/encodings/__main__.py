"""``python -m posenc.encodings alibi`` prints ALiBi's formula and reference, and eight values that it computes.

The formula and the reference are in the docstring of the encoding's module.
"""

import argparse
import inspect

import torch
from torch import Tensor

import posenc

WIDTH, HEADS, HEAD_DIM, KEYS = 64, 4, 16, 9
AT = "width 64, 4 heads of 16 channels, untrained weights from seed 0"


def scores(encoding: posenc.Encoding) -> Tensor:
    """Return the causal scores of head 0, ``(KEYS, KEYS)``, for queries and keys filled with ones."""
    at = posenc.positions.on_axes(torch.arange(KEYS), encoding.axes)
    placed, _ = encoding.at(at).with_content(torch.ones(1, KEYS, WIDTH))
    q, k = placed.rotate(*torch.ones(2, 1, HEADS, KEYS, HEAD_DIM))
    return posenc.scores(q, k, placed, causal=True)[0, 0].detach()


def numbers(encoding: posenc.Encoding) -> tuple[str, Tensor]:
    """Return eight values that the encoding computes, and a title for these values."""
    if "embeddings" in encoding.acts_on:
        at = posenc.positions.on_axes(torch.tensor([1]), encoding.axes)
        return "added to the token at position 1, first 8 channels", encoding.at(at).embed(
            torch.zeros(1, 1, WIDTH)
        )[0, 0]
    if encoding.acts_on == ("scale",):
        return "scores of queries at positions 1 to 8 with a key at 0, all filled with ones", scores(encoding)[
            1:, 0
        ]
    return "scores of a query at position 8 with keys at 0 to 7, all filled with ones", scores(encoding)[-1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m posenc.encodings", description=__doc__)
    parser.add_argument("name", choices=sorted(posenc.CATALOGUE))
    asked = parser.parse_args()
    torch.manual_seed(0)
    encoding = posenc.encoding(asked.name, width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, num_positions=KEYS)
    print(inspect.getdoc(inspect.getmodule(type(encoding))))
    what, values = numbers(encoding)
    print(f"\n{what} ({AT}):\n{' '.join(f'{value:.4f}' for value in values[:8].tolist())}")
    print(f"\na figure: posenc show attention --set encoding={asked.name} --set causal=true")


if __name__ == "__main__":
    main()
