"""Views that answer questions about encodings, one file per question."""
