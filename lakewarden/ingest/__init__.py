"""Rows from outside: files (`load/`), uploaded objects (`pipelines/`), Kafka both ways (`topics/`).

Imports maintenance and below. Begin with `load/run.py` and `objects/run.py`.
"""
