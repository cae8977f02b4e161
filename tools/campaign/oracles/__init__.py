"""The expected results, from the papers' formulas, in float64 or better; nothing here imports posenc or torch."""
