"""Strength against exact play: the judge, from which nothing flows back into learning."""
