"""From losses to epsilon: one way of accounting a file."""
