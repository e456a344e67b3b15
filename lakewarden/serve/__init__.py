"""A warehouse over a network: who a request is from, and one package for each protocol.

Imports the client and below. Begin with `run.py`, then `http/app.py`.
"""
