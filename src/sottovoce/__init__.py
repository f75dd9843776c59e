"""Private language understanding, in an undertone: release, train, personalise, and know the cost."""

__version__ = "0.1.0"
