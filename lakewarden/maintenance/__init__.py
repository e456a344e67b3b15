"""The control plane: a module or a package for each operation, and what chooses, plans, runs and repeats them.

`procedures/` has what each operation does to many scopes, the packages named after them what it does to one; `planning/` says
which are due, `plans/` keeps plans, `execution/` runs them as jobs. Imports tables and below. Begin with
`procedures/procedure.py`.
"""
