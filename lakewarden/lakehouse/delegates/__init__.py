"""The methods of `Lakehouse`, each one line over the noun that does it."""
