"""extend under kill -9 goes on from its last whole document, and ends in the same bytes."""

import json
import multiprocessing as mp
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import torch

from posenc.workbench.extension.methods import NAMES
from posenc.workbench.run.ledger import Ledger
from support.reading import PIECE, TO, TRAINED, Broken, Reader, carry_out, small_pieces

WHOLE = TO // PIECE
"""Pieces of a document under a method."""
WORK = len(NAMES) * WHOLE + 4 * TRAINED // PIECE
"""Pieces that a document takes: under every method, and in four windows of the trained length alone."""
KILLS = 30


def test_a_document_takes_little_more_than_a_forward_pass_a_method(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledgers: Callable[[Path], Ledger]
) -> None:
    """In tokens that the model is given: at most 1.3 times those of a plain forward pass under each method."""
    small_pieces(monkeypatch.setattr)
    reader = Reader(llama)
    reader.extend(ledgers(tmp_path))
    assert reader.tokens <= 1.3 * len(NAMES) * TO
    assert reader.tokens == WORK * PIECE + 1  # one asks which cache the model has


def test_broken_off_it_goes_on_from_the_last_whole_document(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledgers: Callable[[Path], Ledger]
) -> None:
    small_pieces(monkeypatch.setattr)
    want = Reader(llama).extend(ledgers(tmp_path / "whole"))
    stops = (1, WHOLE + 5, 2 * WHOLE)  # in the first document, in the second, and after two more
    for stop in stops:
        with pytest.raises(Broken), Ledger(tmp_path / "broken", write=True) as ledger:
            Reader(llama, stop).extend(ledger)
    last = Reader(llama)
    got = last.extend(ledgers(tmp_path / "broken"))
    assert last.pieces == WORK - 3 * WHOLE
    assert all(torch.equal(a.losses, b.losses) for a, b in zip(got.curves, want.curves, strict=True))
    assert torch.equal(got.window, want.window)
    assert not (tmp_path / "broken" / "checkpoints").exists()


@pytest.mark.slow
def test_thirty_kills_change_no_byte(llama: Path, tmp_path: Path) -> None:
    context, random = mp.get_context("forkserver"), Random(0)
    context.set_forkserver_preload(["support.reading"])
    pieces, numbers = 0, list[str]()
    for stop in (None, *(random.randrange(1, WORK // 4) for _ in range(KILLS)), None):
        heard, told = context.Pipe(duplex=False)
        folder = tmp_path / ("broken" if numbers else "whole")
        process = context.Process(target=carry_out, args=(llama, folder, 2, told))
        process.start()
        told.close()
        while isinstance(heard_now := heard.recv(), int):
            if heard_now == stop:
                time.sleep(random.random() * 0.01)  # into a piece, or into the writing of a document's losses
                process.kill()
                pieces += heard_now
                break
        else:
            numbers.append(json.dumps(heard_now))
        process.join()
        heard.close()
    assert pieces > WORK  # more than a study that is never killed
    assert numbers[0] == numbers[1]
    assert not (tmp_path / "broken" / "checkpoints").exists()
