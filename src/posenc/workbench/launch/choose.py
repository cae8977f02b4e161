"""Launchers by name."""

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.workbench.run.job import ONE_CORE, Launcher, Requirements, in_process

NAMES = ("local", "ray", "in-process")


def choose(name: str, workers: int | None = None, requirements: Requirements = ONE_CORE) -> Launcher:
    """Return the launcher with this name. Only the local launcher uses ``workers``; Ray fills its cluster."""
    one_of("launcher", name, NAMES)
    if workers is not None and name != "local":
        raise InvalidArgument(f"workers={workers} applies only to --launcher local; omit it with --launcher {name}")
    if name == "local":
        from posenc.workbench.launch.local import Local

        return Local(workers, requirements)
    if name == "ray":
        from posenc.workbench.launch.ray import Ray

        return Ray(requirements)
    return in_process
