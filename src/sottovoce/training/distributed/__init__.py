"""Distributed training: agreement between ranks, and all-reduce."""
