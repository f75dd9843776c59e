"""The paper's Transformer language model, and one-pass scoring of N-best lists (needs torch)."""
