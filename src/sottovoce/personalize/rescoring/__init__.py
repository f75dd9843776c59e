"""Rescoring of N-best lists with an adapted model, weight tuning, and word error rates."""
