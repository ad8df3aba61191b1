"""Runs in folders: exact resumption, reports, curves, costs and evaluation against exact play."""
