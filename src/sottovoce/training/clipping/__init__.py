"""Clipped gradients: exact norms in one backward pass, clipping styles, and sums."""
