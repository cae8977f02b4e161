"""The guide's notebook with the output of its cells, and its page on the site.

``python docs/executed.py STUDY`` runs the cells on a study and writes their output into the notebook.
"""

import ast
import contextlib
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

MARK = "<!-- notebook -->"
NOTEBOOK = Path(__file__).parent / "results.ipynb"


def on_page_markdown(markdown: str, config: Any, files: Any, **_: Any) -> str:
    """Replace the mark by the notebook; its figures become files of the site."""
    if MARK not in markdown:
        return markdown
    from mkdocs.structure.files import File

    parts = []
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```py\n{source}\n```")
        for data in (output["data"] for output in cell.get("outputs", ())):
            if "image/svg+xml" in data:
                name = f"figures/{cell['id']}.svg"
                files.append(File.generated(config, name, content=data["image/svg+xml"]))
                parts.append(f"![{data['text/plain']}]({name})")
            else:
                parts.append(data.get("text/html") or f"```text\n{data['text/plain']}\n```")
    return markdown.replace(MARK, "\n\n".join(parts))


def keep(study: Path) -> None:
    """Run the cells on this study, and store what the last line of each cell shows."""
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    names: dict[str, Any] = {}
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.symlink(study, "study")
        for count, cell in enumerate((c for c in notebook["cells"] if c["cell_type"] == "code"), 1):
            *before, end = ast.parse("".join(cell["source"])).body
            assert isinstance(end, ast.Expr), "a cell ends with what it shows"
            exec(compile(ast.Module(before, []), NOTEBOOK.name, "exec"), names)
            value = eval(compile(ast.Expression(end.value), NOTEBOOK.name, "eval"), names)
            shown = {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data(value)}
            cell |= {"execution_count": count, "outputs": [shown]}
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


def data(value: Any) -> dict[str, str]:
    """Return a figure as SVG, a data frame as a table, and anything else as text."""
    if hasattr(value, "view"):
        return {"text/plain": value.view.title, "image/svg+xml": value._repr_html_()}
    if hasattr(value, "to_html"):
        table = value.to_html(border=0, classes=[], float_format="{:.4g}".format)
        return {"text/plain": repr(value), "text/html": table.replace(' class="dataframe"', "")}
    return {"text/plain": repr(value)}


if __name__ == "__main__":
    keep(Path(sys.argv[1]).resolve())
