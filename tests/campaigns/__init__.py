"""Campaigns of faults: short in the tests, and longer by a command before a release; see docs/reliability.md."""
