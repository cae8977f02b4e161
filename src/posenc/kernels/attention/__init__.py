"""Attention in blocks of query rows, with extra memory that grows linearly with the sequence length."""
