"""``python -m benchmarks``: measure and print every table, and write a dated page to benchmarks/results."""

import argparse
import time
import warnings
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks import accuracy, alibi, biases, decode, growth, page, rope, startup
from benchmarks.measure import Result, Table, counts_processor_time, measure
from posenc.kernels import native

HERE = Path(__file__).parent


def tables(device: str, quick: bool) -> Iterator[Table]:
    """Yield every table, built one at a time because the inputs are large."""
    return on_gpu(device, quick) if device == "cuda" else on_cpu(quick)


def on_gpu(device: str, quick: bool) -> Iterator[Table]:
    """Yield the tables for training on a GPU: rotation in both dtypes, masks and biases in bfloat16."""
    shape, long = ((4, 32, 512, 128), 1024) if quick else ((4, 32, 4096, 128), 4096)
    for dtype in (torch.float32, torch.bfloat16):
        for pairing in ("half", "interleaved"):
            yield rope.table(pairing, dtype, True, shape, device)
    for backward in (False, True):
        yield alibi.table(long, torch.bfloat16, backward, heads=16, kv_heads=16, device=device, flex=True)
        yield biases.windows(2 * long, torch.bfloat16, backward, device=device)
    for length in (long // 4, long):
        yield biases.table(length, torch.bfloat16, True, device=device, formula=True)


def on_cpu(quick: bool) -> Iterator[Table]:
    """Yield the tables of rotation, biases and padding at every size that has a target, and of a decoding step."""
    shape, long = ((1, 4, 512, 128), 512) if quick else (rope.SHAPE, 4096)
    for dtype in (torch.float32, torch.bfloat16):
        for pairing in ("half", "interleaved"):
            for backward in (False, True):
                yield rope.table(pairing, dtype, backward, shape)
            yield rope.at_hand(pairing, dtype, shape)
    for pairing in ("half", "interleaved"):
        yield rope.at_hand(pairing, torch.float32, (1, *shape[1:2], shape[2] // 4, shape[3]))
        yield rope.at_hand(
            pairing, torch.float32, (1, *shape[1:2], shape[2] // 4, 80)
        )  # not a multiple of the vector width
        yield rope.table(pairing, torch.float32, True, (4, 8, 256, 64))  # a small batch in training
    for dtype in (torch.float32, torch.bfloat16):
        for backward in (False, True):
            yield alibi.table(long, dtype, backward)
    yield alibi.table(long // 2, torch.float32, False, kv_heads=2)
    for length in (128, 256):  # lengths that studies use
        yield biases.table(length, torch.float32, True, batch=8, formula=True)
    for backward in (False, True):
        yield biases.table(long, torch.float32, backward)
        yield biases.windows(2 * long, torch.float32, backward)
    for how in ("left-padded", "packed into four"):
        for backward in (False, True):
            yield alibi.hiding(long, torch.float32, backward, how)
    yield alibi.table(long // 4, torch.float32, False, flex=True)
    for dtype in (torch.float32, torch.bfloat16):
        yield decode.table(dtype)
        if find_spec("transformers"):
            yield decode.layer("rotary", dtype)
            yield decode.layer("t5", dtype)


def run(device: str, quick: bool, seconds: float, command: str) -> str:
    """Measure everything, print each table when it is ready, and return the page."""
    clock = "processor time of one thread" if counts_processor_time() else "wall clock"
    head = [
        f"# Benchmarks, {device}, {datetime.now(UTC):%Y-%m-%d}",
        "",
        page.machine(device),
        "",
        f"Command: `{command}`. Times are {clock}. The rows of a table run in turn, in several rounds. A ratio is "
        "relative to the first row of the same round; the table gives its median and the middle half of the "
        "rounds. A row whose result differs from the exact one by more than its tolerance is red and is not timed.",
        "",
    ]
    if device == "cpu":
        head += [
            "GPU rows are not measured, because there is no CUDA device.",
            "",
            kernel(),
            "",
        ]
    show(head)
    body: list[str] = []
    measured: list[tuple[Table, list[Result]]] = []
    for table in tables(device, quick):
        results = measure(table, seconds)
        measured.append((Table(table.title, [], tuple, table.bytes), results))
        body += show(page.lines(results, table))
    found = [] if device == "cuda" else list(page.growth_lines(growth.growths()))
    show(found)
    exact = show(page.accuracy_lines(accuracy.errors()))
    starts = show([] if device == "cuda" else startup.lines(1 if quick else startup.ROUNDS))
    summary = show([] if device == "cuda" else ["## Targets", "", *page.targets(measured)])
    return "\n".join([*head, *summary, "## Speed", "", *body, *found, *exact, *starts])


def kernel() -> str:
    """Return a sentence about the native kernel."""
    return native.lacking() or f"The native kernel uses {native.level()} instructions."


def show(lines: Iterable[str]) -> list[str]:
    """Print the lines immediately, and return them."""
    kept = []
    for line in lines:
        print(line, flush=True)
        kept.append(line)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true", help="small sizes, only to check that everything runs")
    parser.add_argument("--seconds", type=float, default=1.5, help="time per table")
    parser.add_argument(
        "--output", type=Path, help="file of the page; default benchmarks/results/<date>-<processor>.md"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="number of threads; 1 measures processor time, more measure wall-clock time",
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    begin = time.perf_counter()
    command = f"python -m benchmarks --device {options.device} --threads {options.threads}"
    command += " --quick" if options.quick else ""
    text = run(options.device, options.quick, options.seconds, command)
    path = options.output or HERE / "results" / f"{datetime.now(UTC):%Y-%m-%d}-{page.slug(options.device)}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"{time.perf_counter() - begin:.0f} s, written to {path}")


if __name__ == "__main__":
    main()
