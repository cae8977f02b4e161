"""Fast implementations. Each gives the same results as its specification, forward and backward."""
