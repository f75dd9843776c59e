"""N-gram language models: the usual first pass, and a background that trains in seconds."""
