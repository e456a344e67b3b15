"""All that is used of Dagster beyond what it exports: the one place to look at when a new release moves something.

Each module names the private parts of one subject, so that who needs definitions does not load SQLAlchemy. No other module
imports `dagster._…`; `tests/dagster/test_internals.py` says what stops working without each name, and holds both rules.
"""
