"""The native kernel is built once a machine, found again, refused in words where it cannot be, and one operator."""

import os
import platform
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from posenc import Rotary, positions
from posenc.errors import BackendUnavailable
from posenc.kernels import native
from posenc.kernels.backend import select
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
        assert select("auto", "cpu").backend == "native"
        assert Rotary(16, pairing="half").explain() == "native: one pass over memory, built on this machine"

    @pytest.mark.parametrize("pairing", ["half", "interleaved"])
    def test_a_step_made_again_is_the_same_and_sees_what_changed(self, pairing: str) -> None:
        placed = Rotary(16, pairing=pairing).at(positions.arange(6))
        want = Rotary(16, pairing=pairing, backend="torch").at(positions.arange(6))
        for dtype in (torch.float32, torch.float32, torch.bfloat16):
            for layout in (
                lambda x: x,
                torch._neg_view,  # of the kind of the step before, and its sign is in no byte
                lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
            ):
                q, k = (layout(x.to(dtype)) for x in qk())
                for _ in range(2):
                    for got, wanted in zip(placed.rotate(q, k), want.rotate(q, k), strict=True):
                        assert torch.equal(got, wanted)
                q.requires_grad_()
                assert placed.rotate(q, k)[0].requires_grad
                with torch.no_grad():
                    assert not placed.rotate(q, k)[0].requires_grad

    def test_tracers_and_transforms_see_it_after_a_step(self) -> None:
        placed, (q, k) = Rotary(16, pairing="half").at(positions.arange(6)), qk()
        want = placed.rotate(q, k)
        traced = make_fx(lambda q, k: placed.rotate(q, k))(q, k)
        assert torch.equal(traced(2 * q, k)[0], 2 * want[0])
        assert any("posenc.rotate" in str(node.target) for node in traced.graph.nodes)
        mapped = torch.vmap(placed.rotate)(torch.stack((q, 2 * q)), torch.stack((k, k)))
        assert torch.equal(mapped[0][1], 2 * want[0])
        _, tangent = torch.func.jvp(lambda q: placed.rotate(q, k)[0], (q,), (3 * q,))
        torch.testing.assert_close(tangent, 3 * want[0])

    @pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's own checker
    def test_the_operator_keeps_every_rule_of_operators(self) -> None:
        x = torch.randn(1, 2, 6, 16, dtype=torch.float64, requires_grad=True)
        cos, sin = Rotary(16, pairing="half").tables(positions.arange(6), torch.float64)
        torch.library.opcheck(torch.ops.posenc.rotate.default, (x, cos, sin, "half"))


class TestBuilding:
    def test_nothing_is_built_unasked(self, empty: Path) -> None:
        assert select("auto", "cpu").backend == "eager"
        assert "type: posenc tune" in select("auto", "cpu").reason
        assert not (empty / "cache").exists()

    def test_processes_that_ask_together_build_once(self, empty: Path, built: Path) -> None:
        def ask(_: int) -> str:
            return subprocess.run([sys.executable, "-c", BUILD], capture_output=True, text=True, check=True).stdout

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(ask, range(2))
        assert first == second
        assert len(list((empty / "cache").glob("native-*.so"))) == 1

    def test_a_library_that_others_may_write_is_not_loaded(self, empty: Path, built: Path) -> None:
        library = native.build(native.ROTATION)
        library.chmod(0o777)
        native.find.cache_clear()
        assert native.find(native.ROTATION) is None

    def test_without_a_compiler(self, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(native, "compiler", lambda: None)
        with pytest.raises(BackendUnavailable, match=r"needs a C\+\+ compiler, and none of \$CXX, c\+\+, g\+\+"):
            Rotary(16, pairing="half", backend="native")
        assert Rotary(16, pairing="half").explain().startswith("eager")

    def test_a_compiler_that_fails_is_quoted(self, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(native, "compiler", lambda: "sh -c 'echo error: no such thing >&2; exit 1'")
        with pytest.raises(BackendUnavailable, match=r"cannot build native.cpp: error: no such thing; use"):
            native.build(native.ROTATION)
        assert not list((empty / "cache").glob("native-*.so"))

    def test_nowhere_to_write(self, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(native, "compiler", lambda: "c++")
        (empty / "cache").touch()  # a file where the folder should be fails for every user, root too
        with pytest.raises(
            BackendUnavailable,
            match=r"cannot be kept in .*/cache \(File exists\); set POSENC_CACHE to a folder of yours",
        ):
            native.build(native.ROTATION)


ME = os.getuid()
STRANGER = ME + 1
OPEN = {
    "somebody else's": (0o755, STRANGER, ME),
    "a group's": (0o775, ME, STRANGER),
    "everybody's": (0o757, ME, ME),
}
"""Mode, owner and group of what others may change."""


def pose(monkeypatch: pytest.MonkeyPatch, at: Path, mode: int, owner: int, group: int) -> None:
    """Let this file or folder look as if it had this mode, owner and group: to give things away takes root."""

    def status(self: Path, **_: bool) -> os.stat_result:
        real = os.stat(self)
        return os.stat_result(
            (stat.S_IFMT(real.st_mode) | mode, *real[1:4], owner, group, *real[6:]) if self == at else real
        )

    monkeypatch.setattr(Path, "stat", status)
    native.find.cache_clear()


class TestWhoMayChangeIt:
    """A library runs as whoever loads it: none comes from where somebody else may put another."""

    @pytest.fixture
    def put(self, built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
        """Puts the library into a folder, which is the cache from then on."""
        monkeypatch.setenv("POSENC_CACHE", str(built))
        native.find.cache_clear()
        library = native.build(native.ROTATION)

        def put(folder: Path) -> None:
            shutil.copy(library, folder)
            monkeypatch.setenv("POSENC_CACHE", str(folder))
            native.find.cache_clear()

        yield put
        native.find.cache_clear()

    @pytest.fixture
    def trodden(self) -> Iterator[Path]:
        """A folder of ours that everybody comes by."""
        with tempfile.TemporaryDirectory(dir="/tmp") as name:
            folder = Path(name).resolve()
            folder.chmod(0o755)
            if not folder.parent.stat().st_mode & stat.S_ISVTX:
                pytest.skip("the folder for temporary files is not everybody's")
            yield folder

    @pytest.fixture
    def cache(self, put: Callable[[Path], None], trodden: Path) -> Path:
        folder = trodden / "a" / "b" / "c"
        folder.mkdir(parents=True, mode=0o755)
        put(folder)
        assert native.find(native.ROTATION) is not None
        native.find.cache_clear()
        return folder

    @pytest.mark.parametrize("level", [".", "..", "../.."], ids=["the folder", "over it", "higher"])
    @pytest.mark.parametrize(("mode", "owner", "group"), OPEN.values(), ids=OPEN)
    def test_not_where_somebody_else_may_put_another(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, level: str, mode: int, owner: int, group: int
    ) -> None:
        pose(monkeypatch, at := (cache / level).resolve(), mode, owner, group)
        assert native.find(native.ROTATION) is None
        said = rf"cannot be kept in {cache} \(others may change {at}\); set POSENC_CACHE to a folder of yours"
        with pytest.raises(BackendUnavailable, match=said):
            native.build(native.ROTATION)
        assert len(list(cache.iterdir())) == 1

    @pytest.mark.parametrize(("mode", "owner", "group"), OPEN.values(), ids=OPEN)
    def test_not_a_file_that_is_somebody_elses(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, group: int
    ) -> None:
        pose(monkeypatch, next(cache.iterdir()), mode, owner, group)
        assert native.find(native.ROTATION) is None

    def test_what_a_mode_really_is(self, cache: Path) -> None:
        cache.chmod(0o757)
        assert native.find(native.ROTATION) is None

    @pytest.mark.parametrize(
        ("level", "mode", "owner", "group"),
        [(".", 0o775, ME, ME), ("..", 0o1777, 0, 0), ("..", 0o755, 0, STRANGER)],
        ids=["a group of its user's own", "others may add above", "root's"],
    )
    def test_but_where_nobody_can(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, level: str, mode: int, owner: int, group: int
    ) -> None:
        pose(monkeypatch, (cache / level).resolve(), mode, owner, group)
        assert native.find(native.ROTATION) is not None

    def test_nothing_is_built_where_others_may_add(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        next(cache.iterdir()).unlink()
        cache.chmod(0o1777)
        with pytest.raises(BackendUnavailable, match=f"others may change {cache}"):
            native.build(native.ROTATION)

    def test_not_from_the_folder_for_temporary_files(
        self, put: Callable[[Path], None], empty: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A name there is everybody's to take first."""
        taken = empty / f"posenc-{os.getuid()}"
        taken.mkdir(mode=0o700)
        put(taken)
        monkeypatch.setenv("POSENC_CACHE", str(empty / "cache"))
        native.find.cache_clear()
        assert native.find(native.ROTATION) is None

    def test_what_was_looked_at_is_what_is_loaded(self, put: Callable[[Path], None], trodden: Path) -> None:
        """A link may lead elsewhere a moment later: its end is what counts."""
        (trodden / "far").mkdir()
        (trodden / "link").symlink_to(trodden / "far")
        put(trodden / "link")
        found = native.find(native.ROTATION)
        assert found is not None
        assert found.parent == trodden / "far"


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
