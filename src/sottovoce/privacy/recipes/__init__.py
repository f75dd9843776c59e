"""Recipes: the claim and the guarantee of a mechanism, before it is run."""

from sottovoce.privacy.recipes.deid import DeidRecipe, Strategy
from sottovoce.privacy.recipes.federate import Cap, FederateRecipe, Kernel, Release
from sottovoce.privacy.recipes.training import (
    Decay,
    Method,
    NoiseShape,
    NoiseSplit,
    TrainingRecipe,
)

__all__ = [
    "Cap",
    "Decay",
    "DeidRecipe",
    "FederateRecipe",
    "Kernel",
    "Method",
    "NoiseShape",
    "NoiseSplit",
    "Release",
    "Strategy",
    "TrainingRecipe",
]
