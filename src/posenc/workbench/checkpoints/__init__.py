"""Real checkpoints, read into the small transformer; one file per format."""
