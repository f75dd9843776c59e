"""Private training inside the loops of other packages: Hugging Face Trainer and Lightning."""
