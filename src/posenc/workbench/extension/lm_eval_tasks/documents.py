"""The documents of a task. Each has a long text with hidden sentences, a question about them, and options."""

from typing import Any

import torch

from posenc.integrations.lm_eval import tokenizer_of
from posenc.workbench.extension.forced_choice import Sheet
from posenc.workbench.tasks.text import load


def documents(task: str, pretrained: str, length: int = 4096, texts: int = 9, **_: Any) -> dict[str, Any]:
    """Return all questions about the first ``texts`` texts, as the split ``test``.

    A text, the longest question about it and the answer to this question have ``length`` tokens in total, counted
    with the tokenizer of the model ``pretrained``. The harness passes ``pretrained`` from the arguments of its
    model, and ``length`` and ``texts`` from ``--metadata``.
    """
    from datasets import Dataset

    tokenizer = tokenizer_of(pretrained)

    def encode(text: str) -> torch.Tensor:
        return torch.tensor(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    tokens = encode(bytes(load().train.to(torch.uint8).numpy()).decode("utf-8", "replace"))
    rows = []
    for sheet in (Sheet(task, number) for number in range(texts)):
        text = tokenizer.decode(sheet.haystack(encode, tokens, length))
        for question, options, right in sheet.asked:
            prompt = text + question.split("{answer}")[0].rstrip(" ")
            rows.append({"text": prompt, "options": options, "right": options.index(right)})
    return {"test": Dataset.from_list(rows)}
