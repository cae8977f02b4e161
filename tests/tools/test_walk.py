"""A worker of the walk over all model types ends with a type that takes too long, and the walk goes on."""

import pytest
from tools.walk import Worker


@pytest.mark.slow
def test_a_type_that_takes_too_long_is_left_and_the_next_is_taken() -> None:
    worker = Worker(limit=0.2)  # of the processor: less than it takes to import the model's code
    try:
        assert worker.ask("llama") == {"type": "llama", "class": "cannot be built", "why": "takes more than 0.2 s"}
        worker.limit = 60.0
        assert worker.ask("llama")["class"] == "read and equal"
    finally:
        worker.end()
