"""What there is to know of each statement, a row each (`statements.py` has all of them)."""
