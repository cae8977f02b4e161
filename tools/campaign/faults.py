"""Faults planted on purpose."""

from typing import Any

FAULTS: dict[str, Any] = {}
