"""Commands that carry rows and files into a warehouse, and changes out of it."""
