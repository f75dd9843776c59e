"""N-best lists, and the formats of many recognisers."""
