"""`sottovoce epsilon`."""
