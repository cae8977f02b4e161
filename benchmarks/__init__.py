"""Speed, memory and accuracy beside every peer that is installed, in one process: ``python -m benchmarks``."""

import os

# Read when torch is loaded: the profiler that counts memory otherwise reports every start and stop.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
