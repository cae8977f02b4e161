"""In FoX, the forgetting transformer, every token has a gate per head that reduces the weight of all earlier tokens
(Lin et al. 2025; 2503.02130).

    score(q_i, k_j) = q·k/√D + Σ_{l=j+1…i} ln f_l,   f_l = σ(w_h·x_l + b_h)

The sum includes the query's gate but not the key's. With c_i = Σ_{l≤i} ln f_l, the bias is c_i − c_j, and softmax
ignores c_i. Gates are summed in the order of tokens (``q_order`` and ``k_order`` of the mask), whatever their
positions. The bias of a key ahead of its query is meaningless, so use a causal mask. The paper's model uses ``fox``
alone; ``stack(rotary, fox)`` adds rotation.
"""

from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from posenc.arguments import Size, form, is_number, such_that
from posenc.encodings.bias import Bias
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import ContentState, KeyPositions, Placed, Positions
from posenc.encodings.wide import linear, widest
from posenc.errors import InvalidArgument
from posenc.kernels.attention.low_rank import Channels, of_sums


class ForgetBias(Bias):
    """The bias c_i − c_j of query i and key j, where c is the running sum of the log gates in the order of tokens.

    Args:
        gates: the log gate ln f of every key, ``(B, H, S)``.
        q_sums, k_sums: c at the queries and at the keys; None until the order is known.
    """

    indexed_by: ClassVar[dict[str, str]] = {"gates": "bhk", "q_sums": "bhq", "k_sums": "bhk"}

    q_sums: Float[Tensor, "B H T"] | None = None
    k_sums: Float[Tensor, "B H S"] | None = None

    def __init__(self, gates: Float[Tensor, "B H S"]) -> None:
        self.gates, self.heads = gates, gates.shape[1]

    def ordered(self, q_order: Tensor, k_order: Tensor) -> Bias:
        """Sort the keys by ``k_order``, accumulate their gates, and look up the sum at each query. Sums can have
        many terms, so they are computed in float64.
        """
        B, H, S = self.gates.shape
        if self.k_sums is not None:
            return self
        if k_order.shape[-1] != S:
            raise InvalidArgument(
                f"the encoding has the gates of {S} keys, but attention got {k_order.shape[-1]} keys; pass the "
                "state of the cached keys to with_content(), or the state of all keys to with_state()"
            )
        by_order, place = k_order.expand(B, S).sort(dim=-1)
        place = place[:, None].expand(B, H, S)
        sums = self.gates.to(widest(self.gates.device)).gather(-1, place).cumsum(-1)
        k_sums = torch.empty_like(sums).scatter(-1, place, sums)
        T = q_order.shape[-1]
        upto = torch.searchsorted(by_order, q_order.expand(B, T).contiguous(), right=True)
        padded = torch.cat((sums.new_zeros(B, H, 1), sums), dim=-1)
        bias = type(self)(self.gates)  # not ``changed``, which the compiler of torch 2.8 cannot trace
        bias.q_sums, bias.k_sums = padded.gather(-1, upto[:, None].expand(B, H, T)), k_sums
        return bias

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "B H rows S"]:
        q_sums, k_sums = self._sums()
        return (q_sums[..., first:last, None] - k_sums[..., None, start:keys]).to(self.gates.dtype)

    def low_rank(self, dtype: torch.dtype, scale: float) -> Channels | None:
        return of_sums(*self._sums(), dtype, scale)

    def _sums(self) -> tuple[Tensor, Tensor]:
        if self.q_sums is None or self.k_sums is None:
            raise InvalidArgument("the order of the tokens is not set; call bias.ordered(q_order, k_order) first")
        return self.q_sums, self.k_sums


class PlacedFoX(Placed):
    """The positions of queries and keys and, after ``with_content``, the gates of all keys."""

    awaits_content = True

    def __init__(self, fox: "FoX", q_positions: Positions, k_positions: KeyPositions) -> None:
        super().__init__(q_positions, k_positions)
        self.fox = fox
        self.state_size = fox.heads

    def with_content(
        self, x: Float[Tensor, "B T C"], state: ContentState | None = None
    ) -> tuple[Placed, ContentState | None]:
        self.check_embeddings(x, self.fox.width)
        gates = self.fox.gates(x)
        if state is not None and (not isinstance(state, Tensor) or state.shape[:-1] != gates.shape[:-1]):
            raise InvalidArgument(
                f"state is {form(state)}; expected {tuple(gates.shape[:-1])} and the number of cached keys; pass "
                "the state that with_content() returned for the same rows and the same layer"
            )
        gates = gates if state is None else torch.cat((state, gates), dim=-1)
        return self.with_state(gates), gates

    def with_state(self, state: ContentState | None) -> Placed:
        return self if state is None else self.changed(bias=ForgetBias(state), awaits_content=False)


@final
class FoX(Encoding):
    """Adds the sum of the log gates between key and query to the scores. Gates are computed from the input of
    attention.

    Args:
        width: C, channels of the input of attention.
        heads: H, query heads.
        bias: the initial value of b in the gates σ(w·x + b); at initialisation, each token multiplies the weight
            of earlier tokens by about σ(b).

    Every layer has its own gates. In addition to keys and values, a cache stores one log gate per head and key.
    """

    name: ClassVar[str] = "fox"
    acts_on = ("bias",)
    relative = True
    needs_content = True
    causal = True
    per_layer = True

    def __init__(
        self,
        width: Size,
        heads: Size,
        *,
        bias: Annotated[float, such_that(is_number, "be a finite number; 5.0 is usual")] = 5.0,
    ) -> None:
        super().__init__()
        self.width, self.heads, self.start = width, heads, bias
        self.weight = nn.Parameter(torch.empty(heads, width))
        self.bias = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.width**-0.5)
        nn.init.constant_(self.bias, self.start)

    def gates(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B H T"]:
        """Return the log gate ln f of every token and head, in float32 or wider."""
        return logsigmoid(linear(x, self.weight, self.bias)).transpose(1, 2)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedFoX(self, q_positions, k_positions)
