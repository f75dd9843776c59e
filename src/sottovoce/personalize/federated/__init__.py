"""Federated counts: the client's cache, the server's rounds, and the release with noise."""
