"""Teaching material on positional encodings: the interactive lab, the lessons, and the claims with their tests."""
