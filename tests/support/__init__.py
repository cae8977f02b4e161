"""What tests share: cases, mutants, oracles, small models, studies and the pictures of pages."""
