"""Languages other than English: lists, patterns and detectors by language, and the check of both.

The lists `de.tsv` and `es.tsv` are those of Faker 40.54.0 (MIT licence).
"""
