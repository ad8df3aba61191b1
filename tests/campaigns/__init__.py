"""Attacks that stay: each is one command, tiny in the tests and long before a release; see docs/reliability.md."""
