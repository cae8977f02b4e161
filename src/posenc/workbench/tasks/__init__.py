"""One file per task: sequences, right answers, chance, and the gate that says a model has learnt it."""

from posenc.errors import UnknownName
from posenc.workbench.tasks.copying import Copying
from posenc.workbench.tasks.language import Language
from posenc.workbench.tasks.needle import Needle
from posenc.workbench.tasks.ordering import Ordering
from posenc.workbench.tasks.recent import Recent
from posenc.workbench.tasks.task import IGNORE as IGNORE
from posenc.workbench.tasks.task import Batch as Batch
from posenc.workbench.tasks.task import Task as Task
from posenc.workbench.tasks.text import Text as Text

TASKS: dict[str, type[Task]] = {t.name: t for t in (Language, Ordering, Needle, Recent, Copying)}


def task(name: str, text: Text, longest: int) -> Task:
    """The task of this name, tested up to ``longest`` tokens; only language reads the text."""
    if name not in TASKS:
        raise UnknownName("task", name, TASKS)
    return Language(text, longest) if name == "language" else TASKS[name]()
