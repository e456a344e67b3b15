"""The fleet: how all tables of a warehouse are, what the last week did, and what the next work would cost.

`run` makes the one value (`value.Fleet`) that the page, `status --all`, the metrics and Dagster show; `booking` keeps a day.
"""
