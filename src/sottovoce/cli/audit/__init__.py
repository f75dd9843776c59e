"""`sottovoce audit`."""
