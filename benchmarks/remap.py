"""``python -m benchmarks.remap``: the cost of remapped positions, in total and per part, relative to plain causal
attention, and the cost of a decoding step with a cache that keeps sinks.

Times are the minimum of three, in processor time of one thread. A part's time is divided by the share of causal
pairs that it sees.
"""

import time
from collections.abc import Callable

import torch

import posenc
from posenc import Mask
from posenc.attend.remapped import remapped
from posenc.integrations.huggingface.cache import MovableCache, RingCache
from posenc.remap import DCA, STRING, ReRoPE, SelfExtend

T, HEADS, D = 8192, 16, 64
SLOTS = 2048
ROPE = posenc.Rotary(D, pairing="half")
ENCODINGS = (
    SelfExtend(ROPE, group=4, window=2048),
    DCA(ROPE, chunk=2560, local=512),
    ReRoPE(ROPE, window=2048),
    STRING(ROPE, shift=2048, window=128),
)


def seconds(run: Callable[[], object]) -> float:
    """Return the minimum processor time of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


@torch.inference_mode()
def main() -> None:
    torch.set_num_threads(1)
    q, k, v = torch.randn(3, 1, HEADS, T, D, generator=torch.Generator().manual_seed(0))
    at, causal = torch.arange(T), Mask(causal=True)
    nope = posenc.NoPE().at(at)
    plain = seconds(lambda: posenc.attention(q, k, v, nope, causal))
    print(f"{T} tokens, {HEADS} heads of {D}, float32: plain causal attention {plain:.2f} s")
    for encoding in ENCODINGS:
        placed = encoding.at(at)
        rotated = placed.rotate(q, k)
        whole = seconds(lambda: posenc.attention(*rotated, v, placed, causal))  # noqa: B023
        parts = []
        for of_q, of_k, layer, mask in remapped(*rotated, placed, causal):
            visible = mask.visible(T, T, q.device)
            assert visible is not None
            seen = int(visible.sum()) / (T * (T + 1) / 2)
            took = seconds(lambda: posenc.attention(of_q, of_k, v, layer, mask, return_logsumexp=True))  # noqa: B023
            parts.append(f"{took / plain / seen:.2f} of {seen:.2f}")
        print(f"{encoding.name:13s} {whole / plain:.2f}; parts {', '.join(parts)}", flush=True)
    ring, moved = RingCache(ROPE, slots=SLOTS, wrap=4 * SLOTS), MovableCache(ROPE)
    held, token = torch.randn(2, 1, 8, SLOTS, D), torch.randn(2, 1, 8, 1, D)
    remaining = torch.cat((at[:4], at[5:SLOTS]))

    def step_by_moving() -> None:
        moved.select(remaining)
        moved.update(*token, 0)

    for cache in (ring, moved):
        cache.update(*held, 0)
    took = 1e3 * seconds(lambda: ring.update(*token, 0)), 1e3 * seconds(step_by_moving)
    print(f"one step of one layer, 8 heads, {SLOTS} keys: ring {took[0]:.2f} ms, moving all keys {took[1]:.1f} ms")


if __name__ == "__main__":
    main()
