"""Counts the memory that torch uses during a call."""

from collections.abc import Callable

from torch import Tensor
from torch.profiler import ProfilerActivity, profile


def peak_bytes(call: Callable[[], Tensor]) -> int:
    """Return the largest memory that torch used during a call besides the result, including kernels' workspaces."""
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        result = call()
    held = peak = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            peak = max(peak, held)
    assert peak >= result.nbytes, "the profiler saw no memory"
    return peak - result.nbytes
