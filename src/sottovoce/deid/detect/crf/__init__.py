"""The CRF tagger: features, training, decoding without CRFsuite, and its threshold."""
