"""Dagster's event log: what runs did, booked as events of the assets they are about (`book`), how events are packed, and which
are removed: those of an erased user, and those that no page needs.
"""
