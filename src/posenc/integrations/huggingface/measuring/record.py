"""Records queries, keys and scores of every self-attention in a forward pass, and look-ups in tables of
embeddings.

Attention in model code either multiplies queries by keys and applies a softmax, or calls torch's own attention. The
recorder observes these functions, and makes the softmax return zeros. Attention then outputs zeros, so the
input of each layer depends only on the token itself: earlier layers add no information about positions or other
tokens.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class Attention:
    """The record of one attention computation in a forward pass.

    Args:
        module: the path of the module that computed the attention.
        q, k: queries and keys, ``(B, heads, T, D)``, after any rotation.
        scores: the softmax's input, ``(B, heads, T, T)``, including bias, window and scale.
        outputs: those outputs of earlier modules that have at least as many elements as the queries of one head.
            An output may contain queries or keys before rotation, alone or joined with others.
    """

    module: str
    q: Tensor
    k: Tensor
    scores: Tensor
    outputs: tuple[Tensor, ...] = ()


@dataclass
class Recording:
    """The records of a forward pass, in order of computation.

    Args:
        attentions: every self-attention over T tokens.
        lookups: for every table that is not indexed by token ids, its module, all its rows, and the indices of the
            rows that were read.
    """

    attentions: list[Attention] = field(default_factory=list)
    lookups: list[tuple[str, Tensor, Tensor]] = field(default_factory=list)


PRODUCTS = ("matmul", "__matmul__", "__rmatmul__", "bmm", "baddbmm", "einsum")
"""The functions whose matrix products may be scores."""
RESIZED = {"interpolate": 0, "grid_sample": 0, "embedding_bag": 1}
"""The functions that interpolate rows of a table, and the index of the argument that holds the table."""
FEWEST = 4
"""The smallest number of tokens for which attention is recorded. The number of tokens is not known in advance for
images and audio."""


class _Products(TorchDispatchMode):
    """Keeps the two factors of the last matrix product that ``is_scores`` accepts. torch computes the products of
    all heads, even in an einsum, with ``bmm`` or ``baddbmm``.
    """

    def __init__(self, is_scores: Callable[[Tensor], bool]) -> None:
        super().__init__()
        self.is_scores, self.factors = is_scores, tuple[Tensor, ...]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.bmm.default, torch.ops.aten.baddbmm.default) and self.is_scores(result):
            self.factors = args[-2], args[-1].mT
        return result


class _Recorder(TorchFunctionMode):
    def __init__(self, batch: int, length: int | None, tokens: Tensor | None, without_tables: bool) -> None:
        super().__init__()
        self.batch, self.length, self.tokens, self.without_tables = batch, length, tokens, without_tables
        self.recording = Recording()
        self.path: list[str] = [""]
        self.outputs: list[Tensor] = []
        self.products = _Products(self._scores)

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "scaled_dot_product_attention":
            with self:
                return _in_products(*args, **kwargs)
        if name == "tanh" and self._square(args[0]):
            return args[0].clone()  # removes a cap on scores, which does not depend on positions
        with self.products if name in PRODUCTS else nullcontext():  # the mode slows every function down
            result = func(*args, **kwargs)
        if name == "softmax" and self._scores(result) and self.products.factors:
            q, k = self.products.factors
            self._keep(q, k, args[0])
            self.products.factors = ()
            return torch.zeros_like(result)
        if (name == "embedding" and self._look_up(args[1], args[0])) or (
            name in RESIZED and self.length is None and self._rows(args[RESIZED[name]], 1)
        ):
            return torch.zeros_like(result) if self.without_tables else result
        if name in ("add", "__add__", "add_", "__iadd__") and self.length is None and self._added(args):
            return args[0].clone() if self.without_tables else result
        if name == "index_select" and len(args) == 3 and args[0].dim() == 2:
            self._look_up(args[0], args[2])
        elif name == "__getitem__" and isinstance(args[0], Tensor) and args[0].dim() == 2:
            self._sliced(*args)
        return result

    def _square(self, result: Any) -> bool:
        """Return whether ``result`` has the scores of all pairs of tokens, with or without a column for a sink."""
        if not isinstance(result, Tensor) or result.dim() < 3:
            return False
        length = result.shape[-2] if self.length is None else self.length
        return FEWEST <= length == result.shape[-2] and result.shape[-1] in (length, length + 1)

    def _scores(self, result: Tensor) -> bool:
        """Return whether ``result`` has the scores of all pairs of tokens, perhaps with further columns for groups
        of tokens, as in DeepSeek-V4.
        """
        length = self.length or 0
        return self._square(result) or (result.shape[-2:-1] == (length,) and length < result.shape[-1] < 2 * length)

    def _keep(self, q: Tensor, k: Tensor, scores: Tensor) -> None:
        T, D = q.shape[-2:]
        if q.numel() % (self.batch * T * D) or k.shape[-1] != D or scores.shape[-1] - k.shape[-2] not in (0, 1):
            return
        queries, keys = (x[..., :T, :].detach().reshape(self.batch, -1, T, D).float().cpu() for x in (q, k))
        self.recording.attentions.append(
            Attention(
                module=self.path[-1],
                q=queries,
                k=keys,
                scores=scores.detach()[..., :T].reshape(self.batch, -1, T, T).float().cpu(),
                outputs=tuple(
                    x.cpu()
                    for x in self.outputs
                    if x.numel() >= self.batch * T * D and x.numel() % (self.batch * T) == 0
                ),
            )
        )

    def _look_up(self, table: Tensor, index: Tensor) -> bool:
        """Record a look-up of rows in a table, unless the index contains token ids. Return whether it was
        recorded."""
        if index.dtype not in (torch.int64, torch.int32) or (
            self.tokens is not None and torch.equal(index.long(), self.tokens)
        ):
            return False
        self.recording.lookups.append((self.path[-1], table, index.detach().clone()))
        return True

    def _added(self, args: Any) -> bool:
        """Record a parameter that is added to tokens, one row per token, such as the position embeddings of a
        vision tower."""
        x, table = args[:2] if len(args) > 1 else (None, None)
        return (
            isinstance(x, Tensor)
            and isinstance(table, Tensor)
            and table.dim() in (2, 3)
            and x.dim() > 1
            and table.shape[-2:] == x.shape[-2:]
            and self._rows(table, table.shape[-2])
        )

    def _rows(self, view: Tensor, count: int) -> bool:
        """Record ``count`` rows of a parameter, starting at the first row of ``view``. Channels come last."""
        parameter = view if view._base is None else view._base
        if not isinstance(parameter, nn.Parameter):
            return False
        rows = nn.Parameter(parameter.detach().flatten(0, -2), requires_grad=parameter.requires_grad)
        first = view.storage_offset() // parameter.shape[-1]
        return self._look_up(rows, torch.arange(first, first + count))

    def _sliced(self, table: Tensor, index: Any) -> None:
        """Record a table that was indexed by a slice or a tensor, if the result has one row per token."""
        rows = index[0] if isinstance(index, tuple) and index else index
        if isinstance(rows, slice) and len(table) > (self.length or len(table)) and rows.step is None:
            rows = torch.arange(*rows.indices(len(table)))
        if isinstance(rows, Tensor) and rows.shape[-1:] == (self.length,):
            self._look_up(table, rows)

    def leave(self, output: Any) -> None:
        self.path.pop()
        if isinstance(output, Tensor) and output.is_floating_point():
            self.outputs = [*self.outputs[-11:], output.detach()]


@contextmanager
def recorded(
    model: nn.Module, batch: int, length: int | None, tokens: Tensor | None, *, without_tables: bool = False
) -> Iterator[Recording]:
    """Record the queries, keys and scores of every self-attention that ``model`` computes inside the block.

    Inside the block, the softmax of recorded scores returns zeros.

    Args:
        batch, length: the batch size and the number of tokens; the length is None for images and audio.
        tokens: the token ids, which distinguish look-ups of tokens from look-ups of positions.
        without_tables: whether tables of position embeddings are replaced by zeros.
    """
    recorder = _Recorder(batch, length, tokens, without_tables)
    names = {module: name for name, module in model.named_modules()}
    with (
        register_module_forward_pre_hook(
            lambda module, _: recorder.path.append(names.get(module, recorder.path[-1]))
        ),
        register_module_forward_hook(lambda *call: recorder.leave(call[2]), always_call=True),
        recorder,
    ):
        yield recorder.recording


def _in_products(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute torch's ``scaled_dot_product_attention`` as two products and a softmax."""
    keys, values = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ keys.mT * (scale or query.shape[-1] ** -0.5)
    if is_causal:
        attn_mask = torch.ones_like(scores, dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return torch.softmax(scores, -1) @ values
