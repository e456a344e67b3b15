"""Rows from outside: files (`load/`), uploaded objects (`pipelines/`, `objects/`), Kafka both ways (`topics/`, `relay/`).

Imports maintenance and below. Begin with `load/run.py` and `objects/run.py`.
"""
