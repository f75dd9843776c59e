"""The linear-chain CRF: its likelihood, and the best sequence of tags."""
