"""Add a model family: measure the model, write the family's entry, and run the tests that read the family.

python -m tools.add_family seed_oss    # writes an entry with which `read` agrees with the measurement
python -m tools.add_family llama       # checks an entry that is already in the table
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from posenc.integrations.huggingface import families

TABLE = Path(families.__file__).with_name("families.toml")


def suggested(name: str) -> list[str]:
    """Return lines for families.toml with which ``read`` agrees with the measurement.

    Raises:
        SystemExit: no lines fit; the message says what was measured.
    """
    from tools.walk_type import walked

    found = walked(name)
    if isinstance(lines := found.get("family"), list):
        return [str(line) for line in lines]
    said = {key: found[key] for key in ("class", "why", "measured") if found.get(key)}
    raise SystemExit(f"{name}: no known combination of facts fits the measurement. {json.dumps(said, indent=1)}")


def inserted(text: str, name: str, lines: list[str]) -> str:
    """Return the table with an entry inserted in alphabetical order."""
    rows = text.splitlines()
    starts = [
        i
        for i, row in enumerate(rows)
        if row and row[0] not in "# ]" and row.split("=")[0].split(".")[0].strip() > name
    ]
    at = starts[0] if starts else len(rows)
    return "\n".join([*rows[:at], *lines, *rows[at:]]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.add_family", description=__doc__.splitlines()[0])
    parser.add_argument("name", help="a model_type of transformers")
    given = parser.parse_args()
    before = TABLE.read_text("utf-8")
    lines = [] if given.name in families.FAMILIES else suggested(given.name)
    TABLE.write_text(inserted(before, given.name, lines), encoding="utf-8")
    print("\n".join(lines))
    tests = ["test_every_family.py", "test_layer_types.py", "test_strict_reading.py", "test_families.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *(f"tests/integrations/{test}" for test in tests)]
    chosen = f"{given.name} or schema or sorted"
    status = subprocess.run([*command, "-m", "slow or not slow", "-k", chosen], check=False).returncode
    if status:
        TABLE.write_text(before, encoding="utf-8")
        print(f"{given.name}: the tests above failed; {TABLE.name} is unchanged")
    return status


if __name__ == "__main__":
    sys.exit(main())
