"""``posenc.workbench.extend``: scores long documents with each method that extends a model's context, and chooses
one."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from posenc.errors import InvalidArgument
from posenc.scaling import NTK, Default
from posenc.workbench.extension.decision import Candidate, Extension
from posenc.workbench.extension.longppl import Evaluator
from posenc.workbench.extension.measure import Request, in_buckets, measure
from posenc.workbench.extension.methods import methods as named
from posenc.workbench.extension.models import LanguageModel, StudyModel, open_model, open_pretrained
from posenc.workbench.files import write_texts
from posenc.workbench.launch.launcher import choose
from posenc.workbench.report import extension as report
from posenc.workbench.report import terminal
from posenc.workbench.run.checkpoint import load_weights
from posenc.workbench.run.footprint import check_disk
from posenc.workbench.run.ledger import Ledger


@dataclass(frozen=True, repr=False)
class Extended:
    """The decision of ``extend`` and the files that it wrote. Its repr is what ``posenc extend`` prints at the end.

    Args:
        extension: the losses by method, document and position, with all ``candidates`` and the ``chosen``
            candidate.
        folder: the folder with the ledger, ``report.html`` and ``extension.json``.
        patch: the contents of ``config-patch.json``, which are the keys to change in config.json; None unless the
            chosen candidate changes the config and nothing else.
        fingerprint: a hash of the positional encoding that the model has with ``patch``, from
            ``posenc.integrations.fingerprint``; empty without a patch.
        tuned: the candidate whose fine-tuned model is in ``folder/tuned``: the chosen candidate, or else the best
            candidate that config.json can express; None if no model was stored.
    """

    extension: Extension
    folder: Path
    patch: dict[str, Any] | None = None
    fingerprint: str = ""
    tuned: Candidate | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the contents of ``extension.json``."""
        return report.as_json(self.extension)

    def __rich__(self) -> Any:
        return report.printed(self.extension, self._files())

    def _files(self) -> Iterator[str]:
        """Yield the lines that name the written files."""
        if self.patch:
            yield f"config  {self.folder}/config-patch.json; commands for servers: posenc inspect --for"
            yield f"        its fingerprint, for CI: {self.fingerprint}"
        if self.tuned:
            yield f"tuned   {self.folder}/tuned/, {self.tuned.label}"
        yield f"page    {self.folder}/report.html"

    def __repr__(self) -> str:
        text = StringIO()
        terminal.Console(file=text, width=120).print(self, soft_wrap=True)
        return text.getvalue()


def extend(
    model: str | Path,
    to: int | str = "",
    *,
    replace_scaling: bool = False,
    text: str | Path | None = None,
    methods: Sequence[str] | None = None,
    documents: int = 8,
    finetune: int | None = None,
    positions: str = "counted",
    seed: int = 0,
    longppl: str | Path | None = None,
    beta_fast: float = 32.0,
    device: str = "cpu",
    dtype: str = "float32",
    launcher: str = "in-process",
    output: str | Path | None = None,
    console: terminal.Console | None = None,
    command: str = "",
) -> Extended:
    """Score long documents with each method that extends the model's context, and choose a method, as
    ``posenc extend`` does.

    Args:
        model: the folder of a study that ``posenc compare`` wrote, a Hugging Face folder, or a .gguf file.
        to: the target length. It is either a number of tokens, such as ``16384``, or a multiple of the trained
            length, such as ``"4x"``, and is rounded down to a multiple of a quarter of the trained length. The
            default is ``"8x"`` for a study, else ``"2x"``.
        replace_scaling: replace the scaling in the model's config; if False, a config with a scaling is refused.
        text: a file to read instead of the default text. A study's model reads only the text it was trained on.
        methods: names of methods, such as ``"yarn(2)"`` for YaRN with factor 2; by default all scalings except
            ``ntk-fixed`` and ``abf``.
        documents: the largest number of documents to score.
        finetune: the training steps of each method's fine-tune; by default 60 for a study and 0 for other models.
        positions: the positions in a fine-tune: ``"counted"`` (0, 1, 2, …) or ``"pose"`` (drawn by PoSE).
        seed: the seed for drawing the windows of a fine-tune and the positions of PoSE.
        longppl: the model that picks the key tokens of LongPPL: ``"self"``, a folder or a .gguf file.
        beta_fast: YaRN does not scale pairs that complete more turns than this within the trained length.
        device, dtype: the device and dtype of weights and activations; dtype is ``"float32"`` or, except for a
            study, ``"bfloat16"``.
        launcher: where the work runs: in this process (``"in-process"``), in several processes on this machine
            (``"local"``), or on a Ray cluster (``"ray"``).
        output: the folder for ``report.html`` and for the scores, which a later call reuses; by default
            ``extension`` in the model's folder, or in the current folder if the model is a file.
        console, command: the console for progress, and the command line that ``report.html`` shows.

    Raises:
        InvalidArgument: an argument is invalid, or cannot be used with this model.
        StudyError: the model or text cannot be read, the text is too short, or memory or disk space is too small.
    """
    path, console = Path(model), console or terminal.SILENT
    folder = _folder(path, output)
    asked = Request(0, documents, (), finetune or 0, dtype, device, positions, seed)
    launch = choose(launcher)
    opened, data, read = open_model(path, None if text is None else Path(text), device, dtype)
    length = _length(opened, str(to), replace_scaling)
    factor = max(1.0, length / opened.pretrained_length)
    chosen = named(methods, opened.scaling, opened.pretrained_length, factor, beta_fast)
    steps = 60 * isinstance(opened, StudyModel) if finetune is None else finetune
    request = replace(asked, length=length, methods=chosen, finetune=steps)
    picks = opened if longppl in (None, "self") else open_pretrained(Path(str(longppl)), device, dtype, "self")
    evaluator = None if longppl is None else Evaluator(picks)
    with _begun(opened, request, folder, console) as (ledger, bar):
        measured = measure(opened, data, read, request, ledger, launch, bar.advance, evaluator, bar.expect)
    return written(opened, measured, folder, command)


def _folder(model: Path, output: str | Path | None) -> Path:
    """Return the folder for ``report.html`` and the scores; raise InvalidArgument for the folder of a study."""
    folder = Path(output or (model / "extension" if model.is_dir() else "extension"))
    if (folder / "study.toml").exists():
        raise InvalidArgument(
            f"output={str(folder)!r} is the folder of a study, whose page would be replaced; choose another folder"
        )
    return folder


@contextmanager
def _begun(
    model: LanguageModel, request: Request, folder: Path, console: terminal.Console
) -> Iterator[tuple[Ledger, terminal.Going]]:
    """Open the ledger and a progress bar. For a study's model, which is small, torch uses one thread until both are
    closed.
    """
    _announce(console, model, request, folder)
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if isinstance(model, StudyModel) else threads)
    try:
        with Ledger(folder, write=True) as ledger, terminal.bar(console, "scoring", 0, f"{model.unit}s") as bar:
            yield ledger, bar
    finally:
        torch.set_num_threads(threads)


def _length(model: LanguageModel, to: str, replace_scaling: bool) -> int:
    """Return the number of tokens given as ``"4x"`` or ``"16384"``, rounded down to whole buckets.

    If the config has a scaling, the model was tuned with that scaling up to ``model.original_length`` tokens. A
    greater length is then refused unless ``replace_scaling`` is True and the scaling is not NTK, which acts within
    that length too.
    """
    ours = isinstance(model, StudyModel)
    to = to or ("8x" if ours else "2x")
    try:
        length = round(float(to[:-1]) * model.original_length) if to.endswith("x") else int(to)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"to={to!r} must be a number of tokens, or a multiple such as 4x") from error
    if (
        not ours
        and model.scaling != Default()
        and length > model.original_length
        and (not replace_scaling or isinstance(model.scaling, NTK))
    ):
        raise InvalidArgument(
            f"the config of {model.name} sets {model.scaling}, with which the model was tuned for "
            f"{model.original_length} tokens; "
            + (
                "fold it into rope_theta first"
                if isinstance(model.scaling, NTK)
                else f"add --replace-scaling to use a scaling for {length} tokens"
            )
        )
    return in_buckets(length, model.original_length)[0]


def _announce(console: terminal.Console, model: LanguageModel, request: Request, folder: Path) -> None:
    """Print the request and the memory that it needs, and refuse fine-tunes whose weights do not fit on the
    disk."""
    console.print(
        f"{model.name}, trained to {model.original_length}, extended to {request.length}; writing to {folder}/"
    )
    if isinstance(model, StudyModel):
        return
    console.print(
        f"memory  {model.weights / 2**30:.2f} GiB of weights, and up to {model.memory(request.length) / 2**30:.2f} "
        "GiB more for scoring"
    )
    if request.finetune:  # weights for each method, and a folder for the best one
        check_disk((len(request.methods) + 1) * model.weights, folder, len(request.methods), "fine-tune")


def written(model: LanguageModel, extension: Extension, folder: Path, command: str) -> Extended:
    """Write the page of an extension, the keys for config.json, and the fine-tuned model."""
    extended, patch = Extended(extension, folder), config_patch(model, extension)
    report.write(extension, folder, command, patch)
    (folder / "config-patch.json").unlink(missing_ok=True)  # left by an earlier decision
    if isinstance(model, StudyModel):
        return extended
    if patch:
        from posenc.integrations.fingerprint import fingerprint
        from posenc.integrations.huggingface.config import read
        from posenc.integrations.position_table import of
        from posenc.integrations.programs import laid_over

        write_texts(folder, {"config-patch.json": json.dumps(patch, indent=2) + "\n"})
        extended = replace(
            extended, patch=patch, fingerprint=fingerprint(of(read(laid_over(model.positions.source, patch))))
        )
    for tuned in (extension.chosen, *extension.candidates):  # the rest are sorted by loss
        if tuned.plan and tuned.method.scaling and not tuned.method.remap:
            length = extension.original_length if tuned.cut else extension.length
            model.save(folder / "tuned", load_weights(folder, tuned.plan), tuned.method.scaling, length)
            return replace(extended, tuned=tuned)
    return extended


def config_patch(model: LanguageModel, extension: Extension) -> dict[str, Any] | None:
    """Return the keys to change in a pretrained model's config.json; None unless the chosen candidate changes the
    config and nothing else."""
    scaling = extension.chosen.method.scaling
    if isinstance(model, StudyModel) or scaling is None or extension.change(extension.chosen) != "config":
        return None
    return model.patch(scaling, extension.length)
