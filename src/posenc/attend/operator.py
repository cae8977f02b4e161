"""An attention call wrapped as a single operator that is opaque to a compiler.

Operators accept only tensors, numbers and strings. The other arguments of a call (a placed encoding and a mask) are
therefore serialised as a Python expression that refers to their tensors, integers and floats. While a compiler
traces the call, these tensors have no values yet. When the operator runs, it gets the real tensors and rebuilds the
arguments by evaluating the expression. The backward pass recomputes the call.
"""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pkgutil import resolve_name
from types import CodeType
from typing import Any

import torch
from torch import _C, Tensor
from torch._C import DispatchKey

from posenc.attend.call import Settings
from posenc.attend.offers import Output
from posenc.attend.ways import computed
from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument
from posenc.kernels.memory import plain_bool
from posenc.mask import Mask
from posenc.pytrees import COMPILES_OBJECTS, Pytree


def operated(
    q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask, scale: float, settings: Settings
) -> Output:
    """Run ``computed`` under a compiler, as a single operator if an operator is needed and the call can be
    serialised.
    """
    if COMPILES_OBJECTS and _is_one_operator(q, k, placed, mask, settings):
        # Only what attention reads from a placed encoding.
        placed_for_compiler = Placed(
            placed.q_positions, placed.k_positions, placed.axes, bias=placed.bias, scale=placed.scale
        )
        writing = Writing((placed_for_compiler, mask, scale, vars(settings)))
        if not writing.unknown:
            inputs = (q, k, v, *writing.inputs["tensors"])
            wanted = [i for i, x in enumerate(inputs) if x.requires_grad] if torch.is_grad_enabled() else []
            out, lse = operator(
                q, k, v, **writing.inputs, text=writing.text, wanted=wanted, sums=settings.needs_logsumexp
            )
            return out, lse if settings.needs_logsumexp else None
    return computed(q, k, v, placed, mask, scale, settings)


def _is_one_operator(q: Tensor, k: Tensor, placed: Placed, mask: Mask, settings: Settings) -> bool:
    """Return whether the call becomes one operator under a compiler. On the CPU, a call becomes an operator if
    torch's attention alone cannot compute it.
    """
    if torch.compiler.is_exporting() or not q.is_cpu or settings.dropout or _C._are_functorch_transforms_active():
        return False
    if placed.bias is not None or settings.needs_logsumexp or settings.softcap is not None:
        return True
    return not mask.only_causal or (mask.causal and plain_bool(q.shape[2] != 1 and q.shape[2] != k.shape[2]))


INPUTS: dict[str, type] = {"tensors": Tensor, "integers": int, "floats": float}
"""The types of values that an operator accepts besides the serialised expression, keyed by the names of their
lists in that expression.
"""


class Writing:
    """Serialises a value for an operator, as a string and the tensors, integers and floats that the string
    refers to.

    Types are distinguished with ``isinstance``, because compilers trace this code and cannot trace
    ``singledispatch``.
    """

    def __init__(self, value: object) -> None:
        self.inputs: dict[str, list[Any]] = {name: [] for name in INPUTS}
        self.unknown = False
        """Whether a part of the value cannot be serialised, such as a function or a local class."""
        self.text = self.write(value)

    def write(self, value: Any) -> str:
        if value is None or isinstance(value, bool | str):
            return repr(value)
        for name, kind in INPUTS.items():
            if isinstance(value, kind):
                self.inputs[name].append(value)
                return f"{name}[{len(self.inputs[name]) - 1}]"
        if isinstance(value, tuple | list):
            return f"({''.join([f'{self.write(part)}, ' for part in value])})"
        if isinstance(value, dict):
            return "{" + ", ".join([f"{key!r}: {self.write(x)}" for key, x in value.items()]) + "}"
        if isinstance(value, slice):
            return f"slice({self.write(value.start)}, {self.write(value.stop)})"
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        if not isinstance(value, Pytree) or not is_named(type(value), name):
            self.unknown = True
            return "None"
        attributes = {name: x for name, x in vars(value).items() if name not in value.facts}
        return f'made("{name}", {self.write(attributes)})'


def is_named(value: type, name: str) -> bool:
    """Return whether ``resolve_name(name)`` returns this class. ``resolve_name`` cannot find a local class, and in
    a notebook, it may return a newer definition of the class.
    """
    try:
        return resolve_name(name) is value
    except (ImportError, AttributeError, ValueError):
        return False


# Like torch.compiler.assume_constant_result, but without loading the compiler: evaluated while tracing.
is_named._dynamo_marked_constant = True  # type: ignore[attr-defined]


WRITTEN = (ast.Expression, ast.Tuple, ast.Dict, ast.Constant, ast.Subscript, ast.Call, ast.Name, ast.Load)
"""The syntax nodes that a serialised call may contain. Attribute access is not among them, so that a call cannot
reach other code.
"""


@lru_cache
def expression(text: str) -> CodeType:
    """Compile an expression that ``Writing`` has written.

    Raises:
        InvalidArgument: the string contains a node type that is not in ``WRITTEN``.
    """
    tree = ast.parse(text, mode="eval")
    if not all(isinstance(node, WRITTEN) for node in ast.walk(tree)):
        raise InvalidArgument(
            f"{text!r} is not a serialised call to attention; call posenc.attention instead of its operator"
        )
    return compile(tree, "a call of attention", "eval")


def made(name: str, attributes: dict[str, Any]) -> Any:
    """Build an object of the named class with these attributes, and recompute attributes that are derived from
    its tensors.
    """
    value: Pytree = object.__new__(resolve_name(name))
    vars(value).update(attributes)
    value.derive()
    return value


def _read(inputs: list[Tensor], integers: list[int], floats: list[float], text: str) -> Output:
    """Compute the attention call that an expression describes."""
    q, k, v, *tensors = inputs
    placed, mask, scale, settings = eval(
        expression(text),
        {
            "__builtins__": {},
            "tensors": tensors,
            "integers": integers,
            "floats": floats,
            "made": made,
            "slice": slice,
        },
    )
    return computed(q, k, v, placed, mask, scale, Settings(**settings))


@torch.library.custom_op("posenc::attend", mutates_args=())
def operator(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tensors: list[Tensor],
    integers: list[int],
    floats: list[float],
    text: str,
    wanted: list[int],
    sums: bool,
) -> tuple[Tensor, Tensor]:
    """Run ``computed`` for a serialised call. ``wanted`` are the indices of inputs that need gradients, and
    ``sums`` requests the logsumexp.
    """
    with torch.no_grad():
        out, lse = _read([q, k, v, *tensors], integers, floats, text)
    return out.contiguous(), q.new_empty(0) if lse is None else lse.contiguous()


@operator.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    lse = q.new_empty(q.shape[:3], dtype=torch.promote_types(q.dtype, torch.float32)) if others[-1] else None
    return q.new_empty((*q.shape[:3], v.shape[3])), q.new_empty(0) if lse is None else lse


@torch.library.custom_op("posenc::attend_backward", mutates_args=())
def operator_backward(
    grad: Tensor,
    grad_sums: Tensor,
    inputs: list[Tensor],
    integers: list[int],
    floats: list[float],
    text: str,
    wanted: list[int],
    sums: bool,
) -> list[Tensor]:
    """Return the gradients of the inputs with the indices ``wanted``."""
    with recording():
        inputs = [x.detach().requires_grad_(i in wanted) for i, x in enumerate(inputs)]
        out, lse = _read(inputs, integers, floats, text)
        outputs, given = ([out], [grad]) if lse is None else ([out, lse], [grad, grad_sums])
        leaves = [inputs[i] for i in wanted]
        grads = torch.autograd.grad(outputs, leaves, given, allow_unused=True)
    # New contiguous tensors, as an operator requires: autograd may return one tensor for several inputs.
    plain, pairs = torch.contiguous_format, zip(leaves, grads, strict=True)
    return [x.new_zeros(x.shape) if g is None else g.clone(memory_format=plain) for x, g in pairs]


@operator_backward.register_fake
def _(grad: Tensor, grad_sums: Tensor, inputs: list[Tensor], *others: Any) -> list[Tensor]:
    return [inputs[i].new_empty(inputs[i].shape) for i in others[-2]]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, tensors, *ctx.others = inputs
    ctx.save_for_backward(q, k, v, *tensors)


def _back(ctx: Any, grad: Tensor, grad_sums: Tensor) -> tuple[Any, ...]:
    inputs, wanted = list(ctx.saved_tensors), ctx.others[-2]
    grads = dict(zip(wanted, operator_backward(grad, grad_sums, inputs, *ctx.others), strict=True))
    every, others = [grads.get(i) for i in range(len(inputs))], [None] * len(ctx.others)
    return (*every[:3], every[3:], *others)


operator.register_autograd(_back, setup_context=_remember)


@contextmanager
def recording() -> Iterator[None]:
    """Turn on autograd inside an operator, in which autograd is off by default."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in (DispatchKey.AutogradFunctionality, DispatchKey.AutogradOther, DispatchKey.AutogradNestedTensor):
        excluded = excluded.remove(key)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded), torch.enable_grad():
        yield
