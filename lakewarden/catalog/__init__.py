"""What exists, and what is known of it.

Namespaces, tables and users are values (`model.py`); their changes are pure functions (`changes/`, `evolution.py`); `store.py`
keeps each version as an object. Beside it: what is known of scopes, jobs and erasures (`state/`), who may do what (`access.py`,
`session_gate.py`), one holder at a time (`locks.py`), which operations there are (`operations.py`) and report (`report.py`).
Imports storage and base. Begin with `model.py`.
"""
