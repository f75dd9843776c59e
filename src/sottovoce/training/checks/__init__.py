"""Checks during training: the neighbour check, and control of everything that is released."""
