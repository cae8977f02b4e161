"""The launchers, one per file, which run jobs in worker processes or on a Ray cluster."""
