"""Decisions shared by all painters: limits, colour scales, ticks, roles, ink and finished texts."""
