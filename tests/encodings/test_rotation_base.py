"""The base of custom rotations: the example of its docstring keeps every law."""

import importlib
import inspect
from pathlib import Path
from textwrap import dedent

import pytest
import torch

import posenc
from posenc.encodings.rotary import rotate
from posenc.errors import InvalidArgument
from posenc.laws.check import LAWS, verdict
from posenc.laws.subject import Subject


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[posenc.Encoding]:
    """The class in the docstring, which is all that is indented before its arguments, from a module of its own."""
    lines = (inspect.getdoc(posenc.Rotation) or "").partition("Args:")[0].splitlines()
    source = dedent("\n".join(line for line in lines if line.startswith("    ") or not line))
    (tmp_path / "their_rotation.py").write_text(f"import posenc\nimport torch\n\n{source}")
    monkeypatch.syspath_prepend(tmp_path)
    rotation: type[posenc.Encoding] = importlib.import_module("their_rotation").LearnedFrequencies
    return rotation


@pytest.mark.slow
def test_the_example_keeps_every_law(example: type[posenc.Encoding]) -> None:
    subject = Subject.of(example)
    verdicts = [verdict(law, subject) for law in LAWS if not law.traces]  # compilers trace no checked annotations
    assert not [str(v) for v in verdicts if v.outcome in ("broken", "error")]


def test_the_example_rotates_trains_and_moves_cached_keys(example: type[posenc.Encoding]) -> None:
    rotation = example(head_dim=8)
    positions = posenc.positions.arange(5)
    q, k = torch.randn(2, 1, 4, 5, 8)
    angles = positions[:, None].double() * rotation.frequencies.double()
    want = rotate(q.double(), angles.cos(), angles.sin(), "half")
    rotated_q, rotated_k = rotation.at(positions).rotate(q, k)
    torch.testing.assert_close(rotated_q.double(), want, rtol=0, atol=1e-6)
    rotated_k.square()[..., 0].sum().backward()
    moved = posenc.rerotate(rotated_k.detach(), positions, rotation, rotation, positions + 7)
    torch.testing.assert_close(moved, rotation.at(positions + 7).rotate(q, k)[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: posenc.LearnedRotary(8, pairing="half", groups=2, heads=4),
        lambda: posenc.FoPE(8, 64, pairing="interleaved"),
        lambda: posenc.LearnedRotary(8, pairing="half"),
    ],
)
def test_every_rotation_writes_into_memory_and_again_but_not_with_old_parameters(make: object) -> None:
    rotation = make()  # type: ignore[operator]
    q, k = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8)
    with torch.no_grad():
        placed = rotation.at(posenc.positions.arange(5))
        want = placed.rotate(q, k)
        given = placed.rotate(q.clone(), k.clone()), placed.rotate(q, k, out=(q.clone(), k.clone()))
        for got in given:
            for mine, theirs in zip(got, want, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)
        for parameter in rotation.parameters():
            parameter.mul_(1.5)
        with pytest.raises(InvalidArgument, match="parameters have changed"):
            placed.rotate(q, k)
