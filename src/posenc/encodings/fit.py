"""Refuses queries, keys and embeddings that do not fit the positions of a placed encoding."""

from torch import Tensor

from posenc.arguments import check_bhtd, tensors
from posenc.encodings.placed import Placed, Positions
from posenc.errors import InvalidArgument


def check_heads(name: str, x: Tensor | None, positions: Positions, head_dim: int, axes: int = 1) -> None:
    """Refuse queries or keys that are no batch at these positions; None is skipped."""
    if x is None:
        return
    check_bhtd(name, x)
    if x.shape[-1] != head_dim:
        raise InvalidArgument(f"{name} has shape {tuple(x.shape)}; its last axis must be head_dim={head_dim}")
    check_tokens(name, x, positions, axes)


def keys_at_queries(placed: Placed, q: Tensor | None, k: Tensor | None, head_dim: int) -> bool:
    """Whether these keys are at the queries' positions; refuses queries or keys that do not fit the placed
    encoding."""
    alike = k is None or placed.are_at_queries(k)
    check_heads("q", q, placed.q_positions, head_dim, placed.axes)
    check_heads("k", k, placed.q_positions if alike else placed.k_positions, head_dim, placed.axes)
    return alike


def check_embeddings(x: Tensor, positions: Positions, width: int, axes: int = 1) -> None:
    """Refuse embeddings that are no batch of tokens at these positions."""
    tensors(x=x)
    if x.dim() != 3 or x.shape[2] != width:
        raise InvalidArgument(f"x has shape {tuple(x.shape)}; expected (B, length, channels), width={width}")
    check_tokens("x", x, positions, axes)


def check_tokens(name: str, x: Tensor, positions: Positions, axes: int) -> None:
    """Refuse a length or batch size other than that of the positions, a type that is not floating, or another
    device."""
    shape, placed = x.shape, positions.shape
    if shape[-2] != placed[-1]:
        raise InvalidArgument(
            f"{name} has length {shape[-2]} but the encoding was placed at {placed[-1]} positions; with a cache "
            "call encoding.at(positions, k_positions), else at() with one position per token"
        )
    batched = len(placed) == (2 if axes == 1 else 3)
    if batched and placed[-2] != 1 and placed[-2] != shape[0]:
        raise InvalidArgument(
            f"{name} has batch size {shape[0]} but the encoding was placed at {placed[-2]} rows of positions; give "
            "one row per sequence, or one for all"
        )
    if not x.is_floating_point():
        raise InvalidArgument(f"{name} is {x.dtype}; expected a floating type, such as torch.float32")
    if not (x.is_cpu and positions.is_cpu) and x.device != positions.device:
        raise InvalidArgument(
            f"{name} is on {x.device} and the encoding was placed on {positions.device}; move one with .to(…)"
        )
