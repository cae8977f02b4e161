"""`posenc inspect` says the right thing about real-world configs, and catches a misspelt key."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import UnknownName
from posenc.integrations.differences import differences
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.family import Family
from posenc.integrations.inspection import inspect, measured
from posenc.integrations.sources import table
from posenc.scaling import Default, Proportional, YaRN
from posenc.scaling.wavelengths import slowing, turns
from posenc.teaching.views.catalogue import make
from posenc.teaching.views.scaling import drawn
from support.files import saved
from support.places import CONFIGS
from support.small_models import small

SAYS: dict[str, tuple[str, ...]] = {
    "llama-3.1-8b": (
        "llama: RoPE, base 500,000, Llama 3 scaling by 8.",
        "32 layers with RoPE: all 128 channels of a head rotate, in half pairs (i, i+64)",
        "Trained length 8,192, inputs of up to 131,072 allowed.",
        "Wavelengths run from 6.283 to 20,473,564 positions; unscaled, 35 of 64 pairs complete a turn",
        "29 unchanged, 6 in between, 29 slowed 8 times",
        "Some Llama models since 3.1 are released with factor 8 and inputs of up to 131,072 tokens.",
        "change cos and sin by up to 0.0093 near position 131,071",  # 0.0037 at this position
        "bfloat16 tables",
    ),
    "yarn-llama-2-7b-128k": (
        "YaRN scaling by 32",
        "21 unchanged, 25 in between, 18 slowed 32 times",
        "Attention factor 1.347: scores are multiplied by 1.813, which sharpens attention",
        "YaRN also scales short inputs",
    ),
    "mistral-7b": (
        "no scaling",
        "60 of 64 pairs",
        "base 10,000; a token sees itself and the 4,095 before it.",
    ),
    "qwen2.5-7b-yarn": ("factor mismatch: factor 4 times trained length 32,768 is 131,072",),
    "phi-3-mini-128k": ("LongRoPE: a factor per pair", "Attention factor 1.19", "cached keys become stale"),
    "gemma-3-4b": (
        "5 layers of full_attention",
        "29 layers of sliding_attention",
        "base 10,000; a token sees itself and the 1,023 before it.",
        "full_attention: Wavelengths run from 50.27 to",
        "assumed: rope_theta = 1000000, the default of transformers",
        "assumed: rope_theta = 10000, the default of transformers",
        "before or after scaling by 8",
    ),
    "pythia-1.4b": ("the first 32 of 128 channels", "11 of 16 pairs"),
    "gpt-j-6b": (
        "the first 64 of 256 channels",
        "interleaved pairs (2i, 2i+1)",
        "base = 10000, written in gptj's code",
    ),
    "gpt-oss-20b": (
        "YaRN scaling by 32, ramp ends not rounded",
        "base 150,000; a token sees itself and the 127 before it; every head has a sink in its softmax.",
    ),
    "deepseek-v3": (
        "the last 64 of 192 channels of a head rotate, in interleaved pairs",
        "The softmax scale 1/√192 is multiplied by 1.874, which makes it 0.1352 (mscale_all_dim)",
    ),
    "smollm2-135m": (
        "base 100,000, no scaling",
        "Trained length 8,192, also the longest input, as the config gives no other length.",
        "20 of 32 pairs",
        "beyond 8,192 tokens the 12 slowest pairs reach angles never seen",
    ),
    "smollm3-3b": (
        "no positional encoding in the others",
        "27 layers with RoPE",
        "9 layers without positional encoding",
    ),
    "bloom-7b1": (
        "bloom: ALiBi: 32 heads, smallest slope",
        "30 layers with ALiBi: 32 heads",
        "loss stays flat past the trained length, but ALiBi fades out far tokens; in 16-bit types",
    ),
    "mpt-7b-storywriter": ("smallest slope 2^−16",),
    "gpt2": (
        "gpt2: a learned table of 1024 positions.",
        "longer than 1,024 tokens fails",
    ),
    "falcon-7b": ("assumed: rope_theta = 10000",),
    "bert-base": (
        "longer than 512 tokens fails, because the position table has no more rows; split longer documents into",
    ),
}
NEVER: dict[str, tuple[str, ...]] = {
    "llama-3.1-8b": ("mismatch", "assumed"),
    "qwen2.5-7b-yarn": ("window",),
    "phi-3-mini-128k": ("window",),
    "smollm3-3b": ("window",),
    "gpt-oss-20b": ("factor mismatch",),
    "deepseek-v3": ("factor mismatch",),
    "mistral-7b": ("assumed", "pieces", "slowest pairs"),
    "bloom-7b1": ("pieces",),
    "falcon-7b": ("16 tables",),
}
"""Risks that are none."""
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}


@pytest.mark.parametrize("name", SAYS)
def test_real_configs(name: str) -> None:
    said = inspect(CONFIGS / f"{name}.json").text()
    assert [sentence for sentence in SAYS[name] if sentence not in said] == []
    assert not re.search(r"[\u2009\u202f]", said)  # commas between thousands, as in diff
    assert [sentence for sentence in NEVER.get(name, ()) if sentence in said] == []


def test_a_base_that_is_stated_is_told() -> None:
    assert "base 10,000" in inspect(CONFIGS / "llama-2-7b.json", base=1e4).answer


@pytest.mark.parametrize("stated", [1.0, None])
def test_a_stated_attention_factor_that_programs_may_ignore_is_a_risk(stated: float | None) -> None:
    config = json.loads((CONFIGS / "llama-2-7b.json").read_text())
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 4096}
    rope |= {} if stated is None else {"attention_factor": stated}
    risks = inspect({**config, "rope_scaling": rope, "max_position_embeddings": 16384}).risks
    told = "attention factor 1 is stated in the config, and programs that do not read it use their default"
    assert [risk.startswith(told) for risk in risks].count(True) == (stated == 1.0)


@pytest.mark.parametrize("factor", [8.0, 32.0, 16.0])
def test_the_released_factor_of_llama_3_is_the_configs(factor: float) -> None:
    """3.1 has factor 8 and 3.2 has factor 32; another one is a mismatch."""
    config = json.loads((CONFIGS / "llama-3.1-8b.json").read_text())
    config["rope_scaling"]["factor"] = factor
    said = inspect(config).text()
    assert (f"are released with factor {factor:g} and inputs of up to 131,072 tokens." in said) == (factor != 16)
    assert said.count("released with factor") == (factor != 16)


def test_the_command_prints_and_draws(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["inspect", str(CONFIGS / "smollm2-135m.json"), "-o", str(tmp_path / "figure.svg")]
    )
    assert result.exit_code == 0
    assert "no scaling" in result.stdout
    assert (tmp_path / "figure.svg").read_text().count("trained length") >= 1
    result = CliRunner().invoke(app, ["inspect", str(CONFIGS / "gpt2.json"), "-o", str(tmp_path / "none.svg")])
    assert "the model has no rotary frequencies" in str(result.exception)
    result = CliRunner().invoke(app, ["inspect", str(CONFIGS / "smollm2-135m.json"), "-o", "figure.bmp"])
    assert (result.output, str(result.exception)[:24]) == ("", "'figure.bmp' must end in")


def test_view_of_a_scaling() -> None:
    view = drawn(YaRN(16, 4096), 128, 1e4, 4096)
    wavelength = view.panels[0]
    assert [line.name for line in wavelength.lines] == ["unscaled", "YaRN"]
    assert wavelength.levels == ((4096.0, "trained length"),)
    assert wavelength.marks[0][0] == 45.5
    assert view.readouts["pairs with a full turn, unscaled"] == 46
    unscaled, scaled = (line.values for line in wavelength.lines[:2])
    assert torch.equal(unscaled[:21], scaled[:21])
    torch.testing.assert_close(scaled[46:], 16 * unscaled[46:], rtol=1e-12, atol=0)
    assert len(drawn(Default(), 128, 1e4, 4096).panels[0].lines) == 1
    still = drawn(Proportional(0.25), 64, 1e4, 4096)
    assert still.readouts["pairs slowed to a standstill"] > 0
    assert torch.isnan(still.panels[0].lines[-1].values[8:]).all()
    assert slowing(Proportional(0.25), 64, 1e4)[8:] == [float("inf")] * 24


def test_views_by_name() -> None:
    for name in (
        "default",
        "linear",
        "ntk",
        "ntk-fixed",
        "abf",
        "dynamic",
        "yarn",
        "yarn-paper",
        "llama3",
        "proportional",
    ):
        assert make("scaling", {"scaling": name, "rotary_dim": "32"}).panels
    # A config with factor 8 has it at 8 times its length: NTK at 8² − 8 + 1.
    assert (
        "dynamic NTK keeps 1 of 64 pairs, slows 1 by 57 times"
        in make("scaling", {"scaling": "dynamic", "factor": "8"}).title
    )
    with pytest.raises(UnknownName, match="did you mean 'yarn'"):
        make("scaling", {"scaling": "yarm"})
    assert turns(Default().frequencies(64, 1e5), 8192) == 20


def test_measured_beside_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(
        tmp_path,
        "config.json",
        {
            "model_type": "smollm3",
            "hidden_size": 64,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "num_hidden_layers": 4,
            "intermediate_size": 64,
            "vocab_size": 99,
            "pad_token_id": 1,
            "max_position_embeddings": 64,
            "rope_theta": 1e4,
        },
    )
    said = CliRunner().invoke(app, ["inspect", path, "--measure"])
    assert said.exit_code == 0, said.output
    assert "Layers 0 to 2 with RoPE: all 16 channels of a head rotate, in half pairs" in said.output
    assert "Layer 3 without positional encoding." in said.output
    assert "Wavelengths run from 6.283 to 19,869 positions." in said.output
    assert "posenc's reading of the config agrees." in said.output
    assert not measured(CONFIGS / "phi-3-mini-128k.json")[1]  # its type is "su", which its class refuses
    monkeypatch.setitem(FAMILIES, "smollm3", Family(extra=("no_rope_layers", "no_rope_layer_interval")))
    differs = CliRunner().invoke(app, ["inspect", path, "--measure"])
    assert (
        "Differs: all in layer 3: the encoding is rotary in what was read, nope in the measured" in differs.output
    )
    assert (said.exit_code, differs.exit_code) == (0, 1)
    monkeypatch.delitem(FAMILIES, "smollm3")
    said = CliRunner().invoke(app, ["inspect", path, "--measure"])
    assert "Not compared: model_type 'smollm3' of transformers" in said.output
    assert "Llama's rule does not fit it: the config has 'no_rope_layer_interval'" in said.output


def test_a_model_without_attention_is_not_compared(tmp_path: Path) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "mamba_n_heads": 8, "vocab_size": 99}
    types = {"num_hidden_layers": 2, "layer_types": ["mamba"] * 2}
    said, differs = measured(saved(tmp_path, "config.json", {"model_type": "granitemoehybrid", **types, **sizes}))
    assert said.splitlines()[-1] == "Not compared: no layer with attention was measured."
    assert not differs


def test_a_measured_model_is_a_source_of_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the whole model, though the one that is measured has fewer layers, and windows of a few tokens."""
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64}
    lengths = {"num_hidden_layers": 12, "sliding_window": 512, "max_position_embeddings": 8192, "rope_theta": 1e4}
    path = saved(tmp_path, "config.json", {"model_type": "cohere2", **lengths, **sizes})
    read, measured = table(path), table(f"measured:{path}")
    assert differences(read, measured) == []
    assert {layer.window for layer in measured.layers.values()} == {512, None}
    assert "layers beyond the first of every type" in measured.not_asked
    monkeypatch.setitem(FAMILIES, "cohere2", replace(FAMILIES["cohere2"], pairing="half"))
    run = CliRunner().invoke(app, ["diff", path, f"measured:{path}", "--positions", "0,3"])
    assert run.exit_code == 1
    assert "layers 0 to 2, 4 to 6: pairs are half in ours, interleaved in theirs; cos off by" in run.output
    assert "note on theirs: not asked: lengths, windows wider than" in run.output


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "jamba", "max_position_embeddings": 64}, "jamba: no layer has a positional encoding.\n"),
        (
            {"model_type": "bamba", "max_position_embeddings": 64, "rope_theta": 1e4},
            "bamba: no layer has a positional encoding.\n",
        ),
        (
            {"model_type": "umt5", "num_layers": 3, "num_decoder_layers": 2},
            "\n  3 layers of encoder with t5: 6 heads",
        ),
        (
            {"model_type": "bart", "d_model": 64, "max_position_embeddings": 1024}
            | {"encoder_layers": 2, "decoder_layers": 3},
            "3 layers of decoder with a learned table of 1024 positions",
        ),
        ({"model_type": "t5"}, "softmax scale 1; 8 heads, 32 buckets"),
        (
            {"model_type": "gemma2", "num_hidden_layers": 4, "sliding_window": 8, "max_position_embeddings": 8}
            | {"rope_theta": 1e4, "head_dim": 16},
            "\n  4 layers with RoPE: all 16 channels",
        ),
        ({"model_type": "vit"}, "12 layers with a learned table of 14×14 positions."),
        ({"model_type": "pixtral"}, "pairs use 2 axes, in chunked sections of 16, 16"),
        (
            {"model_type": "glm4_moe", "head_dim": 128, "max_position_embeddings": 16384}
            | {"rope_parameters": {**YARN, "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "Attention factor 1.139: the rotated channels' part of scores is multiplied by 1.296.",
        ),
        (
            {"model_type": "llama", "max_position_embeddings": 16384}
            | {"rope_parameters": {**YARN, "rope_theta": 1e4, "beta_fast": 1000}},
            "beta_fast=1,000 exceeds the turns of every pair, so only pair 0 keeps its frequency",
        ),
        (
            {"model_type": "llama", "head_dim": 8, "max_position_embeddings": 64, "rope_theta": 1e4}
            | {"rope_scaling": {"rope_type": "longrope", "short_factor": [0.5, 1, 2, 3], "long_factor": [1] * 4}}
            | {"original_max_position_embeddings": 64},
            "1 sped up, 1 unchanged, 1 in between, 1 slowed 3 times",
        ),
        *(
            (
                {"model_type": "llama", "num_hidden_layers": 2, "max_position_embeddings": 4096}
                | {"rope_parameters": {**rope, "rope_theta": 1e4, "factor": 1.0}},
                "\n  - beyond 4,096 tokens",
            )
            for rope in (YARN, {"rope_type": "linear"})
        ),
        ({"model_type": "gptj", "n_positions": 64, "torch_dtype": "float16"}, "longer than 64 tokens fails"),
        (
            {"model_type": "fsmt", "max_position_embeddings": 40, "pad_token_id": 1},
            "positions start at pad_token_id + 1 = 2, so pass them to the encoding",
        ),
        (
            {"model_type": "mistral", "head_dim": 16, "sliding_window": 1, "max_position_embeddings": 8}
            | {"rope_theta": 1e4},
            "; a token sees only itself.",
        ),
        *(
            (
                {"model_type": "qwen3", "num_hidden_layers": 36, "max_position_embeddings": longest}
                | {"rope_theta": 1e6, "head_dim": 128},
                said,
            )
            for longest, said in [
                (40960, "trained length in doubt: Qwen3's model card says 32,768;"),
                (262144, "Risks:\n  - beyond 262,144 tokens"),
            ]
        ),
        *(
            (
                {"model_type": "gemma3_text", "sliding_window": 512, "max_position_embeddings": 16384}
                | {"rope_parameters": {"full_attention": full, "sliding_attention": {**YARN, "rope_theta": 1e4}}},
                said,
            )
            for full, said in [
                (
                    YARN | {"rope_theta": 1e6, "factor": 2.0, "original_max_position_embeddings": 8192},
                    "scaling by 2",
                ),
                ({"rope_type": "default", "rope_theta": 1e6}, "full_attention: beyond 16,384 tokens"),
            ]
        ),
    ],
)
def test_the_text_of_small_configs(config: dict[str, object], said: str) -> None:
    assert said in inspect(config).text()
    assert not re.search("(?s)umt5.*shared|factor mismatch|frequency buffers", inspect(config).text())


@pytest.mark.parametrize("model_type", ["bart", "codegen", "gptj", "marian", "mpt", "pegasus", "roformer"])
def test_inputs_that_a_models_table_does_not_reach_fail(model_type: str) -> None:
    model = small(model_type)
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.ones(1, read(model.config).max_length + 1, dtype=torch.int64))
    assert [inspect(model.config).text().count(words) for words in ("tokens fails", "loss")] == [1, 0]


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "cohere2", "sliding_window": 8, "num_hidden_layers": 8},
        {"model_type": "gemma2", "sliding_window": 8, "num_hidden_layers": 8},
        {"model_type": "olmo3", "sliding_window": 64, "num_hidden_layers": 8},
        {"model_type": "llama4_text", "attention_chunk_size": 8, "num_hidden_layers": 8, "head_dim": 16},
        {"model_type": "mistral", "sliding_window": 65},
        {"model_type": "mistral", "sliding_window": None},
    ],
    ids=str,
)
def test_angles_are_new_only_for_layers_that_see_further_than_the_trained_length(config: dict[str, object]) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 64, "rope_theta": 1e4}
    inspection = inspect({**sizes, **config})
    rotating = {name: layer for name, layer in inspection.table.layers.items() if layer.frequencies}
    far = {layer.base for layer in rotating.values() if (layer.window or layer.chunk or 65) > 64}
    assert sum("slowest pairs" in risk for risk in inspection.risks) == len(far)


@pytest.mark.parametrize(("longest", "told"), [(64, 0), (128, 1)])
def test_keys_become_stale_only_if_a_request_may_be_longer_than_the_short_list(longest: int, told: int) -> None:
    lists = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "original_max_position_embeddings": 64}
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 1e4}
    config = {"model_type": "llama", **sizes, "rope_scaling": {"rope_type": "longrope", **lists}}
    risks = inspect({**config, "max_position_embeddings": longest}).risks
    assert sum("become stale" in risk for risk in risks) == told


def test_a_value_has_at_most_one_source() -> None:
    """A default is told once: of the class, which need not be what every release of the family has."""
    for name in SAYS:
        notes = [note.partition(",") for note in inspect(CONFIGS / f"{name}.json").table.notes]
        assert len({value for value, _, _ in notes}) == len(notes)
        assert not any("every released" in source for _, _, source in notes)
