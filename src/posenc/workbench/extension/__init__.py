"""Measures how far past its trained length a checkpoint works with each scaling method."""
