"""Results of runs as tables for the terminal and one self-contained HTML page."""
