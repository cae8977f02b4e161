"""Launchers, one per file: they run jobs in worker processes or on a Ray cluster."""
