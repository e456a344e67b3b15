"""PostgreSQL's messages, types and values as bytes, and its error codes."""
