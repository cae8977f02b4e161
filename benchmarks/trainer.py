"""Speed of the trainer relative to a plain loop: the same small GPT and batches, in tokens per processor second."""

import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from posenc.workbench.run.plan import Plan
from posenc.workbench.run.training import build, learn
from posenc.workbench.run.transformer import Transformer
from posenc.workbench.tasks import Task, task
from posenc.workbench.tasks.text import load

PLAN = Plan(
    encoding="nope",
    task="language",
    seed=0,
    steps=8,
    batch=4,
    learning_rate=1e-3,
    train_length=256,
    lengths=(256,),
    test_count=1,
    width=256,
    layers=4,
    heads=4,
)
ROUNDS = 5


def plain(model: Transformer, made: Task) -> None:
    """Run only forward, backward and AdamW, with torch's attention and the model's weights."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=PLAN.learning_rate, fused=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(PLAN.steps):
        batch = made.train_batch(generator, PLAN.batch)
        loss = F.cross_entropy(forward(model, batch.tokens).flatten(0, 1), batch.targets.flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()


def forward(model: Transformer, tokens: Tensor) -> Tensor:
    """Compute the same model without positions, in plain PyTorch."""
    x = model.embedding(tokens)
    for block in model.layers:
        attention = block.attention
        heads = attention.qkv(block.attention_norm(x)).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
        y = F.scaled_dot_product_attention(*heads.chunk(3, dim=1), is_causal=True)
        x = x + attention.out(y.transpose(1, 2).flatten(-2))
        x = x + block.feedforward(block.feedforward_norm(x))
    output: Tensor = model.head(model.norm(x))
    return output


def rates() -> tuple[float, float]:
    """Return tokens per processor second of the plain loop and of the trainer, the best of several rounds."""
    made = task(PLAN.task, load(), PLAN.lengths[-1], PLAN.train_length)
    loops: tuple[Callable[[Transformer], object], ...] = (
        lambda model: plain(model, made),
        lambda model: learn(model, made, PLAN),
    )
    best = [0.0, 0.0]
    for _ in range(ROUNDS):
        for which, loop in enumerate(loops):
            model = build(PLAN, made)
            started = time.process_time()
            loop(model)
            took = time.process_time() - started
            best[which] = max(best[which], PLAN.steps * PLAN.batch * PLAN.train_length / took)
    return best[0], best[1]


if __name__ == "__main__":
    theirs, ours = rates()
    print(f"plain loop {theirs:,.0f} tokens per processor second, trainer {ours:,.0f}, ratio {ours / theirs:.3f}")
