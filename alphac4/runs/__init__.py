"""Runs in folders: exact resumption, reports, curves, costs and evaluation by exact play."""
