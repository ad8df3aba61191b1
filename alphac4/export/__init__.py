"""Export of networks to formats that run without this package."""
