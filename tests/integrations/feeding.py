"""Texts with a picture or a sound in them, for any small model that has a tower: by the names of what it takes."""

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from posenc.integrations.huggingface.measuring.senses import forms

TOWERS = {"image": "vision_config", "audio": "audio_config"}
TEXT = range(200, 300)
"""Token ids that no small model has a meaning for."""


class Feed:
    """A picture or a sound for a model, and the tokens that stand for it in a text.

    Args:
        kind: ``"image"`` or ``"audio"``.
        given: what the model is given of it, for one row.
        count: tokens that stand for it.
        token: their id.
    """

    def __init__(self, kind: str, form: Any, count: int, token: int) -> None:
        self.kind, self.form, self.count, self.token = kind, form, count, token

    def call(self, model: Any, texts: list[int]) -> dict[str, Tensor]:
        """A row for each number of tokens of text around the picture or sound; the shorter ones are left-padded."""
        ids, mask = [], []
        for number, length in enumerate(texts):
            text = [TEXT[(7 * number + i) % len(TEXT)] for i in range(length)]
            row = [*text[:2], *[self.token] * self.count, *text[2:]]
            empty = max(texts) - length
            ids.append([TEXT[0]] * empty + row)
            mask.append([0] * empty + [1] * len(row))
        tokens = torch.tensor(ids)
        found = {"input_ids": tokens, **self.form.given(len(texts), False, 0)}
        if not all(map(all, mask)):
            found["attention_mask"] = torch.tensor(mask)
        beside = {"mm_token_type_ids": (tokens == self.token).long()}
        return found | {key: value for key, value in beside.items() if key in _takes(model.forward)}


def feeds(model: Any) -> Iterator[Feed]:
    """What may be fed to a model, the first form of every tower that it takes."""
    for kind, key in TOWERS.items():
        config = getattr(model.config, key, None)
        ask = getattr(model, f"get_{kind}_features", None)
        token = getattr(model.config, f"{kind}_token_id", None)
        token = getattr(model.config, f"{kind}_token_index", None) if token is None else token
        if config is None or ask is None or token is None:
            continue
        for form in forms(model, config):
            try:
                yield Feed(kind, form, _count(model, ask, form), token)
                break
            except Exception:  # whatever a model's code raises for a shape that it is not made for
                continue


def _count(model: Any, ask: Any, form: Any) -> int:
    takes = _takes(ask)
    given = {key: getattr(model.config, key) for key in takes if hasattr(model.config, key)} | form.given(
        1, False, 0
    )
    with torch.no_grad():
        found = ask(**{key: value for key, value in given.items() if key in takes})
    found = getattr(found, "pooler_output", found)
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    return sum(one.numel() for one in found) // found[0].shape[-1]


def _takes(function: Any) -> set[str]:
    return {*inspect.signature(function).parameters}
