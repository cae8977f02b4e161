"""The code that tests share, such as cases, mutants, oracles, small models, studies and screenshots."""
