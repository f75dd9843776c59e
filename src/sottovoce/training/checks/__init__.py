"""Checks while training: the neighbour check, and who owns what is released."""
