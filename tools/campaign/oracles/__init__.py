"""The right answers, from the papers' formulas, in float64 or more; nothing here imports posenc or torch."""
