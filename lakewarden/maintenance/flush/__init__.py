"""Flush: moves pending rows from the log into the scopes' Delta tables. Its options."""

from lakewarden.maintenance.options import OfUser

OPTIONS = OfUser
