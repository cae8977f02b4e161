"""Paints views with matplotlib: every painter takes ``ax=`` and returns it."""
