"""Who opens an SQLite file closes it, on every Python; one study and one checkpoint serve all tests."""

from pathlib import Path

import pytest

from posenc.workbench.run import trainer
from support.pretrained import LETTERS, save_llama
from support.sessions import connections as connections
from support.sessions import copied_study as copied_study
from support.sessions import ledgers as ledgers
from support.sessions import shared_study as shared_study


@pytest.fixture
def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs report and keep their state after every step."""
    for name in ("REPORT_EVERY", "STATE_EVERY"):
        monkeypatch.setattr(trainer, name, 0.0)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint trained to 64 tokens, with a text; its short contexts are 16 tokens, in blocks of 4."""
    folder = tmp_path_factory.mktemp("llama")
    save_llama(folder)
    (folder / "text.txt").write_bytes(LETTERS)
    return folder
