"""A run in its folder, resumed exactly, with reports, curves, costs and the judge's figures."""
