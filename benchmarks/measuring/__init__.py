"""How something is measured, at which size, and how it gets onto a page."""
