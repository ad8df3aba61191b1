"""Features beside the core. Each package here registers itself, and can be deleted; the core imports none of them."""
