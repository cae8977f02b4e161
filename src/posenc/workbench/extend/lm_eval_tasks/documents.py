"""The documents of a task: a long text with sentences hidden in it, a question, and its options."""

from typing import Any

import torch

from posenc.integrations.lm_eval import Tokens
from posenc.workbench.extend.forced_choice import Sheet
from posenc.workbench.tasks.text import load


def documents(task: str, pretrained: str, length: int = 4096, texts: int = 9, **_: Any) -> dict[str, Any]:
    """All questions of so many texts of this length in tokens of the model in ``pretrained``.

    The harness passes ``pretrained`` on from its model's arguments, ``length`` and ``texts`` from ``--metadata``.
    """
    from datasets import Dataset

    model: Any = Tokens(pretrained)
    tokens = model.encode(bytes(load(None).train.to(torch.uint8).numpy()))
    rows = []
    for sheet in (Sheet(task, number) for number in range(texts)):
        text = model.tokenizer.decode(sheet.haystack(model, tokens, length))
        for question, options, right in sheet.asked:
            prompt = text + question.split("{answer}")[0].rstrip(" ")
            rows.append({"text": prompt, "options": options, "right": options.index(right)})
    return {"test": Dataset.from_list(rows)}
