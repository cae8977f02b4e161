"""Check the laws of the library and of its tests, one at a time, on randomly drawn encodings."""

import sys
from pathlib import Path
from random import Random

import torch
from tools.campaign import attention, rotation
from tools.campaign.core import Area, Case

from posenc.errors import InvalidArgument
from posenc.laws import Law, Subject
from posenc.laws.subject import ROWS

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from support.contracts import HERE  # type: ignore[import-not-found]

LAWS: dict[str, Law] = {law.name: law for law in HERE}
"""All laws except laws that compile, which take seconds."""
DRAWS = (attention.draw, attention.draw, rotation.draw)
CONSTANT = ("('units', 1)", "('units', 3)", "'turns': True", "'fraction': 0.0")
"""Settings with which an encoding may have no effect and so violate its declarations: FIRE with few units, rotation
by whole turns, and no rotation."""


class LawCase(Case):
    """An encoding from a case of another area, and a law that the encoding must obey."""

    def judge(self) -> None:
        torch.manual_seed(self.seed)
        try:
            encoding = self.case.build()
        except InvalidArgument:  # the encoding's own area tests refusals
            return
        kv_heads, group = (vars(self.case).get(name, 2) for name in ("kv_heads", "group"))
        subject = Subject.of(encoding, heads=kv_heads * group, kv_heads=kv_heads)
        law, constant = LAWS[self.law], any(words in repr(self.case) for words in CONSTANT)
        if encoding.position_limit >= ROWS and not constant and not law.why_not(subject):
            law(subject)


def draw(r: Random) -> LawCase:
    return LawCase(seed=r.getrandbits(32), case=r.choice(DRAWS)(r), law=r.choice([*LAWS]))


AREA = Area("laws", draw)
