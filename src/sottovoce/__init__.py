"""Private language understanding: release, train, audit, personalise, and know what it cost."""

__version__ = "0.1.0"
