"""The relations of the namespace `system`: read-only, as of the time of the query (kalamdb.md 3.1, 3.2).

The gate lets only dba and system read them. They contain no secrets: they show that a hash, an identity or a credential
exists, and never its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakewarden.errors import NotFound
from lakewarden.sql.results import listing
from lakewarden.sql.system.activity import ACTIVITY
from lakewarden.sql.system.listings import LISTINGS, SystemListing

if TYPE_CHECKING:
    from lakewarden.sql.context import Context

RELATIONS: dict[str, SystemListing] = LISTINGS | ACTIVITY


def system_relation(context: Context, name: str) -> pa.Table:
    """The rows of `system.<name>`, for a session that may read them; raises as `relation_named`."""
    found = relation_named(name)
    return listing(found.columns, list(found.rows(context))).table


def relation_named(name: str) -> SystemListing:
    """Raises:
    NotFound: the relation does not exist.
    """
    found = RELATIONS.get(name.lower())
    if found is None:
        raise NotFound(f"there is no relation system.{name}; there are {', '.join(sorted(RELATIONS))}")
    return found
