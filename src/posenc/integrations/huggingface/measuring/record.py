"""Records, while a model runs, queries, keys and scores of every attention over its own tokens, and look-ups.

In every model's code, eager attention multiplies queries with keys and applies a softmax. The recorder observes
these two functions of torch, and returns zeros instead of weights, so that the input of a layer depends on the
tokens and not on positions in earlier layers.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

PRODUCTS = ("matmul", "__matmul__", "bmm", "baddbmm", "einsum")


@dataclass(frozen=True)
class Attention:
    """One attention of a forward pass.

    Args:
        module: the path of the module that it was computed in.
        q, k: as they are multiplied, ``(B, heads, T, D)``; where a layer rotates, they are rotated.
        scores: what the softmax was given, ``(B, heads, T, T)``, bias, window and scale included.
        inputs: what came out of the modules around it with as many numbers as q or more: queries before they were
            rotated among them, alone or joined with keys and values.
    """

    module: str
    q: Tensor
    k: Tensor
    scores: Tensor
    inputs: tuple[Tensor, ...]


@dataclass
class Recording:
    """The records of a forward pass, in the order of computing.

    Args:
        attentions: every attention of T tokens over themselves.
        lookups: every table that was read by something else than token ids: its name, rows, and the rows read.
    """

    attentions: list[Attention] = field(default_factory=list)
    lookups: list[tuple[str, Tensor, Tensor]] = field(default_factory=list)


RESIZED = {"interpolate": 0, "grid_sample": 0, "embedding_bag": 1}
"""The functions that mix rows of a table, and the argument that holds the table."""
SUMS = ("add", "__add__", "add_", "__iadd__")
FEWEST = 4
"""The fewest tokens of a picture or a sound of unknown length."""


class _Recorder(TorchFunctionMode):
    def __init__(self, batch: int, length: int | None, tokens: Tensor | None, without_tables: bool) -> None:
        super().__init__()
        self.batch, self.length, self.tokens, self.without_tables = batch, length, tokens, without_tables
        self.found = Recording()
        self.path: list[str] = []
        self.outputs: list[Tensor] = []
        self.product: tuple[Tensor, Tensor] | None = None

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            return self._fused(func, args, kwargs)
        if name == "tanh" and self._square(args[0]):
            return args[0].clone()  # a cap on scores, which is not about positions
        result = func(*args, **kwargs)
        if name in PRODUCTS and self._square(result):
            self.product = _factors(name, args, kwargs)
        elif name == "softmax" and self._square(result) and self.product is not None:
            self._keep(*self.product, args[0])
            self.product = None
            return torch.zeros_like(result)
        elif name == "embedding":
            looked_up = self._look_up(kwargs.get("weight", args[1] if len(args) > 1 else None), args[0])
            return torch.zeros_like(result) if looked_up and self.without_tables else result
        elif name in RESIZED and self.length is None and self._resized(args[RESIZED[name]]):
            return torch.zeros_like(result) if self.without_tables else result
        elif name in SUMS and self.length is None and self._added(args):
            return args[0].clone() if self.without_tables else result
        elif name == "index_select" and len(args) == 3 and args[0].dim() == 2:
            self._look_up(args[0], args[2])
        elif name == "__getitem__" and isinstance(args[0], Tensor) and args[0].dim() == 2:
            self._sliced(*args)
        return result

    def _square(self, result: Any) -> bool:
        """Whether these are scores of all tokens over all; a column more is a sink."""
        if not isinstance(result, Tensor) or result.dim() < 3:
            return False
        length = result.shape[-2] if self.length is None else self.length
        return FEWEST <= length == result.shape[-2] and result.shape[-1] in (length, length + 1)

    def _fused(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        given = dict(zip(names, args, strict=False)) | kwargs
        q, k, v = (given[name] for name in names[:3])
        if q.shape[-2] == k.shape[-2] and self.length in (None, q.shape[-2]):
            scale = given.get("scale") or q.shape[-1] ** -0.5
            keys = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3) if q.dim() == 4 else k
            scores = q @ keys.transpose(-1, -2) * scale
            mask = given.get("attn_mask")
            if given.get("is_causal"):
                mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).tril()
            if mask is not None:
                scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
            self._keep(q, k, scores)
        return q.new_zeros(*q.shape[:-1], v.shape[-1])

    def _keep(self, q: Tensor, k: Tensor, scores: Tensor) -> None:
        length = q.shape[-2]
        if q.numel() % (self.batch * length * q.shape[-1]) or k.shape[-1] != q.shape[-1]:
            return
        queries, keys = (x.detach().reshape(self.batch, -1, length, x.shape[-1]).float() for x in (q, k))
        rows = scores.detach()[..., :length].reshape(self.batch, -1, length, length).float()
        module = self.path[-1] if self.path else ""
        inputs = tuple(x for x in self.outputs if x.numel() >= q.numel() and x.numel() % (self.batch * length) == 0)
        self.found.attentions.append(Attention(module, queries, keys, rows, inputs))

    def _look_up(self, table: Tensor | None, index: Tensor) -> bool:
        if table is None or index.dtype not in (torch.int64, torch.int32) or self._ids(index):
            return False
        self.found.lookups.append((self.path[-1] if self.path else "", table, index.detach().clone()))
        return True

    def _added(self, args: Any) -> bool:
        """A parameter that is added to tokens, one row each, as towers that see have their table."""
        x, table = args[:2] if len(args) > 1 else (None, None)
        if not isinstance(x, Tensor) or not isinstance(table, Tensor) or x.dim() < 2 or table.dim() not in (2, 3):
            return False
        parameter = table if table._base is None else table._base
        if not isinstance(parameter, nn.Parameter) or table.shape[-2:] != x.shape[-2:]:
            return False
        first = table.storage_offset() // table.shape[-1]
        return self._rows(parameter, torch.arange(first, first + table.shape[-2]))

    def _resized(self, table: Tensor) -> bool:
        """A parameter that is laid out as a picture and resized to another."""
        parameter = table if table._base is None else table._base
        return isinstance(parameter, nn.Parameter) and self._rows(
            parameter, torch.tensor([table.storage_offset() // parameter.shape[-1]])
        )

    def _rows(self, parameter: nn.Parameter, index: Tensor) -> bool:
        """A parameter of any shape as a table, one row per place, channels last."""
        rows = parameter.detach().reshape(-1, parameter.shape[-1])
        return self._look_up(nn.Parameter(rows, requires_grad=parameter.requires_grad), index)

    def _sliced(self, table: Tensor, index: Any) -> None:
        """A table read by its first rows, or by an index of positions."""
        first = index[0] if isinstance(index, tuple) and index else index
        if self.length is None:
            return
        if isinstance(first, slice) and len(table) > self.length and first.step is None:
            start, stop, _ = first.indices(len(table))
            if stop - start == self.length:
                self._look_up(table, torch.arange(start, stop))
        elif isinstance(first, Tensor) and first.shape[-1:] == (self.length,):
            self._look_up(table, first)

    def _ids(self, index: Tensor) -> bool:
        return self.tokens is not None and index.shape == self.tokens.shape and bool((index == self.tokens).all())

    def enter(self, name: str) -> None:
        self.path.append(name)

    def leave(self, output: Any) -> None:
        self.path.pop()
        if isinstance(output, Tensor) and output.is_floating_point():
            self.outputs = [*self.outputs[-11:], output.detach()]


def _factors(name: str, args: Any, kwargs: Any) -> tuple[Tensor, Tensor] | None:
    """Queries and keys of a product, channels last."""
    if name == "einsum":
        equation, *operands = args
        operands = operands[0] if len(operands) == 1 else operands
        return _of_einsum(equation, operands)
    q, k = (
        args[-2:] if name != "baddbmm" else (args[1:3] if len(args) > 2 else (kwargs["batch1"], kwargs["batch2"]))
    )
    return q, k.transpose(-1, -2)


def _of_einsum(equation: str, operands: Any) -> tuple[Tensor, Tensor] | None:
    match = re.fullmatch(r"(\w+),(\w+)->(\w+)", equation.replace(" ", ""))
    if match is None:
        return None
    left, right, out = match.groups()
    summed = [letter for letter in left if letter in right and letter not in out]
    shared = out[:-2]
    if len(summed) != 1 or set(left) != {*shared, out[-2], *summed} or set(right) != {*shared, out[-1], *summed}:
        return None
    queries = [left.index(letter) for letter in (*shared, out[-2], *summed)]
    keys = [right.index(letter) for letter in (*shared, out[-1], *summed)]
    return operands[0].permute(queries), operands[1].permute(keys)


@contextmanager
def recorded(
    model: nn.Module, batch: int, length: int | None, tokens: Tensor | None, *, without_tables: bool = False
) -> Iterator[Recording]:
    """Inside, all attention of ``model`` is recorded; it computes with weights of zero there.

    Args:
        batch, length: rows and tokens of what it is given; None for pictures and sounds, where nobody says.
        tokens: token ids, so that their look-up is known from that of positions.
        without_tables: whether tables are left out.
    """
    with ExitStack() as undo:
        recorder = undo.enter_context(_Recorder(batch, length, tokens, without_tables))
        for name, module in model.named_modules():
            enter = module.register_forward_pre_hook(lambda *_, name=name: recorder.enter(name))
            leave = module.register_forward_hook(lambda *call: recorder.leave(call[2]), always_call=True)
            undo.callback(enter.remove)
            undo.callback(leave.remove)
        yield recorder.found
