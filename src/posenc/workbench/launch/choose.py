"""Launchers by name."""

from posenc.errors import UnknownName
from posenc.workbench.experiments.job import Launcher

NAMES = ("local", "ray")


def choose(name: str, workers: int | None = None) -> Launcher:
    """The launcher of this name; ``workers`` is the local one's."""
    if name == "local":
        from posenc.workbench.launch.local import Local

        return Local(workers)
    if name == "ray":
        from posenc.workbench.launch.ray import Ray

        return Ray()
    raise UnknownName("launcher", name, NAMES)
