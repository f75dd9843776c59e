"""The command line: one file per verb, and `shared/` for code that several verbs use."""
