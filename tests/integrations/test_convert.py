"""Weights moved to the other pairing compute the same function; moved the wrong way, they are found out."""

import pytest
import torch
import transformers
from torch import Tensor

import posenc
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import convert_pairing, patched
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer
from support.tiny_models import SIZES as TINY
from support.tiny_models import logits, tiny, tokens, turns_neighbours

SIZES = {"heads": 4, "kv_heads": 2, "head_dim": 16}


def own(pairing: str, rotary_dim: int = 16) -> Transformer:
    rotary = posenc.Rotary(16, pairing=pairing, rotary_dim=rotary_dim)
    model = Transformer(Model(width=64, heads=4, kv_heads=2), rotary, 64).initialise(0).eval()
    with torch.no_grad():
        for block in model.layers:
            block.attention.qkv.bias.normal_(generator=torch.Generator().manual_seed(1))
    return model


@torch.no_grad()
def apart(before: Transformer, after: Transformer, ids: Tensor) -> float:
    """The largest difference of logits, relative to the largest logit."""
    logits = before(ids)
    return float((after(ids) - logits).abs().max() / logits.abs().max())


@pytest.mark.parametrize("rotary_dim", [16, 8])
def test_random_weights_with_grouped_queries_biases_and_partial_rotation(rotary_dim: int) -> None:
    before, after = own("interleaved", rotary_dim), own("half", rotary_dim)
    state = before.state_dict()
    after.load_state_dict(convert_pairing(state, from_="interleaved", to="half", rotary_dim=rotary_dim, **SIZES))
    assert apart(before, after, tokens()) < 1e-5
    back = convert_pairing(after.state_dict(), from_="half", to="interleaved", rotary_dim=rotary_dim, **SIZES)
    assert all(torch.equal(back[name], value) for name, value in state.items())


def test_the_wrong_direction_and_a_wrong_rotary_dim_give_other_logits() -> None:
    before, after = own("interleaved"), own("half")
    for wrong in ({"from_": "half", "to": "interleaved"}, {"from_": "interleaved", "to": "half", "rotary_dim": 8}):
        after.load_state_dict(convert_pairing(before.state_dict(), **wrong, **SIZES))
        assert apart(before, after, tokens()) > 1e-2


@pytest.mark.parametrize(
    ("family", "module"),
    [("llama-2", "llama"), ("qwen2", "qwen2"), ("qwen3", "qwen3"), ("olmo2", "olmo2"), ("gpt-neox", "gpt_neox")],
)
def test_families_of_transformers(family: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A half model converted to interleaved, and run by code that turns interleaved pairs, gives its own logits."""
    import importlib

    modeling = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    model, ids = tiny(family), tokens()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(len(name)))
    before = logits(model, ids)
    heads, kv_heads = 4, 4 if family == "gpt-neox" else 2
    head_dim = 32 if family == "qwen3" else 16
    rotary_dim = 4 if family == "gpt-neox" else head_dim
    sizes = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "rotary_dim": rotary_dim}
    converted = convert_pairing(model.state_dict(), from_="half", to="interleaved", **sizes)
    monkeypatch.setattr(modeling, "apply_rotary_pos_emb", turns_neighbours)
    assert (logits(model, ids) - before).abs().max() > 0.02 * before.abs().max()
    model.load_state_dict(converted)
    torch.testing.assert_close(logits(model, ids), before, rtol=0, atol=1e-4 * before.abs().max().item())


def test_refusals() -> None:
    q = torch.zeros(64, 8)
    for state, options, message in (
        (
            {"embed.weight": q},
            {},
            r"known names: q_proj and k_proj \(Hugging Face\), wq and wk \(Meta\), attn_q and attn_k",
        ),
        ({"k_proj.weight": q}, {}, r"k_proj.weight has 64 rows, but heads=4, kv_heads=2 and head_dim=16 need 32"),
        ({"q_proj.weight": q}, {"rotary_dim": 7}, "rotary_dim=7 must be even"),
        ({"q_proj.weight": q}, {"to": "halves"}, "unknown pairing 'halves'; did you mean 'half'"),
        ({"q_proj.weight": q}, {"from_": "halves"}, "unknown pairing 'halves'; did you mean 'half'"),
        (None, {}, "state_dict is None; expected a dictionary of tensors; pass model.state_dict"),
        ({"q_proj.weight": q}, {"heads": 4.0}, r"heads=4.0 must be an integer; use int"),
        ({"q_proj.weight": q}, {"head_dim": 0}, "head_dim=0 must be at least 1"),
        ({"q_proj.weight": q}, {"rotary_dim": 0}, "rotary_dim=0 must be even, at least 2, and at most head_dim=16"),
        ({"a.q_b_proj.weight": q}, {}, "latent projection"),
        ({"a.q_a_proj.weight": q}, {}, "latent projection"),
        ({"a.kv_a_layernorm.weight": q}, {}, "latent projection"),
        ({"q_norm.weight": torch.ones(3, 8)}, {"head_dim": 8}, r"q_norm.weight has 24 rows, but .* need 32"),
        ({"query_key_value.weight": q}, {}, "kv_heads must equal heads="),
    ):
        with pytest.raises(InvalidArgument, match=message):
            convert_pairing(state, **{"from_": "interleaved", "to": "half", **SIZES, **options})


NORMED = {
    "Phi": {"qk_layernorm": True, "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "StableLm": {"qk_layernorm": True, "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}},
    "Cohere": {"use_qk_norm": True, "rope_parameters": {"rope_theta": 1e4}},
}


@pytest.mark.parametrize(("family", "heads"), [("Phi", 4), ("StableLm", 4), ("Cohere", 4), ("Cohere", 8)])
def test_norms_of_queries_and_keys_go_with_their_channels(family: str, heads: int) -> None:
    """Without positions the order of channels is nobody's business; eight heads of eight channels are a square."""
    sizes = {**TINY, "num_attention_heads": heads, "num_key_value_heads": 2, **NORMED[family]}
    kind = getattr(transformers, f"{family}ForCausalLM")
    model, ids = kind(kind.config_class(**sizes)).eval(), tokens()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5, generator=torch.Generator().manual_seed(len(name)))
    head_dim = 64 // heads
    share = NORMED[family]["rope_parameters"].get("partial_rotary_factor", 1)
    pairings = ("interleaved", "half") if family == "Cohere" else ("half", "interleaved")
    shape = {
        "from_": pairings[0],
        "to": pairings[1],
        "heads": heads,
        "kv_heads": 2,
        "head_dim": head_dim,
        "rotary_dim": int(head_dim * share),
    }
    with patched(model, posenc.NoPE()):
        before = logits(model, ids)
        model.load_state_dict(convert_pairing(model.state_dict(), **shape))
        torch.testing.assert_close(logits(model, ids), before, rtol=0, atol=1e-5 * before.abs().max().item())


@pytest.mark.parametrize(
    "name",
    [
        "layers.0.self_attn.q_proj.weight_scale_inv",
        "layers.0.self_attn.k_proj.qweight",
        "layers.0.self_attn.k_proj.scales",
        "layers.0.self_attn.q_proj.lora_magnitude_vector",
        "layers.0.self_attn.q_proj.input_scale",
        "layers.0.self_attn.qkv_proj.qzeros",
        "layers.0.attention.query_key_value.weight_scale_inv",
        "blk.0.attn_q.weight.lora_b",
        "layers.0.self_attn.qk_norm.weight",
        "layers.0.attention.wqkv.weight",
        "layers.0.attn.Wqkv.weight",
        "blk.0.attn_q_b.weight",
        "layers.0.attn.c_attn.weight",
        "layers.0.attention.query.weight",
    ],
)
def test_what_belongs_to_queries_or_keys_and_is_not_understood_is_refused(name: str) -> None:
    state = {
        "layers.0.self_attn.q_proj.weight": torch.zeros(64, 8),
        "layers.0.self_attn.v_proj.weight_scale": torch.ones(4),
    }
    assert convert_pairing(state, from_="interleaved", to="half", **SIZES).keys() == state.keys()
    remedy = (
        f"{name} may belong to a query or key projection, .*; dequantise it, merge adapters, or rename it; known"
    )
    with pytest.raises(InvalidArgument, match=remedy):
        convert_pairing({**state, name: torch.ones(64, 1)}, from_="interleaved", to="half", **SIZES)


NAMES = {
    "hugging face": "layers.0.self_attn.{}_proj.{}",
    "meta": "layers.0.attention.w{}.{}",
    "gguf": "blk.0.attn_{}.{}",
}


@pytest.mark.parametrize("names", ["meta", "gguf"])
def test_names_of_meta_and_gguf_are_read_as_those_of_hugging_face(names: str) -> None:
    """Oracle: a head's channel i goes to i/2, and to D/2 + (i − 1)/2 where i is odd."""
    draw = torch.Generator().manual_seed(0)
    shapes = {("q", "weight"): (64, 8), ("q", "bias"): (64,), ("k", "weight"): (32, 8), ("v", "weight"): (32, 8)}
    tensors = {key: torch.randn(shape, generator=draw) for key, shape in shapes.items()}
    state = {NAMES[names].format(*key): tensor for key, tensor in tensors.items()}
    converted = convert_pairing(state, from_="interleaved", to="half", **SIZES)
    for (part, kind), tensor in tensors.items():
        heads = tensor.unflatten(0, (-1, 8, 2)).movedim(2, 1).reshape(tensor.shape)
        want = tensor if part == "v" else heads
        assert torch.equal(converted[NAMES[names].format(part, kind)], want)


def test_norms_by_the_names_of_gguf() -> None:
    state = {"blk.0.attn_q.weight": torch.zeros(64, 8), "blk.0.attn_q_norm.weight": torch.arange(16.0)}
    converted = convert_pairing(state, from_="interleaved", to="half", **SIZES)
    assert converted["blk.0.attn_q_norm.weight"].tolist() == [*range(0, 16, 2), *range(1, 16, 2)]


def test_weights_that_have_the_pairing_already_stay() -> None:
    state = own("half").state_dict()
    converted = convert_pairing(state, from_="half", to="half", **SIZES)
    assert all(torch.equal(converted[name], value) for name, value in state.items())


@pytest.mark.parametrize(("name", "rows"), [("q_proj", 64), ("k_proj", 32), ("qkv_proj", 128)])
@pytest.mark.parametrize("adapter", ["", ".default"])
def test_scales_and_adapters_go_with_their_rows(name: str, rows: int, adapter: str) -> None:
    """Oracle: the weights that they stand for, made first and converted afterwards."""
    draw = torch.Generator().manual_seed(0)
    tensors = {
        f"{name}.base_layer.weight": torch.randn(rows, 8, generator=draw),
        f"{name}.base_layer.weight_scale": torch.rand(rows, 1, generator=draw),
        f"{name}.lora_A{adapter}.weight": torch.randn(3, 8, generator=draw),
        f"{name}.lora_B{adapter}.weight": torch.randn(rows, 3, generator=draw),
        "o_proj.weight_scale": torch.rand(8, 1, generator=draw),
    }

    def weight(state: dict[str, Tensor]) -> Tensor:
        base, scale, a, b, _ = state.values()
        return base * scale + b @ a

    converted = convert_pairing(tensors, from_="interleaved", to="half", **SIZES)
    want = convert_pairing({f"{name}.weight": weight(tensors)}, from_="interleaved", to="half", **SIZES)[
        f"{name}.weight"
    ]
    torch.testing.assert_close(weight(converted), want)
    assert not torch.equal(want, weight(tensors))
    one = {f"{name}.weight": weight(tensors), f"{name}.weight_scale": torch.tensor(2.0)}
    assert convert_pairing(one, from_="interleaved", to="half", **SIZES)[f"{name}.weight_scale"] == 2


@pytest.mark.parametrize("tower", ["vision_tower.encoder", "model.visual", "audio_tower", "vision_model"])
def test_towers_beside_a_language_model_are_refused(tower: str) -> None:
    state = {"layers.0.self_attn.q_proj.weight": torch.zeros(64, 8)}
    with pytest.raises(InvalidArgument, match=f"{tower}.*belongs to a vision or audio tower.*language model alone"):
        convert_pairing(
            {**state, f"{tower}.layers.0.self_attn.q_proj.weight": torch.zeros(64, 8)},
            from_="interleaved",
            to="half",
            **SIZES,
        )
