"""Fast implementations. Each of them equals a specification, forward and backward."""
