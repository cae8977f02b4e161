"""A tiny model of every family gives the same logits with our positions, other ones with others, its own after."""

import copy
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import posenc
from posenc.encodings.encoding import Encoding
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface import patched, read
from posenc.integrations.huggingface.patch import _layout
from posenc.remap import ReRoPE
from posenc.scaling import Linear
from support.processes import python
from support.small_models import answers, check_refused, small
from support.small_models import own as small_own
from support.tiny_models import MODELS, TABLED, logits, tiny, tokens

UNSWAPPED = {"gpt2", "bert", "bloom", "mpt"} | TABLED
"""Whose tables and biases stay the model's own."""
ROTARY = sorted(set(MODELS) - UNSWAPPED)


def own(model: nn.Module, phases: str) -> Encoding:
    """The model's own positions, from its config."""
    return read(model.config).as_layers(total_length=48, phases=phases)


@pytest.mark.parametrize("family", ROTARY)
def test_the_same_logits(family: str) -> None:
    model, ids = tiny(family), tokens()
    before = logits(model, ids)
    with patched(model, own(model, "float32")):
        ours = logits(model, ids)
    with patched(model, own(model, "exact")):
        exact = logits(model, ids)
    with patched(model, {kind: posenc.NoPE() for kind in read(model.config).rotary_recipes}):
        assert (logits(model, ids) - before).abs().max() > 0.02 * before.abs().max()
    assert torch.equal(logits(model, ids), before)
    assert torch.equal(ours, before)
    # float32 angles at position 47 are off by 47·2^−24 rad and a few units, 1e-5; two sharp layers amplify it.
    torch.testing.assert_close(exact, before, rtol=0, atol=1e-3 * before.abs().max().item())


def test_no_positions_are_those_of_a_rotation_so_slow_that_it_stands_still() -> None:
    model, ids = tiny("llama-2"), tokens()
    with patched(model, posenc.Rotary(16, pairing="half", scaling=Linear(1e12))):
        want = logits(model, ids)
    with patched(model, posenc.NoPE()):
        torch.testing.assert_close(logits(model, ids), want, rtol=0, atol=1e-5 * want.abs().max().item())


@pytest.mark.parametrize("family", ["llama-2-yarn", "gpt-neox", "gemma3"])
def test_the_same_logits_in_bfloat16(family: str) -> None:
    model, ids = tiny(family, torch.bfloat16), tokens()
    before = logits(model, ids).float()
    exact = tiny(family)
    exact.load_state_dict(model.state_dict())
    truth = logits(exact, ids)
    with patched(model, own(model, "exact")):
        ours = logits(model, ids).float()
    theirs_off, ours_off = ((x - truth).square().mean().sqrt() for x in (before, ours))
    assert ours_off <= 1.25 * theirs_off  # no further from the float32 model than the family's own bfloat16


def test_undone_after_an_exception_and_nothing_else_touched() -> None:
    model, bystander, ids = tiny("llama-2"), tiny("llama-2"), tokens()
    state, before = copy.deepcopy(model.state_dict()), logits(model, ids)

    def fail() -> None:
        with patched(model, posenc.NoPE()):
            assert torch.equal(logits(bystander, ids), before)
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    assert torch.equal(logits(model, ids), before)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in state.items())
    assert not any("forward" in module.__dict__ for module in model.modules())


def test_refusals() -> None:
    llama, gemma = tiny("llama-2"), tiny("gemma3")
    rotary = posenc.Rotary(16, pairing="half")
    for model, encoding, message in (
        (llama, ReRoPE(posenc.Rotary(16, pairing="interleaved"), 4), "pairing"),
        (tiny("bloom"), ReRoPE(rotary, 4), "alibi, which cannot be replaced"),
        (
            small("roformer"),
            ReRoPE(posenc.Rotary(64, pairing="interleaved"), 4),
            "no rotary module .* receives position ids",
        ),
        (None, rotary, "model is None; expected a loaded model of transformers"),
        (nn.Linear(2, 2), rotary, "config is a NoneType; expected a config object"),
        (llama, "yarn(4)", r"encoding is 'yarn\(4\)'; expected an encoding, such as posenc.Rotary"),
        (llama, {"all": None}, "encoding is None; expected an encoding"),
        (llama, posenc.NoPE, "encoding is <class .*>; expected an encoding"),
        (
            tiny("deepseek-v3"),
            ReRoPE(posenc.Rotary(16, pairing="interleaved"), 4),
            "encoding is rerope, but model_type 'deepseek_v3' has latent attention",
        ),
        (llama, posenc.ALiBi(4), "encoding is alibi, but this model rotates q and k"),
        (llama, posenc.Rotary(16, pairing="interleaved"), "convert the weights with convert_pairing first"),
        (
            llama,
            posenc.Rotary(16, pairing="half", rotary_dim=8),
            "encoding has rotary_dim=8, but this model has 16",
        ),
        (
            llama,
            {"full_attention": rotary},
            r"encoding has layer types \['full_attention'\], but this model has \['all'\]",
        ),
        (gemma, posenc.Rotary(32, pairing="half"), r"pass a dict with one encoding per type, or Layers"),
        (small("t5"), rotary, r"this model has layer types \['decoder', 'encoder'\]; pass a dict"),
        (
            small("t5"),
            dict.fromkeys(("encoder", "decoder"), rotary),
            "encoding is rotary, but this model adds a bias to its scores",
        ),
    ):
        check_refused(model, encoding, message)
    with patched(llama, rotary), pytest.raises(InvalidArgument, match=r"position_ids is torch\.float32"):
        llama(tokens(), position_ids=torch.arange(48.0)[None])


@pytest.mark.parametrize(
    ("family", "what"),
    [
        ("bloom", "alibi"),
        ("gpt2", "learned"),
        ("deberta-v2", "deberta"),
        ("pixtral", "rows and columns"),
    ],
)
def test_tables_biases_and_places_in_a_picture_are_not_swapped(family: str, what: str) -> None:
    """Whatever encoding is passed, one of the model's own kind too."""
    model = tiny(family) if family in MODELS else small(family)
    for encoding in (posenc.NoPE(), *small_own(model, 12).values()):
        check_refused(model, encoding, f"{what}, which cannot be replaced")


def test_a_model_whose_rotary_module_is_gone_is_refused() -> None:
    model = tiny("llama-2")
    model.model.rotary_emb = nn.Identity()
    check_refused(model, posenc.NoPE(), r"no rotary module .* other code has patched")


@pytest.mark.parametrize("family", ["cohere", "gemma3", "llama-2-yarn"])
def test_a_block_within_a_block_lays_angles_out_as_the_class_does(family: str) -> None:
    """Without rotation all halves are alike: the layout cannot be read off a module that is patched already."""
    model, ids = tiny(family), tokens()
    before, encoding = logits(model, ids), own(tiny(family), "float32")
    still = {name: posenc.NoPE() for name in read(model.config).rotary_recipes}
    with patched(model, still):
        without = logits(model, ids)
        with patched(model, encoding):
            assert torch.equal(logits(model, ids), before)
        assert torch.equal(logits(model, ids), without)
    assert not torch.equal(without, before)


def test_nothing_outside_the_model_remains_of_a_patched_t5() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    mappings = [interface._global_mapping for interface in (AttentionInterface, AttentionMaskInterface)]
    before = [set(mapping) for mapping in mappings]
    model, other = small("t5"), small("t5")
    model.decoder.config._attn_implementation = "eager"  # a stack's own
    with patched(model, small_own(model, 12)):
        with patched(other, small_own(other, 12)):
            assert all(len(mapping) == len(names) + 2 for mapping, names in zip(mappings, before, strict=True))
        assert answers(model, input_ids=tokens()[:, :12], decoder_input_ids=tokens()[:, :7]).isfinite().all()
    assert [set(mapping) for mapping in mappings] == before
    assert (model.encoder.config._attn_implementation, model.decoder.config._attn_implementation) == (
        "sdpa",
        "eager",
    )
    assert not any("posenc_stack" in vars(module) for module in model.modules())


@pytest.mark.parametrize(
    "wide", [lambda x: x, lambda x: torch.cat((x, x), -1), lambda x: x.repeat_interleave(2, -1)]
)
@pytest.mark.parametrize("swapped", [False, True])  # GPT-J and CodeGen answer sin before cos from transformers 5.24
def test_angles_are_laid_out_as_the_rotary_module_answers(wide: Callable[[Tensor], Tensor], swapped: bool) -> None:
    angles = torch.arange(2.0)[None, :, None] * torch.tensor([1.0, 0.1, 0.01])
    model_s = tuple(wide(x) for x in (angles.cos(), angles.sin()))[:: -1 if swapped else 1]
    module = type("Rotates", (torch.nn.Module,), {"forward": lambda self, x, position_ids: model_s})()
    ours = _layout(module, "all", 3)(angles.cos(), angles.sin(), torch.float32)
    assert all(map(torch.equal, ours, model_s))


@pytest.mark.parametrize("family", ["codegen", "gptj", "roformer", "ministral3", "llama4_text"])
def test_query_scales_stay_and_angles_in_tables_are_swapped_only_in_a_rotary_module(family: str) -> None:
    model = tiny(family) if family in MODELS else small(family)
    if family in TABLED:
        check_refused(model, posenc.NoPE(), r"no rotary module .* angles up in tables")
        return
    before = answers(model, input_ids=tokens())
    with patched(model, own(model, "float32")):
        torch.testing.assert_close(answers(model, input_ids=tokens()), before)
    with patched(model, posenc.NoPE()):
        assert not torch.allclose(answers(model, input_ids=tokens()), before)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # the method has another name from transformers 6 on
def test_gradients_of_a_patched_model_are_the_same_with_checkpoints() -> None:
    model, ids, gradients = tiny("llama-2").train(), tokens(12), []
    encoding = own(model, "float32")
    with patched(model, encoding):
        for checkpointed in (False, True):
            if checkpointed:
                model.gradient_checkpointing_enable()
            model.zero_grad()
            torch.manual_seed(0)  # of dropout
            model(ids, use_cache=False).logits.square().mean().backward()
            gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)


PROGRAM = """
import sys, torch
from support.tiny_models import tiny, tokens
from posenc.integrations.huggingface import patched, read
from posenc.remap import SelfExtend

model, given = tiny(sys.argv[1]), {"input_ids": tokens()[:1, :12], "use_cache": False}
encoding = read(model.config).as_layers(12, "float32")
with patched(model, SelfExtend(encoding, 2, 4) if sys.argv[2:] else encoding), torch.no_grad():
    exported = torch.export.export(model, (), given, strict=False).module()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    found = compiled(**given).logits, exported(**given).logits
    own = model(**given).logits
for logits in found:  # the same sums, some in another order
    torch.testing.assert_close(logits, own, rtol=0, atol=2e-5 * own.abs().max().item())
"""


@pytest.mark.parametrize(
    "family", ["cohere", *(pytest.param(one, marks=pytest.mark.slow) for one in ("gemma3", "t5"))]
)
def test_a_patched_model_is_exported(family: str) -> None:
    model, given = tiny(family) if family in MODELS else small(family), {"input_ids": tokens()[:1, :12]}
    given |= {"decoder_input_ids": tokens()[:1, :7]} if family == "t5" else {}
    encoding = own(model, "float32") if family in MODELS else small_own(model, 12)
    with torch.no_grad(), patched(model, encoding):
        exported = torch.export.export(model, (), {**given, "use_cache": False}, strict=False).module()
        found = exported(**given, use_cache=False)[0]
        ours = model(**given, use_cache=False)[0]
    # the same sums, some in another order
    torch.testing.assert_close(found, ours, rtol=0, atol=2e-5 * ours.abs().max().item())


@pytest.mark.slow
@pytest.mark.parametrize("model", [("cohere",), ("gemma3",), ("llama-2", "remapped")])
def test_a_patched_model_is_compiled_in_one_graph_and_exported(model: tuple[str, ...]) -> None:
    """In an interpreter of its own, since run-time checks of annotations cannot be traced."""
    path = os.pathsep.join([str(Path(posenc.__file__).parents[1]), str(Path(__file__).parents[1])])
    python("-W", "ignore", "-c", PROGRAM, *model, PYTHONPATH=path)
