"""A view in a notebook: it draws itself where it is looked at, and is saved on request."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc.pictures.draw import save
from posenc.pictures.view import View


@dataclass(frozen=True)
class Drawn:
    """A figure that a notebook shows as it is."""

    view: View

    def save(self, path: str | Path) -> Path:
        """Write it; the name's end decides the format."""
        return save(self.view, Path(path))

    def __repr__(self) -> str:
        return f"{self.view.title}; it draws itself in a notebook, and save(path) writes it"

    def _repr_html_(self) -> str:
        with TemporaryDirectory() as folder:
            return self.save(Path(folder) / "figure.svg").read_text(encoding="utf-8")
