"""Recipes: the claim and the guarantee of a mechanism, before it is run."""

from sottovoce.privacy.recipes.deid import PAPER_STRATEGIES, DeidRecipe, PaperStrategy, Strategy
from sottovoce.privacy.recipes.federate import Cap, FederateRecipe, Kernel, Release
from sottovoce.privacy.recipes.training import (
    PRIVATE_METHODS,
    Decay,
    Method,
    NoiseShape,
    NoiseSplit,
    PrivateMethod,
    TrainingRecipe,
)

__all__ = [
    "PAPER_STRATEGIES",
    "PRIVATE_METHODS",
    "Cap",
    "Decay",
    "DeidRecipe",
    "FederateRecipe",
    "Kernel",
    "Method",
    "NoiseShape",
    "NoiseSplit",
    "PaperStrategy",
    "PrivateMethod",
    "Release",
    "Strategy",
    "TrainingRecipe",
]
