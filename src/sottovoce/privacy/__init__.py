"""Guarantees: what mechanisms did, what that costs, and the ledger that keeps it."""
