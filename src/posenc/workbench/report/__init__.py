"""Results of runs as tables for the terminal and as one self-contained HTML page."""
