"""Under the ledger: hash-chained records, files that survive a crash, and merging."""
