"""Launchers of runs, one per file: in this process, in worker processes, on a Ray cluster."""
