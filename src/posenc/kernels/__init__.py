"""The same functions, faster: implementations that must equal a specification, forward and backward."""
