"""Launchers of runs, one file each: in this process, in worker processes, under torchrun, on a Ray cluster."""
