"""What Python users call; `alphac4` itself offers these names."""
