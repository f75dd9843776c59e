"""Training of a joint model: settings, recipes, data, model construction, and the loop."""
