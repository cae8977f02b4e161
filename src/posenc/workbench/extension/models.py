"""Language models, pretrained or from a study, that score a text with any scaling of their rotary layers."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from posenc.encodings.encoding import Encoding
from posenc.encodings.text import parse
from posenc.errors import InvalidArgument, StudyError
from posenc.scaling import LengthScaling, Scaling, planned
from posenc.workbench.report.words import names
from posenc.workbench.run.training import encoding
from posenc.workbench.run.transformer import Transformer
from posenc.workbench.study.study import source_of
from posenc.workbench.study.trained_weights import plans_of, trained_model
from posenc.workbench.tasks.text import Text, load

if TYPE_CHECKING:  # the module needs transformers
    from posenc.integrations.huggingface.load import Pretrained

Tick = Callable[[float], None]
"""A callback that receives a share of the work on a document: the share done since the previous call."""


def part_of(tick: Tick, share: float) -> Tick:
    """Return a callback for one part of the work on a document; ``share`` is the size of the part, from 0 to 1."""
    return lambda part: tick(part * share)


LanguageModel: TypeAlias = "StudyModel | Pretrained"
"""A model that scores a text with any scaling of its rotary layers.

``scaling`` is the scaling in the model's config. ``original_length`` is the model's trained length.
``pretrained_length`` is the trained length before any scaling, and is the length that methods extend.
``with_scaling`` returns the encoding with a new scaling for a request of a given length; a scaling of None turns
rotation off. ``unit`` is ``"token"`` or ``"byte"``, ``identity`` is a hash that identifies the weights, and
``learning_rate`` is the learning rate of a fine-tune. Inside a ``with model.placed(encoding):`` block, ``logits``
uses that encoding. A pretrained model also has a config.
"""


TUNING = 8
"""The ratio of the learning rate in training to the learning rate in a fine-tune."""


class StudyModel:
    """A rotary transformer that ``posenc compare`` trained on the task ``language``."""

    unit = "byte"

    def __init__(
        self, model: Transformer, identity: str, original_length: int, name: str, learning_rate: float = 1e-3
    ) -> None:
        assert model.encoding.scaling is not None
        self.model, self.identity, self.original_length, self.name = model, identity, original_length, name
        self.pretrained_length, self.learning_rate = original_length, learning_rate
        self.scaling: Scaling | LengthScaling = model.encoding.scaling

    def encode(self, data: bytes) -> Int[Tensor, " n"]:
        """Return the bytes of the text as tokens."""
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).long()

    def losses(
        self,
        tokens: Int[Tensor, " T+1"],
        encoding: Encoding | None,
        tick: Tick = lambda share: None,
    ) -> Float[Tensor, " T"]:
        """Return the loss of each byte in ``tokens[1:]`` in nats, given all earlier bytes. If ``encoding`` is None,
        the model uses its own encoding."""
        with torch.inference_mode(), nullcontext() if encoding is None else self.placed(encoding):
            logits = self.logits(tokens[None, :-1])[0]
        tick(1.0)
        return F.cross_entropy(logits, tokens[1:].to(logits.device), reduction="none").cpu()

    def with_scaling(self, scaling: Scaling | LengthScaling | None, total_length: int) -> Encoding:
        """Return the model's encoding with a new scaling, planned for a request of ``total_length`` tokens.

        The scaling applies to the layers without sliding-window attention, or to all layers if all use sliding
        windows. None removes their rotation. Angles are float32, as in pretrained models.
        """
        return self.model.encoding.with_scaling(
            None if scaling is None else planned(scaling, total_length), "float32"
        )

    @contextmanager
    def placed(self, encoding: Encoding) -> Iterator[None]:
        """Make the model use ``encoding`` inside the block."""
        before, self.model.encoding = self.model.encoding, encoding
        try:
            yield
        finally:
            self.model.encoding = before

    def logits(
        self, rows: Int[Tensor, "B T"], positions: Int[Tensor, " T"] | None = None
    ) -> Float[Tensor, "B T V"]:
        """Return logits with gradients. By default, ``positions`` are 0, 1, 2, …."""
        device = self.model.embedding.weight.device
        return self.model(rows.to(device), None if positions is None else positions.to(device)).float()

    def copied(self, identity: str) -> "StudyModel":
        """Return the same model with a copy of its weights."""
        return StudyModel(copy.deepcopy(self.model), identity, self.original_length, self.name, self.learning_rate)

    def check_memory(self, length: int) -> None:
        """Do nothing, because these models are so small that memory suffices in practice."""


def study_model(study: Path, text: Text, device: str) -> StudyModel:
    """Return the model of a study's rotary run on the task ``language``. A run of plain ``rotary`` with the first
    seed is preferred.

    Raises:
        StudyError: the study has no rotary run that was trained on bytes, the weights of the run are missing, or
            the run was trained on another text.
    """
    known = [p for p in plans_of(study) if not parse(p.encoding).foreign]  # no custom module is imported
    read = [plan for plan in known if plan.tokenizer == "bytes"]
    for plan in sorted(  # runs on this text come first; others may have read another text
        read, key=lambda p: (p.text_sha256 != text.sha256, p.encoding != "rotary", p.seed, -p.steps)
    ):
        if encoding(plan).scaling is not None:
            model, rate = trained_model(study, plan, text, device), plan.learning_rate / TUNING
            return StudyModel(model, plan.id, plan.train_length, f"{names(known)[plan.id]} of {study}", rate)
    if len(read) < len(known):
        raise StudyError(
            f"the study {str(study)!r} was trained with a tokenizer, but extend needs a study that was trained on "
            f"bytes; create one with: posenc compare --tokenizer bytes --output {study}"
        )
    raise StudyError(
        f"{str(study)!r} has no run of rotary on the task 'language' that did not diverge; create it with: posenc "
        f"compare --output {study}"
    )


def open_model(path: Path, text: Path | None, device: str, dtype: str) -> tuple[LanguageModel, bytes, Text]:
    """Open the model at ``path``, and return it with the bytes to score and the text that contains them.

    ``path`` is the folder of a study (``posenc compare``), a Hugging Face folder, or a .gguf file. For a study's
    model, the bytes are the held-out part of the text; for other models, they are the whole text.

    Raises:
        InvalidArgument: a study's model is to have another dtype than the default. It keeps that of its training.
    """
    is_study = (path / "ledger.sqlite").exists()
    if is_study and dtype != "float32":
        raise InvalidArgument(
            f"dtype={dtype!r} applies only to a Hugging Face folder or a .gguf file; omit it, because the model of "
            "a study keeps the dtype of its training"
        )
    read = load(source_of(path).text if is_study and text is None else text)
    model = study_model(path, read, device) if is_study else open_pretrained(path, device, dtype)
    parts = (read.validation,) if is_study else (read.train, read.validation)
    return model, bytes(torch.cat(parts).to(torch.uint8).numpy()), read


def open_pretrained(path: Path, device: str, dtype: str, other: str = "a study of posenc compare") -> "Pretrained":
    """Open the model in a Hugging Face folder or a .gguf file.

    ``other`` describes another kind of input that the caller accepts. If there is no model at ``path``, the error
    message lists ``other`` first, then a Hugging Face folder and a .gguf file.
    """
    if path.suffix != ".gguf" and not (path / "config.json").exists():
        raise StudyError(
            f"no model at {str(path)!r}; pass {other}, a Hugging Face folder with its config.json, or a .gguf "
            "file; posenc downloads nothing"
        )
    from posenc.integrations.huggingface.load import Pretrained

    return Pretrained.from_path(path, device=device, dtype=getattr(torch, dtype))
