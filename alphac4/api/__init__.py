"""The interface for Python users; `alphac4` itself offers these names."""
