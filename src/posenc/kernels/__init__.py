"""The same functions, faster: twins of a specification that must equal it, forward and backward."""
