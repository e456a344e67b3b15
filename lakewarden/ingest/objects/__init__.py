"""Takes objects into a pipeline's table, each once."""
