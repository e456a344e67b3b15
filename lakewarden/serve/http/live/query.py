"""The parameters of a subscription: the query, and where to go on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from lakewarden.errors import InvalidArgument

PARAMETERS = ("sql", "from_seq", "namespace")
_SEQ = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True)
class LiveRequest:
    sql: str
    from_seq: int | None = None
    namespace: str | None = None


def live_request(connection: HTTPConnection) -> LiveRequest:
    """The parameters of a request. `Last-Event-ID` is newer than `from_seq`: it comes with the same address again.

    Raises:
        InvalidArgument: `sql` is missing, a parameter is unknown or given twice, or a place is no number.
    """
    given = connection.query_params.multi_items()
    names = [name for name, _ in given]
    for name in names:
        if name not in PARAMETERS:
            raise InvalidArgument(f"there is no parameter {name!r}; a subscription takes {', '.join(PARAMETERS)}")
        if names.count(name) > 1:
            raise InvalidArgument(f"the parameter {name!r} is given {names.count(name)} times")
    found = dict(given)
    if "sql" not in found:
        raise InvalidArgument("the parameter 'sql' is missing: the query to subscribe to")
    place = connection.headers.get("last-event-id") or found.get("from_seq")
    return LiveRequest(found["sql"], None if place is None else _seq(place), found.get("namespace"))


def _seq(text: str) -> int:
    if not _SEQ.fullmatch(text):
        raise InvalidArgument(f"{text[:40]!r} is not a place to go on after: from_seq and Last-Event-ID are whole numbers")
    return int(text)
