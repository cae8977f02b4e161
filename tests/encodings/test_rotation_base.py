"""The base of custom rotations: the example of its docstring keeps every law."""

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from torch import Tensor

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


def broken_laws(encoding: type[posenc.Encoding]) -> list[str]:
    subject = Subject.of(encoding)
    verdicts = [verdict(law, subject) for law in LAWS if not law.traces]  # compilers trace no checked annotations
    return [str(v) for v in verdicts if v.outcome in ("broken", "error")]


@pytest.mark.slow
def test_the_example_keeps_every_law(example: type[posenc.Encoding]) -> None:
    assert broken_laws(example) == []


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
            torch.testing.assert_close(got, want, rtol=0, atol=1e-6)
        for parameter in rotation.parameters():
            parameter.mul_(1.5)
        with pytest.raises(InvalidArgument, match="parameters have changed"):
            placed.rotate(q, k)


class OfPatches(posenc.Rotation):
    """Rows turn the first pairs, columns the others, at frequencies that learn."""

    name, relative, axes = "of-patches", True, 2

    def __init__(self, head_dim: int, at_once: bool = False) -> None:
        super().__init__(head_dim, pairing="half")
        self.logs, self.at_once = torch.nn.Parameter(torch.empty(head_dim // 4)), at_once
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.logs.copy_(torch.linspace(0, -2, len(self.logs)))

    def tables(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        own = self.logs.double().exp()
        if self.at_once:
            angles = self.angles(positions, torch.block_diag(own[None], own[None])[:, None])
        else:
            angles = torch.cat([self.angles(positions[axis], own) for axis in range(2)], dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("batched", [True, False])
def test_a_rotation_of_two_axes_turns_by_the_angles_of_each(at_once: bool, batched: bool) -> None:
    """With frequencies of all axes in one call, and with those of one axis in each."""
    rotation, at = OfPatches(16, at_once), posenc.positions.grid(2, 3)
    at = torch.stack((at, at + 10**6), 1) if batched else at
    q, k = torch.randn(2, 2, 4, 6, 16, dtype=torch.float64)
    placed = rotation.at(at, dtype=torch.float64)
    own = rotation.logs.double().exp()
    angles = torch.cat([at[axis][..., None].double() * own for axis in range(2)], dim=-1)
    angles = angles[:, None] if batched else angles
    want = tuple(rotate(x, angles.cos(), angles.sin(), "half") for x in (q, k))
    torch.testing.assert_close(placed.rotate(q, k), want, rtol=0, atol=1e-9)
    placed.rotate(q, k)[0].square()[..., 0].sum().backward()
    assert rotation.logs.grad is not None


def test_a_rotation_of_two_axes_keeps_the_laws_and_does_not_take_axes_for_a_batch() -> None:
    assert broken_laws(OfPatches) == []

    class Mistaken(OfPatches):
        def tables(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
            angles = self.angles(positions, self.logs.double().exp())
            return angles.cos().to(dtype), angles.sin().to(dtype)

    with pytest.raises(
        InvalidArgument, match=r"Mistaken.tables\(\) must return cos and sin.*; got .*\(2, 1, 6, 4\)"
    ):
        Mistaken(16).at(posenc.positions.grid(2, 3))


class Returns(posenc.Rotation):
    """Rotates by whatever tables a function makes of the right ones."""

    name, relative = "returns", True

    def __init__(self, change: Callable[[Tensor, Tensor], object], groups: int = 1) -> None:
        super().__init__(8, pairing="half")
        self.change, self.groups = change, groups

    def tables(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> Any:
        angles = positions[..., None] * torch.ones(4, dtype=dtype)
        return self.change(angles.cos(), angles.sin())


WRONG: dict[str, Callable[[Tensor, Tensor], object]] = {
    "five pairs of four": lambda cos, sin: (cos.repeat(1, 2)[:, :5], sin.repeat(1, 2)[:, :5]),
    "a pair per channel": lambda cos, sin: (cos.repeat(1, 2), sin.repeat(1, 2)),
    "one tensor": lambda cos, sin: torch.stack((cos, sin)),
    "cos alone": lambda cos, sin: (cos,),
    "a number": lambda cos, sin: (cos, 1.0),
    "nothing": lambda cos, sin: None,
    "four tokens of five": lambda cos, sin: (cos[:4], sin[:4]),
    "a shorter sin": lambda cos, sin: (cos, sin[:4]),
    "a batch of two": lambda cos, sin: (cos.expand(2, -1, -1), sin.expand(2, -1, -1)),
    "groups that are not declared": lambda cos, sin: (cos.expand(1, 2, -1, -1), sin.expand(1, 2, -1, -1)),
    "five axes": lambda cos, sin: (cos[None, None, None], sin[None, None, None]),
    "one axis": lambda cos, sin: (cos[0], sin[0]),
    "float64": lambda cos, sin: (cos.double(), sin.double()),
    "a rounded sin": lambda cos, sin: (cos, sin.half()),
    "integers": lambda cos, sin: (cos.long(), sin.long()),
    "another device": lambda cos, sin: (cos.to("meta"), sin.to("meta")),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("wrong", WRONG)
def test_tables_of_another_form_are_refused_where_they_are_placed(wrong: str, keys: bool) -> None:
    k, at = torch.randn(1, 4, 5, 8), posenc.positions.arange(5)
    late = Returns(lambda cos, sin: WRONG[wrong](cos, sin) if len(cos) == 5 else (cos, sin)).at(at[:1], at)
    with pytest.raises(InvalidArgument) as refused:
        late.rotate(None, k) if keys else Returns(WRONG[wrong]).at(at)
    assert str(refused.value).startswith(
        "Returns.tables() must return cos and sin, both torch.float32 on cpu, of shape (T, pairs), (B, T, pairs) "
        "or (#B, groups, T, pairs), with T=5 and at most 4 pairs; got "
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("pairs", [0, 3, 4])
def test_tables_of_every_declared_form_rotate(pairs: int, groups: int) -> None:
    """Lists too, fewer pairs than the head has, and none."""
    q, at = torch.randn(2, 4, 5, 8), torch.arange(10).view(2, 5)
    want = rotate(q, *(f(at[:, None, :, None] * torch.ones(pairs)) for f in (torch.cos, torch.sin)), "half")
    expanded = lambda x: x[:, None, :, :pairs].expand(-1, groups, -1, -1)  # noqa: E731
    forms = [lambda cos, sin: [expanded(cos), expanded(sin)]]
    if groups == 1:
        forms.append(lambda cos, sin: (cos[..., :pairs], sin[..., :pairs]))
    for made in forms:
        torch.testing.assert_close(Returns(made, groups).at(at).rotate(q, q), (want, want), rtol=0, atol=0)
