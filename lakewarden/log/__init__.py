"""The write log: rows are durable here before they are in a Delta table.

`table_log.py` is its interface, `objects/` the one implementation. Imports catalog and below. Begin with `table_log.py` and
docs/log.md.
"""
