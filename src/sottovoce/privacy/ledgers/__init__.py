"""The parts of a ledger: hash-chained records, crash-safe files, and merging."""
