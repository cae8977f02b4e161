"""``python -m benchmarks.remap``: what remapped positions cost, whole and part by part, of plain causal attention.

Processor time of one thread, the least of three. A part's is divided by the share of causal pairs that it sees.
"""

import time
from collections.abc import Callable

import torch

import posenc
from posenc import Mask
from posenc.attend.remapped import remapped
from posenc.remap import DCA, STRING, LeakyReRoPE, ReRoPE, SelfExtend

T, HEADS, D = 8192, 16, 64
ROPE = posenc.Rotary(D, pairing="half")
ENCODINGS = (
    SelfExtend(ROPE, group=4, window=2048),
    DCA(ROPE, chunk=2560, local=512),
    ReRoPE(ROPE, window=2048),
    LeakyReRoPE(ROPE, window=2048, slope=1 / 4),
    STRING(ROPE, shift=2048, window=128),
)


def seconds(run: Callable[[], object]) -> float:
    """The least processor time of three."""
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
            visible = mask.visible(0, T, T, T, T, q.device)
            assert visible is not None
            seen = int(visible.sum()) / (T * (T + 1) / 2)
            took = seconds(lambda: posenc.attention(of_q, of_k, v, layer, mask, return_logsumexp=True))  # noqa: B023
            parts.append(f"{took / plain / seen:.2f} of {seen:.2f}")
        print(f"{encoding.name:13s} {whole / plain:.2f}; its parts {', '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
