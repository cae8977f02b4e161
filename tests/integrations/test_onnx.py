"""Exported to ONNX, rotation is one operator each for queries and keys, and a runtime gives our numbers."""

from pathlib import Path
from typing import Any

import pytest
import torch

import posenc
from posenc import positions
from posenc.errors import BackendUnavailable, InvalidArgument
from posenc.integrations import onnx as exporting
from posenc.integrations.onnx import OnnxRotary
from posenc.scaling import YaRN

SETTINGS = [
    {"pairing": "half"},
    {"pairing": "interleaved", "base": 5e5},
    {"pairing": "half", "rotary_dim": 8},
    {"pairing": "half", "scaling": YaRN(4.0, 16)},
]


needs_the_operator = pytest.mark.skipif(not exporting.serves(), reason="torch's operator errs here")


@needs_the_operator
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_module_turns_as_rotary_does(settings: dict[str, Any]) -> None:
    rotary = posenc.Rotary(16, **settings)
    q, k = torch.randn(2, 4, 12, 16), torch.randn(2, 2, 12, 16)
    at = torch.stack((positions.arange(12), positions.arange(12, offset=9)))
    turned = OnnxRotary(rotary, 64)(q, k, at)
    for theirs, ours in zip(turned, rotary.at(at).rotate(q, k), strict=True):
        torch.testing.assert_close(theirs, ours, rtol=0, atol=2e-6)


def test_a_torch_whose_operator_errs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "serves", lambda: False)
    with pytest.raises(BackendUnavailable, match=r"does not rotate by its tables; take a newer torch to export"):
        OnnxRotary(posenc.Rotary(16, pairing="half"), 64)


def test_several_axes_have_no_operator() -> None:
    image = posenc.encoding("rotary(axes=axial(4, 4), pairing=half)", head_dim=16)
    with pytest.raises(InvalidArgument, match="rotary has 2 axes; ONNX's RotaryEmbedding has one"):
        OnnxRotary(image, 64)


@needs_the_operator
@pytest.mark.programs
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_exported_it_is_one_operator_and_a_runtime_agrees(settings: dict[str, Any], tmp_path: Path) -> None:
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    rotary = posenc.Rotary(16, **settings)
    q, k, at = torch.randn(2, 4, 12, 16), torch.randn(2, 2, 12, 16), positions.arange(12)[None].expand(2, -1)
    tokens = torch.export.Dim("tokens", min=2, max=64)
    file = tmp_path / "rotary.onnx"
    torch.onnx.export(
        OnnxRotary(rotary, 64),
        (q, k, at.clone()),
        file,
        dynamo=True,
        opset_version=23,
        dynamic_shapes=({2: tokens}, {2: tokens}, {1: tokens}),
    )
    graph = onnx.load(file).graph
    assert [node.op_type for node in graph.node].count("RotaryEmbedding") == 2
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for T in (12, 30):
        q, k, at = torch.randn(2, 4, T, 16), torch.randn(2, 2, T, 16), positions.arange(T)[None].expand(2, -1)
        names = [value.name for value in graph.input]
        answer = session.run(None, {n: v.numpy() for n, v in zip(names, (q, k, at.contiguous()), strict=True)})
        for theirs, ours in zip(answer, rotary.at(at).rotate(q, k), strict=True):
            torch.testing.assert_close(torch.from_numpy(theirs), ours, rtol=0, atol=2e-6)
