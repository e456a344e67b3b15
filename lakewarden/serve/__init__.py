"""A warehouse over a network: who a request is from, and one package for each protocol."""
