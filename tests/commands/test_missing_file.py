"""A file that is not there is refused before torch or transformers is imported."""

import subprocess
import sys

CODE = """
import sys
from posenc.cli import main
for words in {}:
    sys.argv = ["posenc", *words]
    try:
        main()
    except SystemExit as end:
        print(end.code, sorted({{"torch", "transformers"}} & {{*sys.modules}}))
"""
WORDS = [
    ("inspect", "no_such/model"),
    ("inspect", "no_such/model", "--for", "vllm"),
    ("diff", "no_such.json", "other.json"),
    ("diff", __file__, "vllm@0.33.0:no_such.json"),
    ("diff", __file__, "--draft", "no_such"),
]


def test_a_missing_file_is_refused_at_once() -> None:
    run = subprocess.run([sys.executable, "-c", CODE.format(WORDS)], capture_output=True, text=True)
    assert run.stdout == "2 []\n" * len(WORDS)
    for line in run.stderr.splitlines():
        assert "no_such" in line
        assert "cannot be read (No such file or directory); pass a config.json on this machine, because" in line
