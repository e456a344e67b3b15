"""Files of callers, loaded into a table in bulk: found, split into pieces, parsed, checked, and written in one commit."""
