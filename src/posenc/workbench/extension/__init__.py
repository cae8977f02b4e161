"""Measures how far past its trained length a checkpoint stays good, with each scaling method."""
