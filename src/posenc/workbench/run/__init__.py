"""The settings, the plan, the training and the tests of one run, and the ledger of finished runs."""
