"""One run: its settings and plan, the training, its tests, and the ledger of finished runs."""
