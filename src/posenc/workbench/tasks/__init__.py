"""The tasks. Each file has a task and its variants.

A task defines sequences, right answers, a chance level, and the gate that a model passes if it has learned the
task.
"""

from posenc.workbench.tasks.task import IGNORE as IGNORE
from posenc.workbench.tasks.task import Batch as Batch
from posenc.workbench.tasks.task import Criteria as Criteria
from posenc.workbench.tasks.task import DrawnTask as DrawnTask
from posenc.workbench.tasks.task import Task as Task
from posenc.workbench.tasks.task import task as task
from posenc.workbench.tasks.task import task_class as task_class
from posenc.workbench.tasks.text import Source as Source
from posenc.workbench.tasks.text import Text as Text
