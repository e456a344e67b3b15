"""Flush: moves pending rows from the log into the scopes' Delta tables. Begin with `procedure.py`."""
