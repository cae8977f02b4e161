"""The native kernel loads as it was compiled, gives way where it cannot be, and to tracers and modes."""

import copy
import ctypes
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from posenc import Rotary, positions
from posenc.errors import BackendUnavailable
from posenc.kernels import native
from posenc.kernels.backend import by_name
from posenc.kernels.rotary import rotate
from support.native_kernel import by_threads, forget_the_library, large
from support.processes import python
from tools import build_kernel


def qk() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(1, 4, 6, 16), torch.randn(1, 2, 6, 16)


@pytest.mark.usefixtures("native_built")
class TestBuilt:
    def test_auto_takes_it(self) -> None:
        assert by_name("auto", "cpu") == "native"
        explanation = f"native: one pass over memory, with {native.level()} instructions"
        assert Rotary(16, pairing="half").explain() == explanation

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
                    torch.testing.assert_close(placed.rotate(q, k), want.rotate(q, k), rtol=0, atol=0)
                q.requires_grad_()
                assert placed.rotate(q, k)[0].requires_grad
                with torch.no_grad():
                    assert not placed.rotate(q, k)[0].requires_grad

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_a_copy_of_what_has_rotated_rotates(self, copied) -> None:
        placed, (q, k) = Rotary(16, pairing="half").at(positions.arange(6)), qk()
        want = placed.rotate(q, k)
        assert placed._step is not None
        again = copied(placed)
        assert again._step is None
        assert all(torch.equal(a, b) for a, b in zip(again.rotate(q, k), want, strict=True))

    def test_tracers_and_transforms_see_it_after_a_step(self) -> None:
        placed, (q, k) = Rotary(16, pairing="half").at(positions.arange(6)), qk()
        want = placed.rotate(q, k)
        traced = make_fx(lambda q, k: placed.rotate(q, k))(q, k)
        assert torch.equal(traced(2 * q, k)[0], 2 * want[0])
        with FlopCounterMode(display=False):  # a mode, which sees operators only
            assert torch.equal(placed.rotate(q, k)[0], want[0])
        mapped = torch.vmap(placed.rotate)(torch.stack((q, 2 * q)), torch.stack((k, k)))
        assert torch.equal(mapped[0][1], 2 * want[0])
        _, tangent = torch.func.jvp(lambda q: placed.rotate(q, k)[0], (q,), (3 * q,))
        torch.testing.assert_close(tangent, 3 * want[0])


class TestLoading:
    def test_without_it_everything_works_and_says_what_is_lacking(self, without_native: Path) -> None:
        assert by_name("auto", "cpu") == "eager"
        assert (
            "was not compiled with this installation; install a C compiler" in Rotary(16, pairing="half").explain()
        )
        with pytest.raises(BackendUnavailable, match=r"was not compiled .*apt install gcc"):
            Rotary(16, pairing="half", backend="native")
        want = Rotary(16, pairing="half", backend="torch").at(positions.arange(6))
        q, k = qk()
        got = Rotary(16, pairing="half").at(positions.arange(6)).rotate(q, k)
        torch.testing.assert_close(got, want.rotate(q, k), rtol=0, atol=0)

    def test_a_library_of_another_system_is_left_alone(self, without_native: Path) -> None:
        without_native.write_bytes(b"\x7fELF of some other machine")
        assert "does not load on this system" in native.lacking()

    @pytest.mark.usefixtures("native_built")
    def test_a_library_older_than_its_source_is_left_alone(self, without_native: Path) -> None:
        shutil.copy(build_kernel.LIBRARY, without_native)
        shutil.copytree(build_kernel.SOURCES, native.SOURCES)
        assert not native.lacking()
        with (native.SOURCES / "rows.c").open("a") as source:
            source.write("// changed\n")
        forget_the_library()
        assert "older than its source; type: python tools/build_kernel.py" in native.lacking()

    @pytest.mark.usefixtures("native_built")
    def test_a_library_whose_jobs_have_another_size_is_left_alone(
        self, without_native: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Longer(native.Job):
            _fields_ = (("more", ctypes.c_int64),)

        shutil.copy(build_kernel.LIBRARY, without_native)
        monkeypatch.setattr(native, "Job", Longer)
        size = ctypes.sizeof(Longer)
        assert f"expects an argument structure of {size - 8} bytes, but posenc passes {size}; " in native.lacking()

    def test_the_command_line_says_which_one_it_is(self) -> None:
        assert (native.lacking() or native.level()) in python("-m", "posenc", "--version")


FUZZED = """
import random
import sys
import torch
from posenc.kernels.rotary import Tables, rotate, rotate_both
from posenc.kernels.rotary.by_native import by_native, step

random.seed(0)
torch.manual_seed(0)
pick = lambda *values: random.choice(values)

def layout(x):
    if x.dim() > 1 and pick(0, 0, 0, 1):
        x = x.mT.contiguous().mT
    return pick(*[lambda: x] * 9, x.to_sparse, lambda: x.to("meta"), lambda: torch._neg_view(x))()

def table(shape):
    size = random.random() < 0.8 and shape or [pick(n, 1, n + 1, 2 * n, 0) for n in shape]
    x = torch.randn(size)[(0,) * pick(0, 0, 0, 1) if len(size) > 1 and size[0] else ()]
    return layout(x.to(pick(*[torch.float32] * 9, torch.float64, torch.float16, torch.int64)))

def tensor(B, H, T, D):
    shape = pick(*[(B, H, T, D)] * 9, (H, T, D), (B, H, T, D + 1), (1, B, H, T, D), (B, H, 0, D))
    return layout(torch.randn(shape).to(pick(*[torch.float32] * 5, torch.float64, torch.bfloat16, torch.int32)))

def attempt(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__

outcomes = {"rotated": 0, "refused": 0}
for _ in range(draws := int(sys.argv[1])):
    B, H, T, D, pairing = pick(1, 2), pick(1, 3), pick(1, 5), pick(2, 6, 40), pick("half", "interleaved")
    shape = pick((T, D // 2), (B, 1, T, D // 2), (1, H, T, D // 2), (T, 1), (D // 2,))
    cos, x, k = table(shape), tensor(B, H, T, D), tensor(B, H, T, D)
    sin = cos.clone() if random.random() < 0.8 else table(shape)
    out = None if pick(0, 1) else tensor(B, H, T, D)
    want, both = attempt(lambda: rotate(x, cos, sin, pairing)), attempt(lambda: rotate(k, cos, sin, pairing))
    made = attempt(lambda: step(x, k, (cos, sin), (cos, sin), pairing))
    calls = [
        (want, lambda: by_native(x, cos, sin, pairing, out)),
        (want, lambda: rotate_both(x, k, Tables(cos, sin), Tables(cos, sin), pairing)[0]),
        (both, lambda: rotate_both(None, k, Tables(cos, sin), Tables(cos, sin), pairing)[1]),
        (want, lambda: made(x, k)[0]),
    ]
    for wanted, call in calls:
        got = attempt(call)
        outcomes["rotated" if isinstance(got, torch.Tensor) else "refused"] += 1
        if isinstance(got, torch.Tensor) and isinstance(wanted, torch.Tensor) and "meta" not in f"{got, wanted}":
            forms = [(tensor.dtype, tensor.shape, tensor.stride()) for tensor in (x, k, cos, sin, got)]
            assert got.shape != wanted.shape or torch.equal(got, wanted.to(got.dtype)), forms
assert min(outcomes.values()) > 0.8 * draws, outcomes
print("right")
"""


@pytest.mark.usefixtures("native_built")
class TestNonsense:
    """What cannot be rotated is refused, and no memory outside of the tensors is read or written."""

    @pytest.mark.long
    @pytest.mark.parametrize("draws", [1000, pytest.param(6000, marks=pytest.mark.slow)])
    def test_no_tables_and_no_tensors_end_the_process(self, draws: int) -> None:
        """Fuzzed in a process of its own, which a wrong address would end."""
        assert python("-W", "ignore", "-c", FUZZED, draws) == "right\n"

    @pytest.mark.parametrize(
        ("field", "value"),
        [*((n, -1) for n in ("batch", "heads", "tokens", "pairs", "rest", "type")), ("rest", -16), ("type", 4)],
    )
    def test_the_library_refuses_sizes_that_no_tensor_has(self, field: str, value: int) -> None:
        (x, y), (cos, sin) = torch.ones(2, 1, 1, 4, 8), torch.ones(2, 4, 4)
        job = native.Job(1, 1, 4, 4, 0, type=0, half=1, threads=1)
        job.x, job.y, job.table = (32, 32, 8), (32, 32, 8), (0, 0, 4)
        rotate_one = native.load().posenc_rotate
        addresses = [tensor.data_ptr() for tensor in (x, y, cos, sin)]
        for missing in range(4):
            assert rotate_one(ctypes.byref(job), *[None if i == missing else at for i, at in enumerate(addresses)])
        setattr(job, field, value)
        assert rotate_one(ctypes.byref(job), *addresses)
        assert torch.equal(y, torch.ones_like(y))
        both = (native.Job * 2)(), (ctypes.c_void_p * 4)(*addresses[2:] * 2)
        both[0][0] = job
        assert native.load().posenc_rotate_both(*map(ctypes.addressof, both), *addresses[:2] * 2)


@pytest.mark.usefixtures("native_built")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
class TestLibrary:
    """What the compiled file holds."""

    @pytest.mark.skipif(sys.platform != "linux", reason="only objdump of Linux lists needed libraries")
    def test_it_needs_the_c_library_alone(self) -> None:
        listing = subprocess.run(["objdump", "-p", native.LIBRARY], capture_output=True, text=True, check=True)
        needed = re.findall(r"NEEDED\s+(\S+)", listing.stdout)
        assert all(re.match(r"libc\.|libpthread\.|ld-linux", name) for name in needed), needed

    def test_nothing_is_contracted_and_no_conversion_flushes_subnormals(self) -> None:
        """What is fused is rounded once instead of twice; a processor's own bfloat16 takes small numbers for 0."""
        listing = subprocess.run(
            ["objdump", "-d", "--no-show-raw-insn", native.LIBRARY], capture_output=True, text=True, check=True
        )
        opcodes = set(re.findall(r"^\s+[0-9a-f]+:\s+(\S+)", listing.stdout, re.MULTILINE))
        assert len(opcodes) > 50
        assert not [name for name in opcodes if re.match(r"vfn?m|vcvtne|bfcvt|fml|fmadd|fmsub", name)]


FORKED = """
import os, threading
import torch
from support.native_kernel import by_threads, large
from posenc.kernels.rotary import rotate

torch.set_num_threads(1)
arguments = large()
want = rotate(*arguments, "half")
by_threads(3, *arguments)  # the first call fills statics of torch, whose locks a child must not inherit
stop = threading.Event()

def go_on():
    while not stop.is_set():
        by_threads(3, *arguments)

busy = threading.Thread(target=go_on)
busy.start()
for _ in range(20):
    child = os.fork()
    if not child:
        os._exit(0 if all(torch.equal(by_threads(3, *arguments), want) for _ in range(3)) else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
busy.join()
assert torch.equal(by_threads(3, *arguments), want)
print("right")
"""


@pytest.mark.usefixtures("native_built")
class TestThreads:
    """Who waits for ever hangs here too: no clock tells a deadlock from a machine with other work."""

    @pytest.fixture(autouse=True)
    def _threads(self):
        before = torch.get_num_threads()
        yield
        torch.set_num_threads(before)

    def test_any_number_of_them_gives_the_same(self) -> None:
        arguments = large()
        want = rotate(*arguments, "half")
        for threads in (1, 4, 2, 7, 1, 3):
            for _ in range(5):
                assert torch.equal(by_threads(threads, *arguments), want)

    @pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no list of threads on this system")
    def test_they_are_made_once_and_only_where_work_is(self) -> None:
        arguments = large()
        by_threads(4, *arguments)
        count = len(os.listdir("/proc/self/task"))
        for _ in range(20):
            by_threads(4, *arguments)
        by_threads(64, arguments[0][:, :, :64], *(table[:64] for table in arguments[1:]))  # little work
        assert len(os.listdir("/proc/self/task")) == count

    def test_callers_do_not_wait_for_each_other(self) -> None:
        arguments = large()
        want, results = rotate(*arguments, "half"), []

        def call() -> None:
            for _ in range(10):
                results.append(torch.equal(by_threads(3, *arguments), want))

        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert results == [True] * 40

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
    def test_a_child_that_was_forked_in_the_middle_of_a_call(self) -> None:
        assert python("-W", "ignore", "-c", FORKED, cwd=Path(__file__).parents[1]) == "right\n"
