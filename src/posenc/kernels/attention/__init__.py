"""Attention by blocks of query rows: extra memory grows with the length and not with its square."""
