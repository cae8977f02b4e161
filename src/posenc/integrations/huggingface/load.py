"""Opens a local Hugging Face model, a folder with safetensors or a GGUF file, to score text under any schedule.

Long texts stay within memory: the trunk runs once without a cache, and the output layer a few rows at a time.
"""

import copy
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from posenc.encodings import Encoding
from posenc.errors import MissingExtra, StudyError
from posenc.integrations.huggingface.config import read
from posenc.integrations.huggingface.patch import patched
from posenc.schedules import LengthSchedule, Schedule

ROWS = 512
"""Positions whose logits exist at a time."""
EDGE = 2**20
"""Bytes at either end of a weight file that its identity is made from, beside its size."""


class Pretrained:
    """A causal language model from ``path`` with its tokenizer.

    Args:
        path: a folder with config.json and safetensors, or a .gguf file.
        device, dtype: where and in which type to run.

    Raises:
        StudyError: missing, truncated or incomplete weights, or no tokenizer.
        InvalidArgument: a model without rotary positions, or with a config that ``read`` refuses.
    """

    unit = "token"
    learning_rate = 2e-5
    """Of a fine-tune: small, so that what the model knows stays."""

    def __init__(self, path: Path, *, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        folder, extra = (path.parent, {"gguf_file": path.name}) if path.suffix == ".gguf" else (path, {})
        if not extra:
            _ = read(folder).stretched  # refused before anything large is loaded
        model, self.tokenizer = _open(path, folder, extra, dtype)
        self.model: Any = model.eval().to(device)
        self.positions = read(self.model.config)
        self.schedule = self.positions.rotary.get("schedule")
        self.original_length = self.positions.original_length
        self.name = path.stem if extra else path.resolve().name
        self.identity = _identity(path)

    def encode(self, data: bytes) -> Int[Tensor, " n"]:
        """Text to tokens, without special ones."""
        text = data.decode("utf-8", "replace")
        ids = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return torch.tensor(ids, dtype=torch.int64)

    def losses(
        self, tokens: Int[Tensor, " T+1"], encoding: Encoding, tick: Callable[[float], None] = lambda share: None
    ) -> Float[Tensor, " T"]:
        """Nats per token for tokens[1:], each given all before it, with ``encoding`` for positions.

        ``tick`` is called with the share of the work that was just done, layer by layer.
        """
        device = self.model.device
        with torch.inference_mode(), self.placed(encoding):
            with self._ticking(tick) as trunk:
                hidden = trunk(tokens[None, :-1].to(device), use_cache=False).last_hidden_state[0]
            targets = tokens[1:].to(device)
            parts = [
                F.cross_entropy(self._logits(hidden[i : i + ROWS]), targets[i : i + ROWS], reduction="none")
                for i in range(0, len(targets), ROWS)
            ]
        return torch.cat(parts).cpu()

    def answers(
        self,
        context: Int[Tensor, " T"],
        questions: Sequence[Int[Tensor, " n"]],
        encoding: Encoding,
        tick: Callable[[float], None] = lambda share: None,
    ) -> Float[Tensor, "questions V"]:
        """Logits of the token that follows each question, each asked alone after ``context``, which is read once.

        Every question reads a copy of the cached keys, since caches of sliding windows cannot be cut back.
        """
        device = self.model.device
        with torch.inference_mode(), self.placed(encoding):
            with self._ticking(tick) as trunk:
                read = trunk(context[None].to(device), use_cache=True).past_key_values
            ends = [
                trunk(q[None].to(device), past_key_values=copy.deepcopy(read), use_cache=True).last_hidden_state[
                    0, -1
                ]
                for q in questions
            ]
            return self._logits(torch.stack(ends)).cpu()

    @contextmanager
    def _ticking(self, tick: Callable[[float], None]) -> Iterator[Any]:
        """The trunk; inside, every layer that is done calls ``tick`` with its share of a pass."""
        trunk = getattr(self.model, self.model.base_model_prefix)
        blocks = next(m for m in trunk.children() if isinstance(m, nn.ModuleList))
        with ExitStack() as hooks:
            for block in blocks:
                hooks.callback(block.register_forward_hook(lambda *_: tick(1 / len(blocks))).remove)
            yield trunk

    def rescaled(self, schedule: Schedule | LengthSchedule | None, total_length: int) -> Encoding:
        """The model's positions for a request of this length, the stretched layers under another schedule.

        Angles are float32, as transformers and the servers compute them: the numbers are those of the config.
        """
        return self.positions.rescaled(schedule).as_layers(total_length, "float32")

    def placed(self, encoding: Encoding) -> AbstractContextManager[nn.Module]:
        """Inside, the model has ``encoding``."""
        return patched(self.model, encoding)

    def logits(self, rows: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Logits with gradients, all at once."""
        logits: Tensor = self.model(rows.to(self.model.device), use_cache=False).logits.float()
        return logits

    def copied(self, identity: str) -> "Pretrained":
        """The same model with weights of its own."""
        other = copy.copy(self)
        other.model, other.identity = copy.deepcopy(self.model), identity
        return other

    def _logits(self, hidden: Tensor) -> Tensor:
        """The output layer, with the scalings that Cohere, Granite and Gemma 2 put after it."""
        config = self.model.config
        logits: Tensor = self.model.get_output_embeddings()(hidden).float()
        if getattr(config, "logit_scale", None):
            logits = logits * config.logit_scale
        if getattr(config, "logits_scaling", None):
            logits = logits / config.logits_scaling
        cap = getattr(config, "final_logit_softcapping", None)
        return cap * torch.tanh(logits / cap) if cap else logits

    def check_memory(self, length: int, *, cached: bool = False) -> None:
        """Refuse a length whose activations would not fit into free memory; say which would.

        A layer holds about ten rows of the model's width and three of its feed-forward part per position at
        once, and ``ROWS`` rows of logits exist twice. With ``cached`` the keys and values of all layers do too.
        """
        config = self.model.config
        size = next(self.model.parameters()).element_size()
        per_position = (
            10 * config.hidden_size + 3 * getattr(config, "intermediate_size", 4 * config.hidden_size)
        ) * size
        if cached:
            heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
            per_position += 4 * config.num_hidden_layers * heads * self.positions.rotary.get("head_dim") * size
        fixed = 2 * 4 * ROWS * config.vocab_size
        free = free_memory(self.model.device)
        fits = (free - fixed) // per_position
        if length > fits:
            raise StudyError(
                f"length {length} needs about {(fixed + length * per_position) / 2**30:.1f} GiB beside the weights "
                f"and {free / 2**30:.1f} GiB are free; about {max(0, fits) // 1024 * 1024} tokens fit"
            )


def free_memory(device: torch.device) -> int:
    """Bytes that can still be used there."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _open(path: Path, folder: Path, extra: dict[str, str], dtype: torch.dtype) -> tuple[nn.Module, Any]:
    """Model and tokenizer; whatever transformers says when it cannot becomes one line."""
    if not path.exists():
        raise StudyError(f"{str(path)!r} is not there; pass a model's folder or a .gguf file")
    try:
        import transformers
    except ImportError as error:
        raise MissingExtra("transformers", "hf") from error
    before, bars = transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):  # the GGUF reader's own progress bar
            model, info = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, local_files_only=True, output_loading_info=True, **extra
            )
        missing = sorted(info["missing_keys"])
        if missing:
            raise StudyError(
                f"{str(path)!r} lacks {len(missing)} weights, {missing[0]} first; download the model again"
            )
        return model, transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, **extra)
    except StudyError:
        raise
    except Exception as error:  # transformers, safetensors and gguf each have exceptions of their own
        reason = str(error).strip().splitlines()[0]
        raise StudyError(f"{str(path)!r} cannot be loaded: {reason}; download the model again") from error
    finally:
        transformers.logging.set_verbosity(before)
        if bars:
            transformers.logging.enable_progress_bar()


def _identity(path: Path) -> str:
    """Sixteen hexadecimal digits from the config and from sizes and ends of the weight files."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted([*path.glob("*.safetensors"), *path.glob("*.bin")])
    config = path / "config.json"
    if config.exists():
        digest.update(json.dumps(json.loads(config.read_text()), sort_keys=True).encode())
    for file in files:
        size = file.stat().st_size
        with file.open("rb") as stream:
            head = stream.read(EDGE)
            stream.seek(max(0, size - EDGE))
            digest.update(f"{file.name} {size}".encode() + head + stream.read(EDGE))
    return digest.hexdigest()[:16]
