"""Playing against the networks, and seeing what they think."""
