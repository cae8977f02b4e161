"""One file per question about an encoding; each returns a view."""
