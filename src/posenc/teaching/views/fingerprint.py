"""What does adding a position do to a word's vector? The lessons' "cat", its position's code, and their sum."""

import torch

import posenc
from posenc.pictures.view import Heatmap, View, counted, labelled
from posenc.teaching.views.bounds import Position, bounded

CAT = (0.32, -0.71, 0.55, 0.18)

PYTHON = """\
import torch, posenc

cat = torch.tensor([[[{cat}]]])                  # (B, T, C)
placed = posenc.Sinusoidal(4).at(torch.tensor([{position}]))
print(placed.embed(cat))"""


@bounded
def added(position: Position = 0) -> View:
    """The word, PE(position) and the vector that the first layer reads."""
    encoding, at = posenc.Sinusoidal(4), torch.tensor([position])
    cat = torch.tensor([CAT])
    rows = torch.cat((cat, encoding.table(at), encoding.at(at).embed(cat[None])[0]))
    names = labelled("vector", ("cat", f"PE({position})", "sum"))
    return View(
        title=f"“cat” at position {position} is another vector than “cat” elsewhere",
        panels=(Heatmap("word + position", rows, names, counted("dimension", 4), "signed"),),
        python=PYTHON.format(cat=", ".join(map(str, CAT)), position=position),
    )
