"""Fast implementations. Each implementation equals a specification, forward and backward."""
