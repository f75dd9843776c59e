"""Many workers: what ranks agree on, and sums over all of them."""
