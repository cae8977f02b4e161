"""extend scores what is missing and nothing else, judges by paired differences, and its config patch holds."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch.nn import functional as F

import posenc
from posenc.errors import InvalidArgument, PosencError, StudyError
from posenc.integrations import huggingface
from posenc.integrations.fingerprint import fingerprint
from posenc.integrations.position_table import of
from posenc.integrations.programs import laid_over
from posenc.scaling import NTK, Default, DynamicNTK, Linear, YaRN
from posenc.workbench.extended import written
from posenc.workbench.extension import scoring
from posenc.workbench.extension.measure import Request, measure
from posenc.workbench.extension.methods import NAMES, Method, methods
from posenc.workbench.extension.models import StudyModel, Tick, open_model
from posenc.workbench.report import terminal
from posenc.workbench.report.extension import printed, write
from posenc.workbench.run.checkpoint import load_weights
from posenc.workbench.run.job import in_process
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer
from posenc.workbench.tasks.text import Text
from support.command_line import refusal, said
from support.extensions import made, words

BYTES = bytes(torch.randint(0, 256, (4000,), generator=torch.Generator().manual_seed(0)).tolist())
TEXT = Text("test", "0" * 64, torch.tensor(list(b"abcd" * 500)), torch.tensor(list(b"abcd" * 50)))


class Counting(StudyModel):
    """Counts the documents that it scores, and can fail at one."""

    calls = 0
    fail_at = -1

    def losses(self, tokens: torch.Tensor, encoding: posenc.Encoding, tick: Tick) -> torch.Tensor:
        if self.calls == self.fail_at:
            raise KeyboardInterrupt
        self.calls += 1
        return super().losses(tokens, encoding, tick)


def small() -> Counting:
    model = Transformer(Model(width=32, heads=2), posenc.Rotary(16, pairing="half"), 256).initialise(0).eval()
    return Counting(model, "small", 16, "a small model")


def request(length: int = 64, documents: int = 3, finetune: int = 0, names: tuple[str, ...] = NAMES) -> Request:
    return Request(length, documents, methods(names, Default(), 16, length / 16), finetune)


@torch.no_grad()
def test_curves_are_the_models_losses_at_each_position(tmp_path: Path, ledgers: Callable[[Path], Ledger]) -> None:
    model = small()
    found = measure(model, BYTES, TEXT, request(), ledgers(tmp_path), in_process)
    assert (found.length, found.width, found.inside) == (64, 4, 4)
    tokens = model.encode(BYTES)[64 : 2 * 64 + 1]
    for curve, scaling in ((0, Default()), (1, Linear(4)), (2, NTK(4))):
        model.model.encoding = posenc.Rotary(16, pairing="half", scaling=scaling, phases="float32")
        losses = F.cross_entropy(model.model(tokens[None, :-1])[0], tokens[1:], reduction="none")
        alone = F.cross_entropy(model.model(tokens[None, -17:-1])[0], tokens[-16:], reduction="none")
        assert found.curves[curve].losses[1].tolist() == pytest.approx(
            losses.view(16, 4).mean(1).tolist(), abs=1e-5
        )
        if scaling == Default():
            assert float(found.window[1, -1]) == pytest.approx(float(alone[-4:].mean()), abs=1e-5)
            cut = F.cross_entropy(model.model(tokens[None, -21:-5])[0], tokens[-20:-4], reduction="none")
            assert float(found.window[1, -2]) == pytest.approx(float(cut[-4:].mean()), abs=1e-5)


@torch.no_grad()
def test_mixed_layers_are_stretched_where_they_turn_and_see_far(
    tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    """Every layer that turns gets the scaling with its own base; a near one and what was learnt stay."""
    kinds = {
        "far": posenc.Rotary(16, pairing="half", base=500.0),
        "near": posenc.Rotary(16, pairing="half"),
        "t5": posenc.T5(2),
    }
    encoding = posenc.Layers(kinds, ("far", "near", "t5"), windows={"near": 8})
    model = Transformer(Model(width=32, heads=2, layers=3), encoding, 256).initialise(0).eval()
    mixed = StudyModel(model, "mixed", 16, "a mixed model")
    assert mixed.scaling == Default()
    found = measure(mixed, BYTES, TEXT, request(documents=1, names=("none", "ntk")), ledgers(tmp_path), in_process)
    far = posenc.Rotary(16, pairing="half", base=500.0, scaling=NTK(4), phases="float32")
    model.encoding = posenc.Layers({**kinds, "far": far}, ("far", "near", "t5"), windows={"near": 8})
    tokens = mixed.encode(BYTES)[:65]
    losses = F.cross_entropy(model(tokens[None, :-1])[0], tokens[1:], reduction="none")
    assert found.curves[1].losses[0].tolist() == pytest.approx(losses.view(16, 4).mean(1).tolist(), abs=1e-5)
    stilled = mixed.with_scaling(None, 64)
    assert [stilled.layer(i).acts_on for i in range(3)] == [(), ("queries_keys",), ("bias",)]


def test_stopped_and_resumed_scores_only_what_is_missing(tmp_path: Path, ledgers: Callable[[Path], Ledger]) -> None:
    model, each = small(), len(NAMES) + 4  # with four windows of the trained length
    model.fail_at = 5
    with pytest.raises(KeyboardInterrupt):
        measure(model, BYTES, TEXT, request(), ledgers(tmp_path), in_process)
    model.fail_at = -1
    found, same = (measure(model, BYTES, TEXT, request(), ledgers(tmp_path), in_process) for _ in range(2))
    assert model.calls == 3 * each
    assert all(torch.equal(a.losses, b.losses) for a, b in zip(found.curves, same.curves, strict=True))
    measure(model, BYTES, TEXT, request(documents=4), ledgers(tmp_path), in_process)
    assert model.calls == 4 * each


def test_a_fine_tune_learns_under_each_method_and_is_kept(
    tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    model, data = small(), b"abcd" * 200
    model.learning_rate = 1e-2  # random weights have nothing to lose
    before = {name: p.clone() for name, p in model.model.state_dict().items()}
    asked = request(documents=2, finetune=8, names=("none", "yarn", "drope"))
    found = measure(model, data, TEXT, asked, ledgers(tmp_path), in_process)
    assert [(c.method.name, c.tuned) for c in found.curves] == [
        ("none", False),
        ("yarn", False),
        ("none", True),
        ("yarn", True),
        ("drope", True),
    ]
    assert {(cell.length, cell.count) for run in found.runs for cell in run.cells} == {(64, 64), (64, 16), (16, 16)}
    tokens = model.encode(data)[64 : 2 * 64 + 1]
    for curve in found.curves[2:]:  # a repeated pattern: tuned models know it, whatever their positions
        assert float(curve.losses.mean()) < 0.5 * float(found.curves[0].losses.mean())
        tuned = model.copied("tuned")
        tuned.model.load_state_dict(load_weights(tmp_path, curve.plan))
        for bucket, end in enumerate((52, 56, 60, 64)):  # the targets of the last trained length, each cut to it
            alone = tuned.losses(tokens[end - 16 : end + 1], curve.method.positions(model, 16))[-4:].mean()
            assert float(curve.window[1, bucket]) == pytest.approx(float(alone), abs=1e-6)
        (cut,) = (c for c in found.candidates if c.cut and c.plan is curve.plan)
        assert found.loss(cut) == pytest.approx(float(curve.window.mean()))
    assert all(torch.equal(p, before[name]) for name, p in model.model.state_dict().items())
    calls = model.calls
    measure(model, data, TEXT, asked, ledgers(tmp_path), in_process)
    assert model.calls == calls


def test_a_fine_tune_by_pose_meets_the_length_in_short_windows(
    tmp_path: Path, ledgers: Callable[[Path], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions jump once, from the trained length to all of 64; counted windows are as long as 64 themselves."""
    plain, met = StudyModel.logits, []

    def heard(model: StudyModel, rows: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        if model.model.training:
            met.append((rows.shape[1], positions))
        return plain(model, rows, positions)

    monkeypatch.setattr(StudyModel, "logits", heard)
    asked = replace(request(documents=1, finetune=12, names=("none",)), positions="pose")
    found = measure(small(), BYTES, TEXT, asked, ledgers(tmp_path), in_process)
    assert found.tuning == "12 steps of tuning, positions drawn by PoSE"
    assert [span for span, _ in met] == [16] * 12
    steps = torch.stack([p.diff() for _, p in met])
    assert (steps >= 1).all()
    assert ((steps > 1).sum(1) <= 1).all()
    assert 16 < max(int(p.max()) for _, p in met) < 64
    first = [p for _, p in met]
    del met[:]
    measure(small(), BYTES, TEXT, replace(asked, seed=1), ledgers(tmp_path), in_process)
    assert not torch.equal(torch.stack(first), torch.stack([p for _, p in met]))
    del met[:]
    measure(small(), BYTES, TEXT, asked, ledgers(tmp_path), in_process)
    assert met == []  # seed 0 has its own scores, which the other seed's have not replaced
    measure(small(), BYTES, TEXT, replace(asked, positions="counted"), ledgers(tmp_path), in_process)
    assert met == [(64, None)] * 12


@torch.no_grad()
def test_positions_that_jump_are_one_text_to_a_pretrained_model(llama: Path) -> None:
    """Held to transformers under a mask of its own; given positions alone it takes the jump for another text."""
    import transformers

    model, _, _ = open_model(llama, llama / "text.txt", "cpu", "float32")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(llama, attn_implementation="eager").eval()
    rows, positions = torch.arange(24).view(2, 12) + 5, torch.cat((torch.arange(5), torch.arange(5, 12) + 40))
    hidden = torch.full((12, 12), float("-inf")).triu(1)[None, None].expand(2, 1, -1, -1)
    want = theirs(rows, position_ids=positions.expand(2, -1), attention_mask=hidden).logits
    alone = theirs(rows, position_ids=positions.expand(2, -1), use_cache=False).logits
    assert (model.logits(rows, positions) - want).abs().max() < 1e-5 * want.abs().max()
    assert (alone - want).abs().max() > 1e-2 * want.abs().max()


def test_a_fine_tune_whose_scoring_was_broken_off_is_not_trained_again(
    tmp_path: Path, ledgers: Callable[[Path], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(documents=2, finetune=2, names=("none",))
    want = measure(small(), BYTES, TEXT, asked, ledgers(tmp_path / "whole"), in_process)
    copied = StudyModel.copied

    def breaking(model: StudyModel, identity: str) -> StudyModel:
        other = Counting(copied(model, identity).model, identity, 16, "tuned")
        other.fail_at = 1
        return other

    with monkeypatch.context() as patch, Ledger(tmp_path / "broken", write=True) as ledger:
        patch.setattr(StudyModel, "copied", breaking)
        with pytest.raises(KeyboardInterrupt):
            measure(small(), BYTES, TEXT, asked, ledger, in_process)
    monkeypatch.setattr(scoring, "train", None)
    got = measure(small(), BYTES, TEXT, asked, ledgers(tmp_path / "broken"), in_process)
    assert torch.equal(got.curves[1].losses, want.curves[1].losses)


def test_methods_of_equal_frequencies_are_read_once(tmp_path: Path, ledgers: Callable[[Path], Ledger]) -> None:
    """Dynamic NTK is no scaling as long as a text is short."""
    again = Method("again", "no scaling again", DynamicNTK(4, 64))
    asked = replace(request(documents=2, names=("none", "ntk")), methods=(*request().methods[:2], again))
    model, read, all_of_it = small(), list[float](), list[float]()
    ledger = ledgers(tmp_path)
    found = measure(model, BYTES, TEXT, asked, ledger, in_process, read.append, expect=all_of_it.append)
    assert model.calls == 2 * (2 + 4)
    assert [sum(read)] == all_of_it == [2 * 64 * (2 + 1)]
    assert torch.equal(found.curves[0].losses, found.curves[2].losses)
    fresh = replace(asked, methods=(*asked.methods, replace(again, name="later")))
    measure(model, BYTES, TEXT, fresh, ledger, in_process)
    assert model.calls == 2 * (2 + 4)


def test_numbers_carry_the_device_that_they_were_made_on(
    tmp_path: Path, ledgers: Callable[[Path], Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "hardware", lambda device: f"what {device} is")
    monkeypatch.setattr(scoring, "versions", lambda: '{"torch": "1.0"}')
    measure(small(), BYTES, TEXT, request(documents=1), ledgers(tmp_path), in_process)
    monkeypatch.undo()  # read again elsewhere
    alone = measure(small(), BYTES, TEXT, request(documents=1), ledgers(tmp_path), in_process)
    assert {run.hardware for run in alone.runs} == {"what cpu is"}
    page = write(alone, tmp_path, "", None).read_text()
    assert "Made by torch 1.0 on" in page
    assert "runs differ" not in page
    both = measure(small(), BYTES, TEXT, request(documents=2), ledgers(tmp_path), in_process)
    assert "runs differ in torch 1.0 (" in write(both, tmp_path, "", None).read_text()
    assert any(str(line).startswith("runs differ in torch 1.0 (") for line in printed(both, ()).renderables)


def test_progress_is_told_where_the_output_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "LINE_EVERY", 0.0)
    out = io.StringIO()
    with terminal.bar(Console(file=out), "scoring", 100, "tokens") as bar:
        for _ in range(4):
            bar.advance(25.0)
    lines = out.getvalue().splitlines()
    assert [line.split()[:2] for line in lines] == [["scoring", f"{n}/100"] for n in (25, 50, 75, 100)]
    assert all("tokens/s" in line and " left " in line for line in lines)


def test_methods_by_name() -> None:
    made_ = {m.name: m for m in methods(None, Default(), 4096, 4.0, beta_fast=16)}
    assert tuple(made_) == NAMES
    assert made_["yarn"].scaling == YaRN(4, 4096, beta_fast=16)
    assert made_["dynamic"].scaling == DynamicNTK(4, 4096)
    assert methods(None, Linear(2), 4096, 4.0)[-1].scaling == Linear(2)
    assert [m.name for m in methods(("yarn",), Linear(2), 4096, 4.0)] == ["own", "yarn"]
    assert [m.name for m in methods(("yarn",), Default(), 4096, 4.0)] == ["none", "yarn"]
    assert methods(("none", "drope"), Default(), 4096, 4.0)[1].scaling is None
    found = methods(("linear", "yarn(2)"), Default(), 4096, 6.0)
    assert [(m.name, m.label, m.scaling) for m in found[1:]] == [
        ("linear", "linear (PI)", Linear(6)),
        ("yarn(2)", "YaRN × 2", YaRN(2, 4096)),
    ]
    assert methods(("self-extend(2)",), Default(), 64, 8.0)[1].remap == "self-extend(rotary, group=3, window=16)"


NO_FACTORS = (
    *("own(2)", "none(2)", "dca(2)", "rerope(2)", "drope(2)"),
    *("yarn()", "yarn(2", "yarn(x)", "yarn(*)", "yarn(0.5)", "self-extend(0)", "string(0)"),
)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("yarm",), "unknown method 'yarm'; did you mean 'yarn'"),
        (("yarm(2)",), "unknown method 'yarm'; did you mean 'yarn'"),
        (("yarn(2)", "yarn(2)"), "without duplicates"),
        *(((name,), "must be a name with an optional factor of at least 1, such as yarn") for name in NO_FACTORS),
    ],
)
def test_names_that_are_none_are_refused(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        methods(names, Default(), 4096, 6.0)


@pytest.mark.parametrize(
    ("data", "asked", "message"),
    [
        (BYTES[:50], request(), "text 'test' has 50 bytes, but one document needs 65"),
        (
            BYTES,
            request(length=16),
            "length 16 is not far enough past the trained length 16 of a small model; use --to 20",
        ),
        (BYTES, request(names=("none", "drope")), "method 'drope' requires a fine-tune; add --finetune"),
        (
            BYTES,
            replace(request(), positions="pose"),
            "positions='pose' requires a fine-tune; add --finetune STEPS",
        ),
    ],
    ids=["short text", "short length", "method", "positions"],
)
def test_what_cannot_be_measured_is_refused(
    data: bytes, asked: Request, message: str, tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    with pytest.raises(PosencError, match=message):
        measure(small(), data, TEXT, asked, ledgers(tmp_path), in_process)


@torch.no_grad()
def test_the_config_patch_gives_the_measured_loss(
    llama: Path, tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    """The patch in config.json, read by transformers alone, gives the losses that extend measured."""
    import transformers

    model, data, text = open_model(llama, llama / "text.txt", "cpu", "float32")
    assert (model.original_length, model.unit) == (64, "token")
    chosen = methods(None, model.scaling, 64, 4.0)
    read = list[float]()
    found = measure(model, data, text, Request(256, 2, chosen), ledgers(tmp_path), in_process, read.append)
    assert sum(read) == pytest.approx(2 * 256 * (len(chosen) + 1))
    tokens = model.encode(data)[:257]
    for curve in found.curves:
        config = {**json.loads((llama / "config.json").read_text()), **model.patch(curve.method.scaling, 256)}
        alone = transformers.LlamaForCausalLM.from_pretrained(llama, config=transformers.LlamaConfig(**config))
        losses = F.cross_entropy(alone(tokens[None, :-1]).logits[0], tokens[1:], reduction="none")
        assert curve.losses[0].tolist() == pytest.approx(losses.view(-1, 16).mean(1).tolist(), rel=1e-4)


def test_a_pretrained_model_is_tuned_on_text_that_is_not_scored(
    llama: Path, tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    model, _, text = open_model(llama, llama / "text.txt", "cpu", "float32")
    model.learning_rate = 1e-2  # random weights have nothing to lose
    before = {name: p.clone() for name, p in model.model.state_dict().items()}
    asked = Request(128, 1, methods(("yarn",), model.scaling, 64, 2.0), finetune=15)
    found = measure(model, b"abcd" * 200, text, asked, ledgers(tmp_path), in_process)
    assert float(found.curves[3].losses.mean()) < 0.5 * float(found.curves[1].losses.mean())
    assert all(torch.equal(p, before[name]) for name, p in model.model.state_dict().items())
    with pytest.raises(StudyError, match="leaves 15 tokens for the fine-tune, but a window needs 128"):
        measure(model, b"abcd" * 36, text, asked, ledgers(tmp_path / "other"), in_process)


def test_the_command_answers_and_leaves_a_page(llama: Path, tmp_path: Path) -> None:
    asked = words(llama, llama / "text.txt", "4x", "--output", tmp_path / "out")
    said(*asked, "--documents", "2", "--methods", "linear,yarn(2)")
    read = json.loads((tmp_path / "out" / "extension.json").read_text())
    assert {c["name"] for c in read["candidates"]} == {"none", "cut", "linear", "yarn(2)"}
    assert read["model"] == llama.name
    assert read["identity"]
    page = (tmp_path / "out" / "report.html").read_text()
    for words_of_page in (
        "data:image/svg+xml",
        "YaRN × 2</th>",
        "tokens, one after another, from the start of the whole text of text.txt;",
    ):
        assert words_of_page in page
    assert "http" not in page.replace("http://www.w3.org", "").split("<img")[0]
    assert (tmp_path / "out" / "config-patch.json").exists() == (read["change"] == "config")
    for wrong, message in (
        (["--to", "far"], "to='far' must be a number"),
        (["--to", "infx"], "to='infx'"),
        (["--dtype", "int8"], "dtype 'int8'"),
        (["--positions", "drawn"], "positions 'drawn'"),
        (["--positions", "pose"], "add --finetune STEPS"),
        (["--longppl", "/nowhere"], "no model at '/nowhere'; pass self, a Hugging Face folder"),
    ):
        assert message in refusal(*asked, *wrong)


@pytest.mark.parametrize(("name", "cut"), [("yarn", 4.0), ("cut", 1.0)])
def test_what_is_written_is_what_was_decided(llama: Path, tmp_path: Path, name: str, cut: float) -> None:
    """Screen, page, JSON and patch of losses as they might have been measured."""
    model, _, _ = open_model(llama, llama / "text.txt", "cpu", "float32")
    found = made(none=[2, 2, 6, 6, 6, 6], yarn=[2, 2, 2, 2, 2, 2], window=[cut])
    out = repr(written(model, found, tmp_path, "posenc extend"))
    title = {"yarn": "Use YaRN to read 48 tokens", "cut": "Do not extend: cut to the last 16 tokens"}[name]
    assert title in out
    assert f"<h1>{title}</h1>" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "extension.json").read_text())["use"] == name
    patch = tmp_path / "config-patch.json"
    assert patch.exists() == (name == "yarn") == ("config.json" in (tmp_path / "report.html").read_text())
    if name == "yarn":
        assert json.loads(patch.read_text()) == model.patch(found.curves[1].method.scaling, 48)
        config = laid_over(json.loads((llama / "config.json").read_text()), json.loads(patch.read_text()))
        assert f"its fingerprint, for CI: {fingerprint(of(huggingface.read(config)))}\n" in out
        written(model, replace(found, window=found.window - cut + 1), tmp_path, "posenc extend")
        assert not patch.exists()  # another decision in the same folder leaves no patch of the first


def test_tuned_weights_are_written_with_the_config_that_they_are_read_by(
    llama: Path, tmp_path: Path, ledgers: Callable[[Path], Ledger]
) -> None:
    """The best fine-tune, whole or cut. No config has a remapping; of its fine-tune none is written."""
    import transformers

    model, data, text = open_model(llama, llama / "text.txt", "cpu", "float32")
    asked = Request(128, 1, methods(("none", "yarn", "dca"), model.scaling, 64, 2.0), finetune=1)
    found = measure(model, data, text, asked, ledgers(tmp_path), in_process)
    flat = torch.ones_like(found.curves[0].losses)
    for best, whole, cut, label in (
        ("none", 1, 0, "no scaling, tuned and cut"),
        ("yarn", 1, 0, "YaRN, tuned and cut"),
        ("yarn", 0, 1, "YaRN, tuned"),
        ("dca", 0, 1, "no scaling, tuned"),
    ):
        curves = [
            replace(c, losses=flat * whole, window=flat[:, :4] * cut)
            if c.tuned and c.method.name == best
            else replace(
                c, losses=flat * (3 if c.method.name == "yarn" else 2), window=flat[:, :4] * 4 if c.tuned else None
            )
            for c in found.curves
        ]
        extended = written(model, replace(found, curves=tuple(curves)), tmp_path, "posenc extend")
        assert f"tuned   {tmp_path}/tuned/, {label}\n" in repr(extended)
        config = transformers.AutoConfig.from_pretrained(tmp_path / "tuned")
        assert config.rope_parameters["rope_type"] == ("yarn" if best == "yarn" else "default")
        assert config.max_position_embeddings == (64 if "cut" in label else 128)


def test_bad_models_are_one_line(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    from posenc.integrations.huggingface import load

    with pytest.raises(StudyError, match="does not exist; pass a model's folder"):
        open_model(tmp_path / "none.gguf", None, "cpu", "float32")
    broken = tmp_path / "broken"
    shutil.copytree(llama, broken)
    weights = broken / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StudyError, match=r"cannot be loaded: .*; download the model again"):
        open_model(broken, None, "cpu", "float32")
    from safetensors.torch import load_file, save_file

    state: dict[str, Any] = load_file(llama / "model.safetensors")
    state.pop("model.layers.1.self_attn.q_proj.weight")
    save_file(state, weights, metadata={"format": "pt"})
    with pytest.raises(StudyError, match=r"lacks 1 weights, including model.layers.1.self_attn.q_proj.weight"):
        open_model(broken, None, "cpu", "float32")
    (broken / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "n_positions": 8, "n_embd": 8, "n_layer": 1})
    )
    with pytest.raises(InvalidArgument, match="'gpt2' has no rotary layers"):
        open_model(broken, None, "cpu", "float32")
    model, _, _ = open_model(llama, None, "cpu", "float32")
    monkeypatch.setattr(load, "free_memory", lambda device: 2**24)
    with pytest.raises(StudyError, match=r"length=1000000 needs .* GiB are free; use a length of at most 2048"):
        model.check_memory(1_000_000)
