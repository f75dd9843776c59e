"""Rescoring of N-best lists by an adapted model, its weights, and word error rates."""
