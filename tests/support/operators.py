"""Records the operators of torch that run, for tests of what is computed and what is not."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True)
class Ran:
    """An operator that ran.

    Args:
        name: the operator's name.
        args: its arguments, with shapes in place of tensors.
        sizes: the number of elements of every tensor that it computed; a view of an argument is not computed.
    """

    name: str
    args: tuple[Any, ...]
    sizes: tuple[int, ...]


class Operators(TorchDispatchMode):
    """A list of the operators that run in its context."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[Ran] = []

    def __torch_dispatch__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        result = func(*args, **kwargs or {})
        given = {x.untyped_storage()._cdata for x in args if isinstance(x, Tensor)}
        tensors = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        sizes = tuple(x.numel() for x in tensors if x.untyped_storage()._cdata not in given)
        self.ran.append(Ran(func.name(), tuple(x.shape if isinstance(x, Tensor) else x for x in args), sizes))
        return result

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.ran]

    @property
    def sizes(self) -> list[int]:
        """The number of elements of every tensor that was computed."""
        return [size for one in self.ran for size in one.sizes]

    @property
    def attention(self) -> list[Ran]:
        """The calls of torch's attention."""
        return [one for one in self.ran if "scaled_dot_product" in one.name]

    @property
    def scores(self) -> int:
        """The number of products of a query and a key in torch's attention, forward and backward."""
        shapes = (one.args[1:3] if "backward" in one.name else one.args[:2] for one in self.attention)
        return sum(q[:-1].numel() * k[2] for q, k in shapes)


def entered(call: Callable[[], object]) -> list[CodeType]:
    """Return the code of every Python function that a call enters, in order."""
    codes: list[CodeType] = []

    def entering(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            codes.append(frame.f_code)

    sys.setprofile(entering)
    try:
        call()
    finally:
        sys.setprofile(None)
    return codes
