"""Values made of tensors as pytrees: torch.export takes them, ``tree_map`` goes through them, and they copy."""

import copy
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from torch import Tensor
from torch.utils._pytree import GetAttrKey, register_pytree_node


class Fact:
    """What is known of tensors' numbers; any two are equal, so that no compiler tells calls apart by it."""

    def __init__(self, value: object, tensors: Iterable[Tensor] = ()) -> None:
        self.value, self.tensors = value, tuple(weakref.ref(x) for x in tensors)

    def __reduce__(self) -> tuple[type["Fact"], tuple[object]]:
        return Fact, (self.value,)

    def is_of(self, tensors: list[Tensor]) -> bool:
        """Whether these are the very tensors that it was found in."""
        return [id(x) for x in tensors] == [id(known()) for known in self.tensors]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fact)

    def __hash__(self) -> int:
        return 0


class Pytree:
    """An object whose leaves are the tensors in its attributes, also in pytrees, tuples, lists and dicts there; a
    tensor that several attributes share is one leaf.

    All that is no tensor is the structure: calls of an exported program must agree in it.
    """

    facts: ClassVar[tuple[str, ...]] = ()
    """Attributes that are known beside its tensors and are no structure of a program."""

    transient: ClassVar[dict[str, Any]] = {}
    """Attributes that no copy gets, and what it has in their place."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        register_pytree_node(
            cls, lambda tree: _flatten(tree)[:2], _unflatten, flatten_with_keys_fn=_flatten_with_keys
        )

    def look_again(self) -> None:
        """Find anew what followed from the numbers of its tensors: others have taken their places."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), **{name: value for name, value in self.transient.items() if name in vars(self)}}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of its own; tensors that were computed with gradients come without their history."""
        for tensor in _flatten(self)[0]:
            if not tensor.is_leaf:
                memo[id(tensor)] = tensor.detach().clone()
        other = memo[id(self)] = object.__new__(type(self))
        vars(other).update(copy.deepcopy(self.__getstate__(), memo))
        return other


@dataclass(frozen=True)
class _Leaf:
    """Stands in a structure for the leaf of this number."""

    number: int


Structure = tuple[Any, ...]


def _flatten(tree: Pytree) -> tuple[list[Tensor], Structure, list[str]]:
    """Its leaves, its structure, and a name of every leaf: the attributes on the way to it."""
    leaves: list[Tensor] = []
    paths: list[str] = []
    numbers: dict[int, int] = {}

    def structure(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in numbers:
                numbers[id(value)] = len(leaves)
                leaves.append(value)
                paths.append(path)
            return _Leaf(numbers[id(value)])
        if isinstance(value, Pytree):
            state, held = dict(sorted(value.__getstate__().items())), _tensors(value)
            state |= {key: Fact(state[key], held) for key in value.facts if key in state}
            return type(value), tuple((key, structure(x, f"{path}_{key}")) for key, x in state.items())
        if isinstance(value, dict):
            return dict, tuple((key, structure(x, f"{path}_{key}")) for key, x in value.items())
        if isinstance(value, tuple | list):
            return type(value), tuple(structure(x, f"{path}_{i}") for i, x in enumerate(value))
        if isinstance(value, partial):  # two of the same parts are not equal
            return partial, tuple(structure(x, path) for x in (value.func, value.args, value.keywords))
        return value

    return leaves, structure(tree, ""), [path[1:] for path in paths]


def _tensors(tree: Pytree) -> list[Tensor]:
    """Those in its own attributes."""
    return [x for x in vars(tree).values() if isinstance(x, Tensor)]


def _flatten_with_keys(tree: Pytree) -> tuple[list[tuple[Any, Tensor]], Structure]:
    leaves, structure, paths = _flatten(tree)
    return [(GetAttrKey(path), leaf) for path, leaf in zip(paths, leaves, strict=True)], structure


def _unflatten(leaves: Iterable[Any], structure: Structure) -> Any:
    leaves = list(leaves)

    def rebuilt(part: Any) -> Any:
        if isinstance(part, _Leaf):
            return leaves[part.number]
        if isinstance(part, Fact):
            return part.value
        if not isinstance(part, tuple):
            return part
        kind, parts = part
        if issubclass(kind, Pytree):
            tree = object.__new__(kind)
            vars(tree).update({key: rebuilt(one) for key, one in parts})
            if not all(fact.is_of(_tensors(tree)) for _, fact in parts if isinstance(fact, Fact)):
                tree.look_again()
            return tree
        if kind is dict:
            return {key: rebuilt(one) for key, one in parts}
        values = [rebuilt(one) for one in parts]
        if kind is partial:
            return partial(values[0], *values[1], **values[2])
        return kind(*values) if hasattr(kind, "_fields") else kind(values)

    return rebuilt(structure)


def tensors(value: object) -> list[Tensor]:
    """Those in the attributes of a pytree, also in pytrees and tuples there."""
    found: list[Tensor] = []
    for part in value if isinstance(value, tuple) else vars(value).values():
        if isinstance(part, Tensor):
            found.append(part)
        elif isinstance(part, tuple | Pytree):
            found += tensors(part)
    return found


def exchanged(value: Any, others: Mapping[int, Tensor]) -> Any:
    """The same with other tensors in the place of those of these ids."""
    if isinstance(value, tuple):
        return tuple(exchanged(part, others) for part in value)
    if isinstance(value, Pytree):
        other = copy.copy(value)
        vars(other).update((name, exchanged(part, others)) for name, part in vars(value).items())
        return other
    return others.get(id(value), value)


def narrowed(x: Tensor, axes: str, places: Mapping[str, slice | None]) -> Tensor:
    """The slices, each with two ends, of a tensor whose last axes count these: ``q`` queries, ``k`` keys, and
    anything else, which stays where it broadcasts."""
    for axis, name in enumerate(reversed(axes), 1):
        place = places.get(name)
        if place is not None and axis <= x.dim() and (name in "qk" or x.shape[-axis] != 1):
            x = x.narrow(-axis, place.start, place.stop - place.start)
    return x
