"""Federated counts: the client's cache, the server's rounds, and the noisy release."""
