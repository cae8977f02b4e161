"""The list of attention backends, what each offers for a call, and the explanation of the choice."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from posenc.attend.call import AttentionCall

Output = tuple[Tensor, Tensor | None]
"""softmax(scores)·v, and the logsumexp of the scores, which is None if the backend does not return it."""

Offer = tuple[str, Callable[[], Output] | None]
"""The reason why a backend does or does not support a call, and the function that runs the call. The function
is None if the backend does not support the call.
"""
Ask = Callable[[Tensor, Tensor, Tensor, AttentionCall], Offer]


class Way(NamedTuple):
    """A backend: which optional features it has, and the function that returns its ``Offer`` for a call."""

    has: frozenset[str]
    offer: Ask


class Explanation(NamedTuple):
    """The backend chosen for a call, and the reasons for this choice. ``print`` shows one line per backend.

    Attributes:
        backend: the name of the backend.
        reason: why the backend supports the call.
        declined: the earlier backends in the list, each with the reason why it is not used.
    """

    backend: str
    reason: str
    declined: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.backend}: {self.reason}", *(f"  not {name}: {why}" for name, why in self.declined)]
        )


WAYS: dict[str, Way] = {}
"""The backends by name, in the order of ``ways.py``. A call uses the first backend that supports the call. Sinks
need the logsumexp, which torch's kernels return only on the CPU; on other devices, calls with sinks use
FlexAttention or plain operators.
"""


def way(*has: str) -> Callable[[Ask], Ask]:
    """Return a decorator that adds a backend to the end of the list.

    The decorated function returns the backend's ``Offer`` for a call. The name of the decorated function is the
    backend's name.
    """

    def put(offer: Ask) -> Ask:
        WAYS[offer.__name__] = Way(frozenset(has), offer)
        return offer

    return put
