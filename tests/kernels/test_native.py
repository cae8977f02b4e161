"""The native kernel is built once a machine, found again, refused in words where it cannot be, and one operator."""

import os
import platform
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from posenc import Rotary, positions
from posenc.errors import ImplUnavailable
from posenc.kernels import native
from posenc.kernels.choose import choose
from posenc.kernels.rotary import by_native, streaming

BUILD = "from posenc.kernels import native; print(native.build(native.ROTATION))"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine where nothing was built: an empty cache, and an empty folder for temporary files."""
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    native.find.cache_clear()
    yield tmp_path
    native.find.cache_clear()


def qk() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(1, 4, 6, 16), torch.randn(1, 2, 6, 16)


@pytest.mark.usefixtures("native_built")
class TestBuilt:
    def test_auto_takes_it(self) -> None:
        assert choose("auto", "cpu").impl == "native"
        assert Rotary(16, pairing="half").impl_reason == "native: one pass over memory, built on this machine"

    @pytest.mark.parametrize("pairing", ["half", "interleaved"])
    def test_a_step_made_again_is_the_same_and_sees_what_changed(self, pairing: str) -> None:
        placed = Rotary(16, pairing=pairing).at(positions.plain(6))
        want = Rotary(16, pairing=pairing, impl="torch").at(positions.plain(6))
        for dtype in (torch.float32, torch.float32, torch.bfloat16):
            for layout in (lambda x: x, lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)):
                q, k = (layout(x.to(dtype)) for x in qk())
                for _ in range(2):
                    for got, wanted in zip(placed.rotate(q, k), want.rotate(q, k), strict=True):
                        assert torch.equal(got, wanted)
                q.requires_grad_()
                assert placed.rotate(q, k)[0].requires_grad
                with torch.no_grad():
                    assert not placed.rotate(q, k)[0].requires_grad

    def test_tracers_and_transforms_see_it_after_a_step(self) -> None:
        placed, (q, k) = Rotary(16, pairing="half").at(positions.plain(6)), qk()
        want = placed.rotate(q, k)
        traced = make_fx(lambda q, k: placed.rotate(q, k))(q, k)
        assert torch.equal(traced(2 * q, k)[0], 2 * want[0])
        assert any("posenc.turn" in str(node.target) for node in traced.graph.nodes)
        mapped = torch.vmap(placed.rotate)(torch.stack((q, 2 * q)), torch.stack((k, k)))
        assert torch.equal(mapped[0][1], 2 * want[0])
        _, tangent = torch.func.jvp(lambda q: placed.rotate(q, k)[0], (q,), (3 * q,))
        torch.testing.assert_close(tangent, 3 * want[0])

    @pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's own checker
    def test_the_operator_keeps_every_rule_of_operators(self) -> None:
        x = torch.randn(1, 2, 6, 16, dtype=torch.float64, requires_grad=True)
        cos, sin = Rotary(16, pairing="half").tables(positions.plain(6), torch.float64)
        torch.library.opcheck(torch.ops.posenc.turn.default, (x, cos, sin, "half"))


class TestBuilding:
    def test_nothing_is_built_unasked(self, empty: Path) -> None:
        assert choose("auto", "cpu").impl == "eager"
        assert "type: posenc tune" in choose("auto", "cpu").reason
        assert not (empty / "cache").exists()

    def test_processes_that_ask_together_build_once(self, empty: Path, built: Path) -> None:
        def ask(_: int) -> str:
            return subprocess.run([sys.executable, "-c", BUILD], capture_output=True, text=True, check=True).stdout

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(ask, range(2))
        assert first == second
        assert len(list((empty / "cache").glob("native-*.so"))) == 1

    def test_a_home_that_cannot_be_written_is_no_obstacle(self, empty: Path, built: Path, monkeypatch) -> None:
        (empty / "cache").touch()  # a file where the folder should be fails for every user, root too
        library = native.build(native.ROTATION)
        assert library.parent == empty / f"posenc-{os.getuid()}"
        assert native.find(native.ROTATION) == library

    def test_a_library_that_others_may_write_is_not_loaded(self, empty: Path, built: Path) -> None:
        library = native.build(native.ROTATION)
        library.chmod(0o777)
        native.find.cache_clear()
        assert native.find(native.ROTATION) is None

    def test_without_a_compiler(self, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(native, "compiler", lambda: None)
        with pytest.raises(ImplUnavailable, match=r"needs a C\+\+ compiler, and none of \$CXX, c\+\+, g\+\+"):
            Rotary(16, pairing="half", impl="native")
        assert Rotary(16, pairing="half").impl_reason.startswith("eager")

    def test_a_compiler_that_fails_is_quoted(self, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(native, "compiler", lambda: "sh -c 'echo error: no such thing >&2; exit 1'")
        with pytest.raises(ImplUnavailable, match=r"cannot build native.cpp: error: no such thing; use"):
            native.build(native.ROTATION)
        assert not list((empty / "cache").glob("native-*.so"))

    def test_nowhere_to_write(self, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(native, "compiler", lambda: "c++")
        (empty / "cache").touch()
        (empty / f"posenc-{os.getuid()}").touch()
        with pytest.raises(ImplUnavailable, match=r"can be kept nowhere .* set POSENC_CACHE to a folder of yours"):
            native.build(native.ROTATION)


def test_no_processor_s_own_conversion_to_bfloat16_is_used(tmp_path: Path) -> None:
    """They take subnormals for zero; compiled for a processor that has them, which is not the one of most tests."""
    by, listing = native.compiler(), tmp_path / "listing.s"
    if by is None or platform.machine() != "x86_64":
        pytest.skip("no C++ compiler for x86-64 is installed")
    command = [
        *shlex.split(by),
        *native.FLAGS,
        "-O1",
        "-march=sapphirerapids",
        "-S",
        native.ROTATION,
        "-o",
        listing,
    ]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("the C++ compiler knows no processor with AVX512_BF16")
    text = listing.read_text()
    assert "zmm" in text
    assert not re.findall(r"\bv\w*bf16\w*", text)


def test_streaming_is_taken_where_it_was_measured_faster(tmp_path: Path) -> None:
    library = tmp_path / "native-x.so"
    assert not streaming.streams(library, "half", torch.float32)
    streaming.keep(library, [("half", torch.float32)])
    assert streaming.streams(library, "half", torch.float32)
    assert not streaming.streams(library, "half", torch.bfloat16)
    assert streaming.is_measured(library)


def test_every_way_is_measured_with_and_without_streaming() -> None:
    seen = set()
    streaming.measure(lambda x, y, table, pairing, stream: seen.add((x.dtype, pairing, stream)), 1, rounds=1)
    assert len(seen) == 3 * 2 * 2
    assert by_native.LINE == 64
