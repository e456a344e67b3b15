"""Small values that every room shares: time and randomness, settings, scopes, JSON; and child processes (`workers.py`).

Imports no other room but `lakewarden.errors`. Begin with `scope.py` and `settings.py`.
"""

VERSION = "0.1.0"
"""The release, as commits name it."""
