"""Campaigns that inject faults: short ones in the tests, long ones before a release; see docs/reliability.md."""
