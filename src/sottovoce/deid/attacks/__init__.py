"""Attacks on a release: what an attacker with public knowledge can infer."""
