"""One scope's Delta table: data files, commits, reads, what is known of it without opening it, its end and its move.

Imports log and below. Begin with `table.py` and `commit_log/`.
"""
