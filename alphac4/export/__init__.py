"""Networks in forms that run without this package."""
