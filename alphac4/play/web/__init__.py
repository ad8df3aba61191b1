"""Playing in the browser: a small server, and a page in plain modules."""
