"""Games the network plays against itself, and the samples they leave."""
