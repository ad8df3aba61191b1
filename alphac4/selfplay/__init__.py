"""Self-play: games of the network against itself, and the training samples from them."""
