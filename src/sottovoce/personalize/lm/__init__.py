"""Background language models: n-grams, Transformers, mixtures, vocabularies."""
