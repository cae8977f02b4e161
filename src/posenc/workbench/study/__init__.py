"""Plans, runs and the ledger: how a study is laid out, carried out, kept and resumed."""
