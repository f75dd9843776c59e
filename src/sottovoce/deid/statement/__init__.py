"""What a release costs: counts of what was replaced, and the statement derived from them."""
