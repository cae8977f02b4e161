"""One file per task: sequences, right answers, chance, and the gate that shows that a model has learned it."""

from importlib import import_module

from posenc.arguments import one_of
from posenc.workbench.run import settings
from posenc.workbench.tasks.language import Language
from posenc.workbench.tasks.task import IGNORE as IGNORE
from posenc.workbench.tasks.task import Batch as Batch
from posenc.workbench.tasks.task import Criteria as Criteria
from posenc.workbench.tasks.task import DrawnTask
from posenc.workbench.tasks.task import RecordedCriteria as RecordedCriteria
from posenc.workbench.tasks.task import Task as Task
from posenc.workbench.tasks.text import Source as Source
from posenc.workbench.tasks.text import Text as Text

TASKS: dict[str, type[Task]] = {
    name: getattr(import_module(f"posenc.workbench.tasks.{name}"), kind) for name, kind in settings.TASKS.items()
}
DRAWN = {name: kind for name, kind in TASKS.items() if issubclass(kind, DrawnTask)}


def task(name: str, text: Text | None, longest: int, train_length: int | None = None) -> Task:
    """The task of this name, tested up to ``longest`` tokens, trained at its default length or at ``train_length``.

    Only language reads the text, and needs it.
    """
    one_of("task", name, TASKS)
    if name == "language":
        assert text is not None
        return Language(text, longest, train_length)
    return DRAWN[name](train_length)
