"""What every painter must agree on: limits, shared scales of colour, ticks, roles, ink and finished texts."""
