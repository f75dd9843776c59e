"""Releasing corpora: files, folders, tables, Ray datasets, and the manifest beside them."""
