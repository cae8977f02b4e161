"""One run: settings, plan, training and tests; and the ledger of finished runs."""
