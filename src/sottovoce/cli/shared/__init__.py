"""What several verbs share: consoles, options, progress, run folders."""
