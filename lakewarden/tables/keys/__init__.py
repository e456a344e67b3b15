"""Primary keys beyond what fits one table of Arrow (`delta.reading.keys`): those in the log, of live rows, and on disk."""
