"""Where a study lies: a folder here, or an address that fsspec knows, such as ``s3://bucket/study``.

Behind an address lies all that a folder has. It is worked on in a folder of the user's cache, and what has changed
goes there now and then: weights and states first, then the ledger, then ``KEPT``, a word that is new every time.
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
from posenc.workbench.files import PARTIAL, Changes, cache, stamp, whole
from posenc.workbench.run.ledger import Ledger

EVERY = 60.0
"""Seconds after which what has changed goes to an address, while runs go on."""
KEPT = "kept"
LEDGER = "ledger.sqlite"


class Place:
    """A folder of this machine; nothing has to be brought anywhere."""

    def __init__(self, folder: Path) -> None:
        self.name, self.folder = str(folder), folder

    def fetch(self) -> None:
        """Bring what lies there here, before it is worked on."""

    def keep(self) -> None:
        """Bring what has changed there."""

    def look(self, say: Callable[[str], None]) -> None:
        """Keep, where that was not done for a while; what hinders it is said, and goes there later."""


class Address(Place):
    """A study behind an address, and the folder in which it is worked on.

    Raises:
        StudyError: fsspec does not know the address, or what serves it is not installed, cannot be reached, or
            holds what another command has brought there meanwhile.
    """

    def __init__(self, address: str) -> None:
        import fsspec

        own = cache("studies") / sha256(address.encode()).hexdigest()[:16]
        self.name, self.folder, self._note = address, own / "study", own / "known.json"
        try:
            self._files, self._root = fsspec.url_to_fs(address)
        except (ValueError, ImportError) as error:
            raise StudyError(
                f"{address!r} cannot be used ({error}); name a folder, or an address that fsspec serves here"
            ) from error
        self._next = time.monotonic() + EVERY

    def fetch(self) -> None:
        """Bring all of it here, in between what is here; what was not sent yet stays, and is sent later."""
        with self._explained():
            there, known = self._word(), self._known()
            if there != known["word"]:
                self._knows(there, self._merge(known["seen"]) if there else {})  # what has gone there goes back

    def _merge(self, seen: dict[str, list[int]]) -> dict[str, list[int]]:
        """Make of both what one machine would have left; returns what is now here as it lies there."""
        with (
            Ledger(self.folder, write=True) as ledger,
            tempfile.TemporaryDirectory(dir=self.folder.parent) as folder,
        ):
            self._files.get(f"{self._root}/", f"{folder}/study/", recursive=True)
            here, there = _look(self.folder), _look(Path(folder) / "study")
            sent = {name for name, file in here.items() if seen.get(name) == stamp(file)}
            for name in sent - there.keys():  # others let go of it
                here[name].unlink()
            ledger.merge(Path(folder) / "study")
            fetched = [name for name in there if name in sent or name not in here]
            for name in fetched:
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                there[name].replace(self.folder / name)
        return {name: stamp(self.folder / name) for name in fetched}

    def read(self) -> Path:
        """A folder with its ledger and nothing else, to be read."""
        target = self.folder.with_name("read")
        with self._explained():
            self._there()
            with whole(target / LEDGER) as partial:
                self._files.get_file(f"{self._root}/{LEDGER}", str(partial))
        return target

    def bring(self) -> Path:
        """A folder with all of it, weights too."""
        with self._explained():
            self._there()
        self.fetch()
        return self.folder

    def keep(self) -> None:
        known = self._known()
        with self._explained():
            if self._word() != known["word"]:
                raise StudyError(
                    f"what lies at {self.name!r} is no longer what this command left there: let the other one end "
                    "that writes to it and type this one again, or choose another --output"
                )
            for name, file in Changes(lambda: _look(self.folder), known["seen"]).since():
                self._send(name, file)
            with tempfile.TemporaryDirectory() as folder, Ledger(self.folder) as ledger:
                ledger.copy(copied := Path(folder) / LEDGER)
                self._send(LEDGER, copied)
            word = uuid.uuid4().hex
            self._files.pipe_file(f"{self._root}/{KEPT}", word.encode())
        self._knows(word, known["seen"])

    def look(self, say: Callable[[str], None]) -> None:
        if time.monotonic() < self._next:
            return
        try:
            self.keep()
        except StudyError as error:
            say(str(error))
        self._next = time.monotonic() + EVERY

    def _send(self, name: str, file: Path | None) -> None:
        target = f"{self._root}/{name}"
        try:
            self._files.put_file(str(file), target) if file else self._files.rm_file(target)
        except FileNotFoundError:
            if file and file.exists():  # else a run has let go of it just now
                self._files.makedirs(target.rpartition("/")[0], exist_ok=True)  # stores of objects have no folders
                self._files.put_file(str(file), target)

    def _there(self) -> None:
        """Refuse an address where no study lies."""
        if not self._word():
            raise StudyError(f"no study at {self.name!r}; posenc compare --output {self.name} starts one")

    def _word(self) -> str:
        """What lies there under ``KEPT``; empty where nothing does."""
        self._files.invalidate_cache()
        try:
            word: bytes = self._files.cat_file(f"{self._root}/{KEPT}")
        except FileNotFoundError:
            return ""
        return word.decode()

    def _known(self) -> dict[str, Any]:
        """The word that lay there when this machine last brought something, and all that it had brought."""
        if not self._note.exists():
            return {"word": "", "seen": {}}
        known: dict[str, Any] = json.loads(self._note.read_text(encoding="utf-8"))
        return known

    def _knows(self, word: str, seen: dict[str, list[int]]) -> None:
        with whole(self._note) as partial:
            partial.write_text(json.dumps({"word": word, "seen": seen}), encoding="utf-8")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except StudyError:
            raise
        except Exception as error:  # every service has errors of its own
            said = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise StudyError(
                f"{self.name!r} cannot be read or written ({said}); see that it is there and yours, and type the "
                f"same command: what has been done lies in {str(self.folder)!r}"
            ) from error


def _look(folder: Path) -> dict[str, Path]:
    """What a study leaves but its ledger; of a folder the file that says that it is whole comes last."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != PARTIAL]
    kept = [file for file in files if ".sqlite" not in file.name and file.name != KEPT]
    kept.sort(key=lambda file: (file.name == ".metadata", file))
    return {file.relative_to(folder).as_posix(): file for file in kept}


def place(name: str) -> Place:
    """The place of this name: an address where it has a scheme, else a folder."""
    if not name:
        raise InvalidArgument("output='' must be a folder, or an address such as s3://bucket/study")
    return Address(name) if is_address(name) else Place(Path(name))


def is_address(name: str) -> bool:
    """Whether it has a scheme."""
    return "://" in name


def reading(name: str | Path) -> Path:
    """A folder with the ledger of the study of this name."""
    return Address(str(name)).read() if is_address(str(name)) else Path(name)


def brought(name: str) -> Path:
    """A folder with all of the study of this name."""
    return Address(name).bring() if is_address(name) else Path(name)
