"""The tasks, one per file.

A task defines sequences, right answers, a chance level, and the gate that a model passes if it has learned the
task.
"""

from pkgutil import resolve_name
from typing import Any

from posenc.arguments import one_of
from posenc.encodings.foreign import load
from posenc.errors import InvalidArgument
from posenc.workbench.custom_code import one_sentence
from posenc.workbench.run.settings import TASKS
from posenc.workbench.tasks.task import IGNORE as IGNORE
from posenc.workbench.tasks.task import Batch as Batch
from posenc.workbench.tasks.task import Criteria as Criteria
from posenc.workbench.tasks.task import DrawnTask as DrawnTask
from posenc.workbench.tasks.task import Task as Task
from posenc.workbench.tasks.text import Source as Source
from posenc.workbench.tasks.text import Text as Text


def task_class(name: str, kind: str = "task") -> type[Task]:
    """Return the class of the task with this name. For ``my_module:MyTask``, ``my_module`` is imported.

    Raises:
        UnknownName: no task has this name; the message suggests the nearest name.
        InvalidArgument: the module or class does not exist, the class is not a ``Task``, or the class lacks an
            attribute that a study needs.
    """
    if ":" not in name:
        where = TASKS[one_of(kind, name, (*TASKS, "my_module:MyTask"))]
        ours: type[Task] = resolve_name(f"{__name__}.{where}")
        return ours
    with one_sentence(f"task {name!r}", (name,)):
        custom: type[Task] = load(name, Task, "posenc.workbench.tasks.Task")
    _complete(name, custom, "measure", "train_length", "steps", "batch", "learning_rate")
    if custom.__abstractmethods__:
        raise InvalidArgument(
            f"task {name} lacks {' and '.join(sorted(custom.__abstractmethods__))}, which its class must implement"
        )
    return custom


def task(name: str, text: Text | None, longest: int, train_length: int | None = None) -> Task:
    """Create the task with this name, for tests up to ``longest`` tokens.

    If ``train_length`` is None, the task's default is used. Tasks that read a text, such as ``language``, need
    ``text``; other tasks ignore it.
    """
    make: Any = task_class(name)
    task: Task = make(text, longest, train_length) if make.reads_text else make(train_length)
    _complete(name, task, "question", "chance", "gate", "vocabulary", "outputs")
    task.name = name
    return task


def _complete(name: str, thing: object, *attributes: str) -> None:
    missing = [attribute for attribute in attributes if not hasattr(thing, attribute)]
    if missing:
        raise InvalidArgument(
            f"task {name} lacks {' and '.join(missing)}, which its class must set, as in: {missing[0]} = …"
        )
