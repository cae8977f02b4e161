"""The store: files by name in a folder or in fsspec's memory, whole or not there, and what it says if it cannot."""

import os
from pathlib import Path

import pytest

from posenc.errors import StudyError
from posenc.workbench.launch.store import Store


@pytest.mark.parametrize("place", ["memory://somewhere/study", None], ids=["memory", "folder"])
def test_what_is_written_is_read_replaced_and_removed(place: str | None, tmp_path: Path) -> None:
    store = Store.at(place or tmp_path / "study")
    assert store.read("weights/one") is None
    for data in (b"first", b"second"):
        store.write("weights/one", data)
        assert store.read("weights/one") == data
    store.remove("weights/one")
    store.remove("weights/one")
    assert store.read("weights/one") is None
    assert (store.path("a") is None) == (place is not None)


def test_a_folder_is_the_same_from_wherever_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store.at(Path("study"))
    monkeypatch.chdir("/")
    store.write("one", b"1")
    assert (tmp_path / "study" / "one").read_bytes() == b"1"
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["one"]


def test_colleagues_may_read_what_is_kept(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        Store.at(tmp_path).write("one", b"1")
    finally:
        os.umask(old)
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o644


def test_a_place_that_cannot_serve_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match=r"'one' cannot be written in '.*file': .*and run the same command"):
        Store.at(tmp_path / "file").write("one", b"1")
    with pytest.raises(StudyError, match="'nowhere://a' is no place that fsspec knows"):
        Store.at("nowhere://a").write("one", b"1")
