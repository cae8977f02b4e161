"""Objects that contain tensors and are pytrees, so that torch.export, ``tree_map`` and ``deepcopy`` accept them."""

import copy
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import GetAttrKey, register_pytree_node, tree_leaves

Kind = TypeVar("Kind", bound="Pytree")
COMPILES_OBJECTS = torch.__version__ >= "2.13"
"""Whether torch.compile can list the attributes of an object; in torch 2.8 it cannot."""


class Fact:
    """A value computed from the contents of tensors, with weak references to these tensors. All instances of this
    class compare equal, so that a compiler does not recompile when the value changes.
    """

    def __init__(self, value: object, tensors: Iterable[Tensor] = ()) -> None:
        self.value, self.tensors = value, tuple(weakref.ref(x) for x in tensors)

    def __reduce__(self) -> tuple[type["Fact"], tuple[object]]:
        return Fact, (self.value,)

    def is_of(self, tensors: list[Tensor]) -> bool:
        """Return whether ``self.value`` was computed from exactly these tensor objects."""
        return [id(x) for x in tensors] == [id(known()) for known in self.tensors]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fact)

    def __hash__(self) -> int:
        return 0


class Pytree:
    """An object whose leaves are the tensors in its attributes, including tensors inside pytrees, tuples, lists
    and dicts. A tensor that several attributes share is one leaf.

    All other attributes form the structure. Except for those named in ``facts``, they must be the same in all
    calls of an exported program.
    """

    facts: ClassVar[tuple[str, ...]] = ()
    """The names of attributes that are derived from the tensors. Their values may differ between calls of an
    exported program.
    """

    transient: ClassVar[dict[str, Any]] = {}
    """The attributes that are not copied, with the values that they have in copies."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        register_pytree_node(cls, _flatten, _unflatten, flatten_with_keys_fn=_flatten_with_keys)

    def derive(self) -> None:
        """Recompute the attributes that are derived from the tensors, such as ``Bias.toeplitz``, after tensors have
        been replaced.
        """

    def changed(self: Kind, **attributes: Any) -> Kind:
        """Return a copy of the object with these attributes replaced."""
        other = copy.copy(self)
        for name, value in attributes.items():
            setattr(other, name, value)
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), **{name: value for name, value in self.transient.items() if name in vars(self)}}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return a deep copy. Tensors that were computed with gradients are copied without autograd history."""
        for tensor in tree_leaves(self):
            if isinstance(tensor, Tensor) and not tensor.is_leaf:
                memo[id(tensor)] = tensor.detach().clone()
        other = memo[id(self)] = object.__new__(type(self))
        vars(other).update(copy.deepcopy(self.__getstate__(), memo))
        return other


Structure = tuple[Any, ...]


def _flatten(tree: Pytree) -> tuple[list[Any], Structure]:
    """Return the attributes that contain tensors, and the structure.

    The structure consists of the class, the names of these attributes, all other attributes, and the attributes
    in ``tree.facts``, each wrapped in a ``Fact``. If two attributes are the same object, only the first is
    returned, and the structure records both names.
    """
    state = tree.__getstate__()
    parts: dict[str, Any] = {}
    same, others = [], []
    for name in sorted(state.keys() - set(tree.facts)):
        value = state[name]
        earlier = [key for key, part in parts.items() if part is value]
        if earlier:
            same.append((name, earlier[0]))
        elif any(isinstance(x, Tensor | Pytree) for x in tree_leaves(value, lambda part: isinstance(part, Pytree))):
            parts[name] = value
        else:
            others.append((name, value))
    facts = [(name, Fact(state[name], _own(tree))) for name in tree.facts if name in state]
    return list(parts.values()), (type(tree), tuple(parts), tuple(same), tuple(others), tuple(facts))


def _own(tree: Pytree) -> list[Tensor]:
    """Return the attributes whose values are tensors."""
    return [x for x in vars(tree).values() if isinstance(x, Tensor)]


def _flatten_with_keys(tree: Pytree) -> tuple[list[tuple[Any, Any]], Structure]:
    parts, structure = _flatten(tree)
    return [(GetAttrKey(name), part) for name, part in zip(structure[1], parts, strict=True)], structure


def _unflatten(parts: Iterable[Any], structure: Structure) -> Any:
    kind, names, same, others, facts = structure
    tree = object.__new__(kind)
    state = vars(tree)
    state.update(zip(names, parts, strict=True))
    state.update(others)
    state.update((name, state[earlier]) for name, earlier in same)
    state.update((name, fact.value) for name, fact in facts)
    if not all(fact.is_of(_own(tree)) for _, fact in facts):
        tree.derive()
    return tree


def narrowed(x: Tensor, axes: str, places: Mapping[str, slice | None]) -> Tensor:
    """Slice a tensor. The n letters of ``axes`` name the tensor's last n axes. Every slice in ``places`` must
    have a start and a stop. An axis of size 1 is not sliced unless its letter is ``q`` (queries) or ``k``
    (keys).
    """
    for axis, name in enumerate(reversed(axes), 1):
        place = places.get(name)
        if place is not None and axis <= x.dim() and (name in "qk" or x.shape[-axis] != 1):
            x = x.narrow(-axis, place.start, place.stop - place.start)
    return x
