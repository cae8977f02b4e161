"""posenc.check on somebody's own encoding: a good one, broken ones, and what it prints."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

import posenc
from posenc.errors import InvalidArgument
from posenc.laws import LAWS, Subject
from posenc.laws.check import Report, Verdict, verdict
from posenc.laws.computes import sees_only_the_offset
from posenc.laws.independence import low_precision_rounds_once
from posenc.laws.law import Broken, near
from posenc.laws.survival import survives_casts

pytestmark = pytest.mark.usefixtures("small_blocks")

GOOD = '''
"""KERPLE, the logarithmic kind (Chi et al. 2022): -r1 ln(1 + r2 |distance|), both learned per head."""

from typing import ClassVar, final

import torch
from torch import Tensor, nn

from posenc import Encoding, OffsetBias, Placed
from posenc.encodings.placed import KeyPositions, Positions


@final
class Kerple(Encoding):
    """Adds -r1 ln(1 + r2 |distance|) to the scores."""

    name: ClassVar[str] = "kerple"
    acts_on = ("bias",)
    relative = True

    def __init__(self, heads: int, *, start: float = 1.0) -> None:
        super().__init__()
        self.heads, self.start = heads, start
        self.r1, self.r2 = nn.Parameter(torch.empty(heads)), nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.r1, self.start)
        nn.init.constant_(self.r2, self.start)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        r1, r2 = (r.to(torch.promote_types(dtype, torch.float32)) for r in (self.r1, self.r2))
        return Placed(q_positions, k_positions, bias=Penalty(self.heads, q_positions, k_positions, r1=r1, r2=r2))


class Penalty(OffsetBias):
    r1: Tensor
    r2: Tensor

    def values(self, offsets: Tensor) -> Tensor:
        shape = (-1, *[1] * offsets.dim())
        return -self.r1.view(shape) * torch.log1p(self.r2.view(shape) * offsets.abs())
'''


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Somebody's module on the path."""
    (tmp_path / "their_module.py").write_text(GOOD)
    monkeypatch.syspath_prepend(tmp_path)
    return "their_module:Kerple"


def checked(subject: Subject) -> Report:
    """A report of the laws that hold with annotations checked; compiling.py runs the others."""
    return Report(subject.name, tuple(verdict(law, subject) for law in LAWS if not law.traces))


@pytest.mark.slow
def test_a_good_encoding_of_forty_lines_keeps_every_law(theirs: str) -> None:
    report = checked(Subject.of(f"{theirs}(start=0.5)", heads=4))
    assert report.ok, str(report)
    first, *lines = str(report).splitlines()
    assert first.startswith("their_module:Kerple(start=0.5): ")
    assert " 0 broken, 0 ended in an error, " in first
    assert "kept    whole_is_pieces" in lines
    assert "  –     rotation_keeps_norms: the encoding does not rotate" in lines


@pytest.mark.usefixtures("unchecked")
def test_a_class_and_an_instance_are_checked_alike() -> None:
    subject = Subject.of(posenc.ALiBi(6))
    assert checked(subject).ok
    assert (subject.heads, Subject.of(posenc.ALiBi).heads) == (6, 4)
    assert Subject.of("layers(rotary*5 + nope)").layers == 6


def test_a_broken_encoding_is_told_what_it_breaks() -> None:
    class Late(posenc.Encoding):
        """Every token takes the position before its own, and only from the second of a piece on."""

        name = "late"
        acts_on = ("embeddings",)
        relative = False

        def place(self, q_positions, k_positions, dtype):
            rows = torch.arange(q_positions.shape[-1])[:, None].to(dtype)
            placed = posenc.Placed(q_positions, k_positions)
            placed.embed = lambda x: (x + rows).to(x.dtype)
            return placed

    report = checked(Subject.of(Late))
    assert not report.ok
    told = {v.law: v for v in report.broken}
    assert told["whole_is_pieces"].outcome == "broken"
    assert "read in pieces of 1 at (" in told["whole_is_pieces"].detail
    assert "BROKEN  whole_is_pieces\n          A sequence gives the same outputs in one pass" in str(report)


def test_an_error_inside_a_law_is_no_broken_law() -> None:
    class Raises(posenc.Encoding):
        """Its author forgot something."""

        name = "raises"
        acts_on = ()
        relative = True

        def place(self, q_positions, k_positions, dtype):
            raise KeyError("slopes")

    report = checked(Subject.of(Raises))
    assert "error" in {v.outcome for v in report.verdicts}
    assert not report.ok
    assert "KeyError: 'slopes'" in str(report)


def test_an_error_that_says_what_to_do_hides_the_remedy_of_the_law() -> None:
    """A rotation that ignores the dtype of its inputs: every law that meets this error names the one cause."""

    class Narrow(posenc.Encoding):
        name = "narrow"
        acts_on = ("queries_keys",)
        relative = True

        def place(self, q_positions, k_positions, dtype):
            placed = posenc.Placed(q_positions, k_positions)
            placed.rotate = lambda q, k: tuple(None if x is None else x.float() for x in (q, k))
            return placed

    verdicts = [verdict(law, Subject.of(Narrow)) for law in LAWS if law.holds.__module__ == "posenc.laws.feeding"]
    assert {(v.outcome, v.detail.partition("cast ")[2], v.remedy) for v in verdicts} == {
        ("error", "the results of your own rotation, or keys and values from a cache, with .to(…)", "")
    }


def test_every_law_says_how_others_keep_it() -> None:
    assert [law.name for law in LAWS if not law.remedy.endswith(".")] == []


def test_compilers_run_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = [law for law in LAWS if law.traces]
    monkeypatch.setattr(torch, "compile", None)
    monkeypatch.setattr(torch.export, "export", None)
    report = posenc.check("nope")
    verdicts = {v.law: v for v in report.verdicts}
    assert {verdicts[law.name].detail for law in traced} == {"the test takes seconds; pass compiled=True"}
    assert report.ok


ANGLES = """
import torch, posenc

class Angles(posenc.Rotation):
    name, relative, position_limit = "float64-angles", True, {limit}

    def __init__(self, head_dim):
        super().__init__(head_dim, pairing="half")

    def tables(self, positions, dtype=torch.float32):
        theta = torch.tensor([1e4 ** (-i / 4) for i in range(4)], dtype=torch.float64, device=positions.device)
        angles = positions.double()[..., None] * theta
        return angles.cos().to(dtype), angles.sin().to(dtype)
"""


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("limit", "outcome"), [(10**6, "kept"), (2**31, "broken")])
def test_float64_angles_serve_as_many_positions_as_they_say(
    limit: int, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are off by 2e-11 a million positions on, and by 1e-7 at the end of what the library promises."""
    (tmp_path / f"angles_{limit}.py").write_text(ANGLES.format(limit=limit))
    monkeypatch.syspath_prepend(tmp_path)
    assert verdict(sees_only_the_offset, Subject.of(f"angles_{limit}:Angles")).outcome == outcome


@pytest.mark.parametrize(
    ("encoding", "sizes", "message"),
    [
        (3, {}, r"encoding=3 must be a posenc\.Encoding, its class"),
        ("nope", {"heads": 4, "kv_heads": 3}, "kv_heads=3 must divide heads=4"),
    ],
)
def test_what_is_no_encoding_is_refused(encoding: object, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        posenc.check(encoding, **sizes)  # type: ignore[arg-type]


def test_a_verdict_says_it_in_words() -> None:
    broken = Verdict("a", "Says.", "broken", "off by 1", "Do so.")
    assert str(broken) == "BROKEN  a\n          Says.\n          off by 1\n          remedy: Do so."
    assert str(Verdict("a", "Says.", "kept")) == "kept    a"
    assert str(Verdict("a", "Says.", "not owed", "why")) == "  –     a: why"
    assert str(Verdict("a", "Says.", "error", "KeyError: 1")) == "ERROR   a\n          Says.\n          KeyError: 1"


def test_a_counterexample_says_where_and_how_far() -> None:
    with pytest.raises(Broken, match=r"row at \(1, 0\): got 2.5, expected 2; the error 0.5 must be at most 0.25"):
        near(torch.tensor([[1.0], [2.5]]), torch.tensor([[1.0], [2.0]]), 0.25, "row")
    with pytest.raises(Broken, match="got nan"):
        near(torch.tensor([float("nan")]), torch.tensor([0.0]))
    near(torch.tensor([float("-inf")]), torch.tensor([float("-inf")]), 0.0)


class LogFrequencies(posenc.Rotation):
    """Learned logarithms of frequencies; ``wide`` computes from them in float64, as the remedy says."""

    name, relative = "log-frequencies", True

    def __init__(self, head_dim: int, wide: bool = False) -> None:
        super().__init__(head_dim, pairing="half")
        self.wide, self.a = wide, torch.nn.Parameter(torch.empty(head_dim // 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.uniform_(self.a, -6.0, 0.0)

    def tables(self, positions: torch.Tensor, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
        angles = self.angles(positions, (self.a.double() if self.wide else self.a).exp())
        return angles.cos().to(dtype), angles.sin().to(dtype)


class LogSlopes(posenc.Encoding):
    """Learned logarithms of slopes; ``wide`` computes from them in the dtype given to ``place``."""

    name, acts_on, relative = "log-slopes", ("bias",), True

    def __init__(self, wide: bool = False) -> None:
        super().__init__()
        self.heads, self.wide, self.a = 4, wide, torch.nn.Parameter(torch.empty(4))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.zeros_(self.a)  # whose exp is exact in any dtype

    def place(self, q_positions: torch.Tensor, k_positions: torch.Tensor, dtype: torch.dtype) -> posenc.Placed:
        a = self.a.to(dtype) if self.wide else self.a
        bias = Slopes(self.heads, q_positions, k_positions, slopes=a.exp())
        return posenc.Placed(q_positions, k_positions, bias=bias)


class Slopes(posenc.OffsetBias):
    slopes: torch.Tensor

    def values(self, offsets: torch.Tensor) -> torch.Tensor:
        slopes = self.slopes.to(torch.promote_types(self.slopes.dtype, torch.float32))
        return -slopes.view(-1, *[1] * offsets.dim()) * offsets.abs()


@pytest.mark.parametrize(
    ("made", "remedy"),
    [
        (
            partial(LogFrequencies, 8),
            "for a rotation, to float64, as in ``self.a.double",
        ),
        (LogSlopes, "for a bias, to the dtype given to ``place``, as in ``self.a.to(dtype).exp()``"),
    ],
    ids=["rotation", "bias"],
)
def test_the_remedy_for_trained_parameters_mends(made: Callable[..., posenc.Encoding], remedy: str) -> None:
    """exp in 16 bits breaks two laws, whatever the parameters start at; with the remedy both hold."""
    for rule in (low_precision_rounds_once, survives_casts):
        broken = verdict(rule, Subject("exp in 16 bits", made))
        assert broken.outcome == "broken", broken
        assert remedy in rule.remedy
        kept = verdict(rule, Subject("after the remedy", partial(made, wide=True)))
        assert kept.outcome == "kept", kept


def test_a_power_may_be_rounded_in_its_exponent() -> None:
    """A rounding of g changes n^g by ln(n^g) roundings: 16 for KERPLE's steepest kernels, 3,000 tokens away."""
    steep = posenc.Kerple(1, kernel="power")
    steep.set(torch.ones(1), torch.tensor([1.9284999]))
    assert verdict(low_precision_rounds_once, Subject.of(steep)).outcome == "kept"


@pytest.mark.parametrize("seed", range(3))
def test_biases_of_a_stack_round_once_more_as_they_are_added(seed: int) -> None:
    torch.manual_seed(seed)
    stack = posenc.Stack(posenc.ALiBi(4, max_exponent=2.5), posenc.T5(4, max_distance=32, std=1.0))
    assert verdict(low_precision_rounds_once, Subject.of(stack)).outcome == "kept"
