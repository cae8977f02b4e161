"""Models of transformers with remapped positions: by hand, with caches, padding, windows, softcap and sinks."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, silu

import posenc
from posenc.integrations.huggingface import patched, read
from posenc.integrations.huggingface.language_model import cached
from posenc.remap import DCA, STRING, Remap, ReRoPE, SelfExtend
from support import remapped
from support.small_models import check_swapped
from support.tiny_models import TABLED, logits, tiny

ROPE = posenc.Rotary(16, pairing="half")
EVERY = [
    (SelfExtend(ROPE, 3, 7), remapped.self_extend(3, 7)),
    (DCA(ROPE, 9, 4), remapped.dca(9, 4)),
    (ReRoPE(ROPE, 7), remapped.rerope(7)),
    (STRING(ROPE, 11, 3), remapped.string(11, 3)),
]
IDS = torch.randint(3, 64, (2, 37), generator=torch.Generator().manual_seed(0))


def by_hand(model: nn.Module, ids: Tensor, used: remapped.Used) -> Tensor:
    """Llama's formula over its weights, at these distances."""
    W, at = model.state_dict(), torch.arange(ids.shape[1])
    distances, causal = remapped.matrix(used, at, at), torch.ones(len(at), len(at)).tril().bool()

    def norm(x: Tensor, name: str) -> Tensor:
        """In float32, as transformers has it in every type."""
        wide = x.float()
        return W[f"{name}.weight"] * (wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt()).double()

    x = embedding(ids, W["model.embed_tokens.weight"])
    for i in range(2):
        layer = f"model.layers.{i}"
        h = norm(x, f"{layer}.input_layernorm")
        heads = (linear(h, W[f"{layer}.self_attn.{n}_proj.weight"]).unflatten(-1, (-1, 16)) for n in "qkv")
        q, k, v = (head.transpose(1, 2) for head in heads)
        y = remapped.attention(q, k, v, distances, causal).transpose(1, 2).flatten(-2)
        x = x + linear(y, W[f"{layer}.self_attn.o_proj.weight"])
        h = norm(x, f"{layer}.post_attention_layernorm")
        gate, up = (linear(h, W[f"{layer}.mlp.{n}_proj.weight"]) for n in ("gate", "up"))
        x = x + linear(silu(gate) * up, W[f"{layer}.mlp.down_proj.weight"])
    return linear(norm(x, "model.norm"), W["lm_head.weight"])


@pytest.mark.parametrize(
    ("encoding", "used"),
    [*EVERY[:2], *(pytest.param(*one, marks=pytest.mark.slow) for one in EVERY[2:])],
    ids=lambda x: getattr(x, "name", ""),
)
def test_a_llama_is_its_formula_at_these_distances(encoding: Remap, used: Callable[[int, int], float]) -> None:
    """At once, in chunks with a cache, generating with caches that grow and of a fixed size, and left-padded."""
    model = tiny("llama-2").double()
    with torch.no_grad():
        before, want = model(IDS).logits, by_hand(model, IDS, used)
        with patched(model, encoding):
            torch.testing.assert_close(model(IDS).logits, want, rtol=0, atol=1e-6)
            then = model(IDS[:, 20:], **cached(model(IDS[:, :20], use_cache=True))).logits
            torch.testing.assert_close(then, want[:, 20:], rtol=0, atol=1e-6)
            for cache in ("dynamic", "static"):
                settings: dict[str, Any] = {
                    "max_new_tokens": 4,
                    "min_new_tokens": 4,
                    "do_sample": False,
                    "cache_implementation": cache,
                    "return_dict_in_generate": True,
                    "output_logits": True,
                }
                out = model.generate(IDS, **settings)
                steps = torch.stack(out.logits, 1).double()
                torch.testing.assert_close(steps, by_hand(model, out.sequences, used)[:, -5:-1], rtol=0, atol=1e-5)
            mask = (torch.arange(37) >= torch.tensor([[0], [9]])).long()
            padded = torch.cat((IDS[:1], torch.cat((torch.zeros(1, 9).long(), IDS[1:, :28]), 1)))
            out = model.generate(padded, attention_mask=mask, **settings)
            alone = by_hand(model, out.sequences[1:, 9:], used)[:, -5:-1]
            torch.testing.assert_close(torch.stack(out.logits, 1)[1:].double(), alone, rtol=0, atol=1e-5)
        assert torch.equal(model(IDS).logits, before)


@pytest.mark.parametrize(
    "family", ["gemma2", "gemma3", "llama-2-yarn", "phi", "gpt-oss", "smollm3", *({"gptj"} - TABLED)]
)
def test_windows_softcap_and_sinks_stay_the_models(family: str) -> None:
    """Where no key is far, and in a plain block in a remapped one, the logits are the model's own, by its windows,
    factors, softcap and sinks."""
    model = tiny(family)
    encodings = read(model.config).encodings(phases="float32")
    near: dict[str, posenc.Encoding] = {
        name: ReRoPE(one, 10_000) if isinstance(one, posenc.Rotary) else one for name, one in encodings.items()
    }
    far = {name: ReRoPE(one, 4) if isinstance(one, posenc.Rotary) else one for name, one in encodings.items()}
    model.set_attn_implementation("eager")  # Gemma 2's default in transformers 5.20 knows no softcap
    before = logits(model, IDS)
    largest = float(before.abs().max())
    check_swapped(model, near, far, lambda: logits(model, IDS), most=1e-5 * largest, least=0.01 * largest)
    with patched(model, far), patched(model, encodings):  # the inner block's encoding alone
        torch.testing.assert_close(logits(model, IDS), before, rtol=0, atol=1e-5 * largest)
