"""A study at an address that fsspec serves, such as ``s3://bucket/study``: pushed and pulled by content.

Below the address lie

    objects/<sha256>            the bytes of a file
    pushes/<time>-<sha256>.json a push: the objects of all its files, and the runs of its ledger

Both are only ever added to, so that machines can push at once, and no command takes away what another has sent.
"""

import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import fsspec

from posenc.errors import StudyError
from posenc.workbench.files import PARTIAL, write_atomically
from posenc.workbench.run.ledger import Ledger

LEDGER = "ledger.sqlite"


class RemoteStudy:
    """The study at ``address``.

    Raises:
        StudyError: fsspec does not know the address, it names no bucket or folder, the package that serves it is
            not installed, or the service cannot be reached.
    """

    def __init__(self, address: str) -> None:
        self.name = address
        try:
            self._files, self._root = fsspec.url_to_fs(address)
            if not self._root.strip("/"):
                raise ValueError("it names no bucket or folder")
        except (ValueError, ImportError) as error:
            raise StudyError(
                f"address={address!r} cannot be used ({error}); name one that fsspec serves here, such as "
                "s3://bucket/study with s3fs installed"
            ) from error

    def push(self, folder: Path) -> int:
        """Send what the address lacks of the study in ``folder``, also while runs go on; returns the files sent.

        The ledger is copied first: by then the weights of its runs lie on the disk.
        """
        with self._explained(), Ledger(folder) as ledger, tempfile.TemporaryDirectory() as temporary:
            runs = sorted(ledger.ids())
            ledger.copy(copy := Path(temporary) / LEDGER)
            present, sent, files = self._listed("objects"), 0, dict[str, str]()
            for name, path in [*_files(folder), (LEDGER, copy)]:
                try:
                    file = path.open("rb")  # the bytes of now, whatever takes the name meanwhile
                except FileNotFoundError:  # a run has removed it
                    continue
                with file:
                    files[name] = digest = hashlib.file_digest(file, "sha256").hexdigest()
                    if present.get(digest) != file.tell():
                        file.seek(0)
                        self._send(f"objects/{digest}", file)
                        sent += 1
            text = json.dumps({"runs": runs, "files": files}).encode()
            digest = hashlib.sha256(text).hexdigest()
            self._send(f"pushes/{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{digest[:16]}.json", io.BytesIO(text))
        return sent

    def pull(self, folder: Path) -> int:
        """Bring runs and files that ``folder`` lacks, of the newest push first; returns how many runs are new.

        Nothing in the folder is replaced or removed.
        """
        with self._explained():
            names = sorted(self._listed("pushes"), reverse=True)
            if not names:
                raise StudyError(f"no study at {self.name!r}; posenc study push {self.name} sends one there")
            pushes = [json.loads(self._files.cat_file(f"{self._root}/pushes/{name}")) for name in names]
            with Ledger(folder, write=True) as ledger:
                before = ledger.ids()
                for push in pushes:
                    if not ledger.ids().issuperset(push["runs"]):
                        with tempfile.TemporaryDirectory() as temporary:
                            self._fetch(push["files"][LEDGER], Path(temporary) / LEDGER)
                            ledger.merge(Path(temporary))
                files = {name: digest for push in reversed(pushes) for name, digest in push["files"].items()}
                for name, digest in files.items():
                    ended = Path(name).name[:16] in ledger.ids() and not name.endswith(".safetensors")
                    if name != LEDGER and not ended and not (folder / name).exists():
                        self._fetch(digest, folder / name)
                return len(ledger.ids() - before)

    def _listed(self, kind: str) -> dict[str, int]:
        """The names of one kind, with their sizes."""
        self._files.invalidate_cache()
        try:
            rows = self._files.ls(f"{self._root}/{kind}", detail=True)
        except FileNotFoundError:
            return {}
        return {row["name"].rpartition("/")[2]: row["size"] for row in rows}

    def _send(self, name: str, file: IO[bytes]) -> None:
        target = f"{self._root}/{name}"
        self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
        with self._files.open(target, "wb") as out:
            shutil.copyfileobj(file, out, 2**20)

    def _fetch(self, digest: str, target: Path) -> None:
        with write_atomically(target) as partial:
            self._files.get_file(f"{self._root}/objects/{digest}", str(partial))
            with partial.open("rb") as file:
                arrived = hashlib.file_digest(file, "sha256").hexdigest()
            if arrived != digest:  # its push was killed
                raise StudyError(f"{target.name!r} at {self.name!r} is cut short; push it again from where it lies")

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
                "the same command: what has been sent or brought stays"
            ) from error


def _files(folder: Path) -> list[tuple[str, Path]]:
    """All files of a study but its ledger; the ``.metadata`` that completes a sharded state comes last."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != PARTIAL]
    files = [file for file in files if ".sqlite" not in file.name]
    files.sort(key=lambda file: (file.name == ".metadata", file))
    return [(file.relative_to(folder).as_posix(), file) for file in files]
