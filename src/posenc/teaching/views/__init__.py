"""Views that answer questions about encodings. Each file answers one question."""
