"""``python -m benchmarks.streaming MODEL TEXT``: score a long text with a pretrained model in constant memory.

Tokens are fed in chunks. The cache keeps the first tokens and the latest ones (sinks), only the latest ones
(window), or all tokens (plain, on a shorter text). Each printed line has the mean loss of the last 8192 tokens;
``--output`` writes the loss of every chunk, with hashes of the text and the weights.
"""

import argparse
import hashlib
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.cache import MovableCache, RingCache
from posenc.integrations.huggingface.load import Pretrained

SHOWN = 8192


def streamed(
    model: nn.Module, tokens: Tensor, *, chunk: int, capacity: int | None = None, sinks: int = 0
) -> Iterator[Tensor]:
    """Yield the loss in nats of every token but the first, in chunks of shape ``(chunk,)``; the last is shorter."""
    encoding = read(model.config).as_layers()
    slots = None if capacity is None else capacity + chunk
    ring = None if slots is None else RingCache(encoding, slots=slots, sinks=sinks, wrap=2 * slots)
    cache = MovableCache(encoding) if ring is None else ring
    for first in range(0, len(tokens) - 1, chunk):
        ids, following = tokens[first : first + chunk], tokens[first + 1 : first + chunk + 1]
        with torch.inference_mode():
            logits = model(ids[None, : len(following)], past_key_values=cache, use_cache=True).logits[0]
            yield F.cross_entropy(logits.float(), following, reduction="none")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streaming", description=__doc__)
    parser.add_argument("model", type=Path, help="a Hugging Face folder or a .gguf file")
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--plain", type=int, default=16_384, help="number of tokens to read with all keys")
    parser.add_argument("--capacity", type=int, default=2048)
    parser.add_argument("--sinks", type=int, default=4)
    parser.add_argument("--chunk", type=int, default=256)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", choices=("sinks", "window", "plain"))
    o = parser.parse_args()
    pretrained = Pretrained.from_path(o.model, device="cpu", dtype=torch.float32)
    data = o.text.read_bytes()
    ways = {
        "sinks": (o.tokens, {"capacity": o.capacity, "sinks": o.sinks}),
        "window": (o.tokens, {"capacity": o.capacity}),
        "plain": (o.plain, {}),
    }
    hashes = {"text": hashlib.sha256(data).hexdigest(), "model": pretrained.identity}
    rows = {}
    for name, (count, settings) in ways.items():
        if o.only not in (None, name):
            continue
        tokens = pretrained.encode(data)[: count + 1]
        losses, start = [], time.process_time()
        for block in streamed(pretrained.model, tokens, chunk=o.chunk, **settings):
            losses.append(float(block.mean()))
            if len(losses) * o.chunk % SHOWN == 0 or len(losses) * o.chunk >= len(tokens) - 1:
                part = losses[-(SHOWN // o.chunk) :]
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
                    2**20 if sys.platform != "darwin" else 2**30
                )
                spent = time.process_time() - start
                print(
                    f"{name}: to {min(len(losses) * o.chunk, len(tokens) - 1):7,d} tokens  "
                    f"{sum(part) / len(part):6.3f} nats  peak {peak:.2f} GiB  {spent:.0f} s processor time",
                    flush=True,
                )
        rows[name] = {**settings, "chunk": o.chunk, "tokens": len(tokens) - 1, "losses": losses}
        if o.output:
            o.output.write_text(json.dumps({"sha256": hashes, "torch": torch.__version__, "runs": rows}))


if __name__ == "__main__":
    main()
