"""The policy/value network and its batched inference."""
