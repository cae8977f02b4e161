"""The lab: a local page where you drag, click and break positions; the library computes every number."""
