"""Code that several verbs use: console output, options, progress bars, ledgers, canaries."""
