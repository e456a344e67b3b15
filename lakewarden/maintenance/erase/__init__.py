"""Erase: removes all data of a user, and searches for remains. Its options."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.maintenance.options import OfUser, option


@dataclass(frozen=True)
class EraseOptions(OfUser):
    """What an erasure takes."""

    deep: bool = option(False, "Read every object under every storage to search for remains.")
    even_if_unknown: bool = option(False, "Continue although nothing is known of the user: data may be left anyway.")


OPTIONS = EraseOptions
