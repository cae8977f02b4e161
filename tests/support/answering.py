"""The loop of scripts that ask another program: a line of cases in, a line of answers out.

Scripts run it in that program's environment, so this module imports the standard library alone.
"""

import json
import sys
from collections.abc import Callable
from typing import Any


def answer_lines(answer: Callable[[dict[str, Any]], Any]) -> None:
    """Answer every line of standard input, which is a list of cases."""
    for cases in sys.stdin:
        print(json.dumps([answer(case) for case in json.loads(cases)]), flush=True)
