"""Fitting a joint model: settings, recipes, data, the model's parts, and the loop."""
