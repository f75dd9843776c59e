"""Joint intent and slot models: what was said, in words of a schema, trained with a guarantee."""
