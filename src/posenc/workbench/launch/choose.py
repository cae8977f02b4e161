"""Launchers by name."""

from posenc.errors import InvalidArgument, UnknownName
from posenc.workbench.launch.requirements import Needs
from posenc.workbench.run.job import Launcher

NAMES = ("local", "ray", "torchrun", "here")


def choose(name: str, workers: int | None = None, needs: Needs | None = None) -> Launcher:
    """The launcher of this name, for runs that need this; ``workers`` is the local one's: Ray fills a cluster."""
    if name not in NAMES:
        raise UnknownName("launcher", name, NAMES)
    if workers is not None and name != "local":
        raise InvalidArgument(f"workers={workers} is for --launcher local; with {name} leave it out")
    if name == "local":
        from posenc.workbench.launch.local import Local

        return Local(workers, needs)
    if name == "ray":
        from posenc.workbench.launch.ray import Ray

        return Ray(needs)
    if name == "torchrun":
        from posenc.workbench.launch.torchrun import Torchrun

        return Torchrun()
    from posenc.workbench.launch.in_process import here

    return here
