"""Launchers of runs, one file each: in this process, in worker processes, on a Ray cluster."""
