"""SQL: a text becomes statements (`parse.py`, `grammar/`), each is bound once (`bind.py`) and then done (`handlers/`).

Queries run on the engine of the process or in its workers (`query_engine/`). Imports ingest and below. Begin with `specs/`,
the table of statements.
"""
