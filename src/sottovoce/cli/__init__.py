"""The command line: one file a verb, and what several verbs share."""
