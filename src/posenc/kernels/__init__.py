"""Fast implementations, each of which equals a specification, forward and backward."""
