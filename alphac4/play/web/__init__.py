"""Games in the browser: a small server, and a page of plain modules."""
