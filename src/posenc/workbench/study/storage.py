"""Where a study lies: a folder here, or an address that fsspec knows, such as ``s3://bucket/study``.

A remote study has all the files of a folder. Commands work on a folder in the user's cache and push its changes now
and then: weights and states first, then the ledger, then ``REVISION``, a word that is new every time.
"""

import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from posenc.errors import InvalidArgument, StudyError
from posenc.workbench.files import PARTIAL, Changes, cache, stamp, write_atomically
from posenc.workbench.run.ledger import Ledger

EVERY = 60.0
"""Seconds between two pushes to an address, while runs go on."""
REVISION = "revision"
LEDGER = "ledger.sqlite"


class StudyFolder:
    """The folder ``path`` that a command works on; ``name`` is where the study lies, as it was typed."""

    def __init__(self, path: Path) -> None:
        self.name, self.path = str(path), path

    def fetch(self) -> None:
        """Fetch a remote study, before a command works on it."""

    def push(self) -> None:
        """Push all changes of a remote study."""

    def push_when_due(self, say: Callable[[str], None]) -> None:
        """Push once a minute; ``say`` gets an error, and the next push tries again."""


class RemoteStudy(StudyFolder):
    """A study at an address; its folder lies in the user's cache.

    Raises:
        StudyError: fsspec does not know the address, the package that serves it is not installed, the service
            cannot be reached, or another command has pushed to it meanwhile.
    """

    def __init__(self, address: str) -> None:
        import fsspec

        root = cache("studies") / sha256(address.encode()).hexdigest()[:16]
        self.name, self.path, self._state = address, root / "study", root / "known.json"
        try:
            self._files, self._root = fsspec.url_to_fs(address)
        except (ValueError, ImportError) as error:
            raise StudyError(
                f"{address!r} cannot be used ({error}); name a folder, or an address that fsspec serves here"
            ) from error
        self._next = time.monotonic() + EVERY

    def fetch(self) -> None:
        """Fetch all files, between those of the folder; files not yet pushed stay, and are pushed later."""
        with self._explained():
            revision, state = self._revision(), self._known()
            if revision != state["revision"]:  # of an address that was emptied nothing counts as pushed
                self._remember(revision, self._merge(state["stamps"]) if revision else {})

    def _merge(self, stamps: dict[str, list[int]]) -> dict[str, list[int]]:
        """Merge the remote files in, as if one machine had written both; returns the stamps of those fetched."""
        with (
            Ledger(self.path, write=True) as ledger,
            tempfile.TemporaryDirectory(dir=self.path.parent) as folder,
        ):
            self._files.get(f"{self._root}/", f"{folder}/study/", recursive=True)
            local, remote = _listed(self.path), _listed(Path(folder) / "study")
            pushed = {name for name, file in local.items() if stamps.get(name) == stamp(file)}
            for name in pushed - remote.keys():  # another command removed it
                local[name].unlink()
            ledger.merge(Path(folder) / "study")
            fetched = [name for name in remote if name in pushed or name not in local]
            for name in fetched:
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                remote[name].replace(self.path / name)
        return {name: stamp(self.path / name) for name in fetched}

    def fetch_ledger(self) -> Path:
        """Fetch the ledger alone, into a folder for readers, and return that folder."""
        target = self.path.with_name("read")
        with self._explained():
            self._check_exists()
            with write_atomically(target / LEDGER) as partial:
                self._files.get_file(f"{self._root}/{LEDGER}", str(partial))
        return target

    def fetch_existing(self) -> Path:
        """Fetch all files of a study that must exist, and return the folder."""
        with self._explained():
            self._check_exists()
        self.fetch()
        return self.path

    def push(self) -> None:
        state = self._known()
        with self._explained():
            if self._revision() != state["revision"]:
                raise StudyError(
                    f"what lies at {self.name!r} is no longer what this command left there: let the other one end "
                    "that writes to it and type this one again, or choose another --output"
                )
            for name, file in Changes(lambda: _listed(self.path), state["stamps"]).since():
                self._send(name, file)
            with tempfile.TemporaryDirectory() as folder, Ledger(self.path) as ledger:
                ledger.copy(copied := Path(folder) / LEDGER)
                self._send(LEDGER, copied)
            revision = uuid.uuid4().hex
            self._files.pipe_file(f"{self._root}/{REVISION}", revision.encode())
        self._remember(revision, state["stamps"])

    def push_when_due(self, say: Callable[[str], None]) -> None:
        if time.monotonic() < self._next:
            return
        try:
            self.push()
        except StudyError as error:
            say(str(error))
        self._next = time.monotonic() + EVERY

    def _send(self, name: str, file: Path | None) -> None:
        target = f"{self._root}/{name}"
        try:
            self._files.put_file(str(file), target) if file else self._files.rm_file(target)
        except FileNotFoundError:
            if file and file.exists():  # else a run has removed it just now
                self._files.makedirs(target.rpartition("/")[0], exist_ok=True)  # object stores have no folders
                self._files.put_file(str(file), target)

    def _check_exists(self) -> None:
        if not self._revision():
            raise StudyError(f"no study at {self.name!r}; posenc compare --output {self.name} starts one")

    def _revision(self) -> str:
        """The revision that lies at the address; empty where no study does."""
        self._files.invalidate_cache()
        try:
            revision: bytes = self._files.cat_file(f"{self._root}/{REVISION}")
        except FileNotFoundError:
            return ""
        return revision.decode()

    def _known(self) -> dict[str, Any]:
        """The revision at this machine's last fetch or push, and the stamps of all files that were equal then."""
        if not self._state.exists():
            return {"revision": "", "stamps": {}}
        state: dict[str, Any] = json.loads(self._state.read_text(encoding="utf-8"))
        return state

    def _remember(self, revision: str, stamps: dict[str, list[int]]) -> None:
        with write_atomically(self._state) as partial:
            partial.write_text(json.dumps({"revision": revision, "stamps": stamps}), encoding="utf-8")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except StudyError:
            raise
        except Exception as error:  # every service has errors of its own
            message = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise StudyError(
                f"{self.name!r} cannot be read or written ({message}); see that it is there and yours, and type "
                f"the same command: what has been done lies in {str(self.path)!r}"
            ) from error


def _listed(folder: Path) -> dict[str, Path]:
    """All files of a study but its ledger; the ``.metadata`` that completes a sharded state comes last."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != PARTIAL]
    files = [file for file in files if ".sqlite" not in file.name and file.name != REVISION]
    files.sort(key=lambda file: (file.name == ".metadata", file))
    return {file.relative_to(folder).as_posix(): file for file in files}


def study_folder(name: str) -> StudyFolder:
    """The study of this name: a remote one where the name has a scheme, else a folder."""
    if not name:
        raise InvalidArgument("output='' must be a folder, or an address such as s3://bucket/study")
    return RemoteStudy(name) if is_address(name) else StudyFolder(Path(name))


def is_address(name: str) -> bool:
    """Whether a study's name has a scheme."""
    return "://" in name


def with_ledger(name: str | Path) -> Path:
    """A local folder with the ledger of the study of this name."""
    return RemoteStudy(str(name)).fetch_ledger() if is_address(str(name)) else Path(name)


def downloaded(name: str) -> Path:
    """A local folder with all files of the study of this name."""
    return RemoteStudy(name).fetch_existing() if is_address(name) else Path(name)
