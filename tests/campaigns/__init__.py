"""Attacks that stay: each is one command, short in the tests and long before a release; see docs/reliability.md."""
