"""``python -m benchmarks.t5``: compare a T5 encoder under ``patched`` with transformers' own path through SDPA.

T5's bias is one number per head and distance. transformers expands it to every pair of tokens and passes it to
torch's attention as a mask; under ``patched``, posenc stores one number per head and offset.
"""

import argparse
import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import T5Config, T5EncoderModel

import posenc
from benchmarks.measure import Outputs, peak_memory, timed
from posenc.integrations.huggingface import patched, read

CHANNELS, LAYERS = 64, 2
TIME_TARGET, MEMORY_TARGET = 0.4, 0.05


def encoder(heads: int) -> nn.Module:
    """Return a random encoder in which attention dominates the cost."""
    torch.manual_seed(0)
    width = heads * CHANNELS
    config = T5Config(
        vocab_size=64, d_model=width, d_kv=CHANNELS, d_ff=8, num_layers=LAYERS, num_heads=heads, dropout_rate=0.0
    )
    config._attn_implementation = "sdpa"
    return T5EncoderModel(config)


def run(model: nn.Module, ids: Tensor, backward: bool) -> Callable[[], Outputs]:
    """Return a function that runs the model forward, and backward if ``backward``."""

    def once() -> Outputs:
        with torch.set_grad_enabled(backward):
            y = model(input_ids=ids).last_hidden_state
        if backward:
            y.square().mean().backward()
            model.zero_grad(set_to_none=True)
        return (y.detach(),)

    return once


def compared(length: int, heads: int, backward: bool, rounds: int) -> str:
    """Return one row of the table: time and memory of both, measured in turn, and their ratios."""
    model = encoder(heads)
    ids = torch.randint(4, 60, (1, length), generator=torch.Generator().manual_seed(1))
    own = read(model.config).encodings(length)
    bias = model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
    own["encoder"].weight = nn.Parameter(bias.detach().clone())
    once = run(model, ids, backward)
    theirs, ours = [], []
    for number in range(rounds + 1):
        (reference,), before = once(), timed(once)
        with patched(model, own):
            (answer,), after = once(), timed(once)
        torch.testing.assert_close(answer, reference, rtol=0, atol=2e-5 * float(reference.abs().max()))
        if number:  # the first round is a warm-up
            theirs.append(before)
            ours.append(after)
    ratio = statistics.median(b / a for a, b in zip(theirs, ours, strict=True))
    memory = peak_memory(once)
    with patched(model, own):
        small = peak_memory(once)
    with patched(model, dict.fromkeys(own, posenc.NoPE())):
        bare = peak_memory(once)
    seconds = f"{statistics.median(theirs):.2f} | {statistics.median(ours):.2f} | {ratio:.2f}"
    said = f"{memory / 2**20:,.0f} | {small / 2**20:,.0f} | {small / memory:.1%} | {bare / 2**20:,.0f}"
    way = "forward and backward" if backward else "forward"
    return f"| {length:,} tokens, {heads} heads, {way} | {seconds} | {said} |"


def parts(length: int, heads: int, rounds: int) -> list[str]:
    """Return the time of a layer's attention, forward, and of the bias that all layers share."""
    attends = encoder(heads).encoder.block[0].layer[0].SelfAttention
    q, k, v = torch.randn(3, 1, heads, length, CHANNELS).unbind()
    ours, unmasked = posenc.T5(heads, two_sided=True), posenc.Mask(causal=False)
    with torch.no_grad():
        mask = attends.compute_bias(length, length)
        ways: dict[str, Callable[[], Outputs]] = {
            "attention without a bias, per layer": lambda: (scaled_dot_product_attention(q, k, v),),
            "attention with the mask, per layer": lambda: (scaled_dot_product_attention(q, k, v, attn_mask=mask),),
            "the mask itself, for all layers": lambda: (attends.compute_bias(length, length),),
            "posenc's attention, per layer": lambda: (
                posenc.attention(q, k, v, ours.at(posenc.positions.arange(length)), unmasked),
            ),
        }
        seconds = {
            name: statistics.median([timed(way) for _ in range(rounds + 1)][1:]) for name, way in ways.items()
        }
    return [f"| {length:,} tokens, {heads} heads: {name} | {second:.3f} |" for name, second in seconds.items()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.t5", description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument(
        "--heads", type=int, default=4, help="number of heads; each takes 4·L² bytes in transformers"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backward", action="store_true", help="also measure gradients")
    parser.add_argument("--parts", action="store_true", help="measure attention and the bias separately instead")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.parts:
        print("\n".join(["| part | s |", "| --- | ---: |", *parts(given.length, given.heads, given.rounds)]))
        return
    print("| task | SDPA, s | posenc, s | ratio | SDPA, MiB | posenc, MiB | ratio | without a bias, MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print(compared(given.length, given.heads, given.backward, given.rounds))
    print(f"Targets: {TIME_TARGET} of the time, {MEMORY_TARGET:.0%} of the memory.")


if __name__ == "__main__":
    main()
