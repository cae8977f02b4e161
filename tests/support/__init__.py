"""Code that tests share: cases, mutants, oracles, small models, studies and screenshots of pages."""
