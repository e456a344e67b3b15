"""The methods of `Lakehouse`: one-line delegates to its nouns."""
