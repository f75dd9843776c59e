"""The paper's Transformer language model, and scoring of whole lists in one pass (needs torch)."""
