"""Places where others upload objects: listed in order of their keys, with ETags, and read as they were listed."""
