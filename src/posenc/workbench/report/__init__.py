"""Shows results of runs as tables in the terminal and as a self-contained HTML page."""
