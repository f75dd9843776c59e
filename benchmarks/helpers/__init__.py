"""What the benchmarks import; nothing in this folder is run."""
