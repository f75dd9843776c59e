"""Attacks on a release: what a reader with public knowledge finds out."""
