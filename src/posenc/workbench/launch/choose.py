"""Launchers by name."""

from posenc.errors import InvalidArgument, UnknownName
from posenc.workbench.launch.job import Launcher

NAMES = ("local", "ray")


def choose(name: str, workers: int | None = None) -> Launcher:
    """The launcher of this name; ``workers`` is the local one's, as a cluster has its own."""
    if name == "local":
        from posenc.workbench.launch.local import Local

        return Local(workers)
    if name == "ray":
        from posenc.workbench.launch.ray import Ray

        if workers is not None:
            raise InvalidArgument(f"workers={workers} is for --launcher local; Ray fills the cluster: leave it out")
        return Ray()
    raise UnknownName("launcher", name, NAMES)
