"""The lab, a local page where you drag, click and break positions. The library computes every number."""
