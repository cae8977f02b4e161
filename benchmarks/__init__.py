"""Speed, memory and accuracy of posenc and of every installed peer, in one process: ``python -m benchmarks``."""

import os

# Set before torch is imported. Without this variable, the memory profiler logs every start and stop.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
