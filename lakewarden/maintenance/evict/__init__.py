"""Evict: removes expired rows of STREAM tables from the log. Its options."""

from lakewarden.maintenance.options import OfUser

OPTIONS = OfUser
