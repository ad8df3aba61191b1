"""Games against networks, and their analysis."""
