"""The relations of the namespace `system`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakewarden.sql.later import later

if TYPE_CHECKING:
    from lakewarden.sql.context import Context


def system_relation(_context: Context, name: str) -> pa.Table:
    """The rows of `system.<name>`, for a session that may read them.

    Raises:
        Unsupported: it is not there yet.
    """
    raise later(f"system.{name}")
