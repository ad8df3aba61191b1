"""Interface for Python users; `alphac4` exports its names."""
