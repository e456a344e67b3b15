"""The control plane: a package or a module for each operation, with its options and its procedure, and what drives them.

`maintain` has what those on Delta tables have in common, `planning/` says which scopes are due, `plans/` keeps plans,
`operator.py` plans, runs, applies and queues. Imports tables and below. Begin with `procedure.py`.
"""
