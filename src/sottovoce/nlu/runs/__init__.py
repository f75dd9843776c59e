"""Runs: experiments, searches, saved models and their cards."""
