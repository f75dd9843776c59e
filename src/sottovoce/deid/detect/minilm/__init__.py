"""The detector `accurate`: MiniLM with a small adapter, and how the adapter is trained."""
