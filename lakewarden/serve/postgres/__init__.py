"""PostgreSQL's wire protocol (3.0) in front of a warehouse, for its stock clients."""
