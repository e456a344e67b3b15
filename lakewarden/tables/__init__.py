"""The data plane: rows in (`rows/`, `intake.py`, `client/`), reads, direct writes, changes, subscriptions.

It writes and reads; it never decides when a table is maintained. Imports delta and below. Begin with `warehouse.py`, where the
rooms below are wired together, and `client/client.py`.
"""
