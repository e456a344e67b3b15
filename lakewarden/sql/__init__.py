"""SQL: a text becomes statements (`parse.py`), each is bound once (`bind.py`) then done. A family is one file (`statements/`).

What several writes share is in `writing/`; queries (`queries/`) run on the engine of the process or in its workers
(`query_engine/`). Imports ingest and below. Begin with `statement.py`, then a small family, `statements/temporary_tables.py`.
"""
