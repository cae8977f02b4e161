"""What a run asks of the machine that it runs on, whichever launcher takes it there."""

from dataclasses import dataclass

from posenc.errors import InvalidArgument


@dataclass(frozen=True)
class Needs:
    """What every run of a study asks for.

    Args:
        cpus: cores, and threads that it computes on: numbers do not depend on how many runs there are beside it.
        gpus: accelerators; a share below 1 leaves the rest of one to other runs.
    """

    cpus: int = 1
    gpus: float = 0

    def __post_init__(self) -> None:
        if self.cpus < 1:
            raise InvalidArgument(f"cpus={self.cpus} must be at least 1")
        if not (0 <= self.gpus <= 1 or self.gpus in range(2, 1025)):
            raise InvalidArgument(f"gpus={self.gpus} must be a whole number, or a share of one between 0 and 1")
