"""Rows from outside: files that a caller has (`load_run`), uploaded objects (`pipelines/`), Kafka both ways (`consume`, `relay`).

Imports maintenance and below. Begin with `load_run` and `pipelines/run`.
"""
