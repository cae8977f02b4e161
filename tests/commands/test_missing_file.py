"""A file that is not there is refused before torch or transformers is imported."""

import subprocess
import sys

import pytest

CODE = """
import sys
from posenc.cli import main
try:
    main()
except SystemExit as end:
    print(end.code, sorted({"torch", "transformers"} & {*sys.modules}))
"""


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "no_such/model"),
        ("inspect", "no_such/model", "--for", "vllm"),
        ("diff", "no_such.json", "other.json"),
        ("diff", __file__, "vllm@0.33.0:no_such.json"),
        ("diff", __file__, "--draft", "no_such"),
    ],
)
def test_a_missing_file_is_refused_at_once(words: tuple[str, ...]) -> None:
    run = subprocess.run([sys.executable, "-c", CODE, *words], capture_output=True, text=True)
    assert run.stdout == "2 []\n"
    assert "no_such" in run.stderr
    assert "cannot be read (No such file or directory); pass a config.json" in run.stderr
