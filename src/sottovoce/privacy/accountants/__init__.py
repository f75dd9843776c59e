"""Accountants: from privacy losses to epsilon, one method per file."""
