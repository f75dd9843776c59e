"""`sottovoce deid`."""
