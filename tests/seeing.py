"""Sights for tests: what hides keys, said once for all keys, the queries being the last of them."""

from torch import Tensor

from posenc import Sight


def sight(
    T: int, *, causal: bool = False, key_mask: Tensor | None = None, segments: Tensor | None = None
) -> Sight:
    """A sight of T queries, the last tokens of their keys; ``segments`` are those of all keys."""
    own = None if segments is None else segments[..., segments.shape[-1] - T :]
    return Sight(causal=causal, key_mask=key_mask, q_segments=own, k_segments=segments)
