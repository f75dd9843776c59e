"""Files of a run: written whole or not at all, and what may be shared apart from the rest."""
