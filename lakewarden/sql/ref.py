"""Names of tables as a text has them."""

from __future__ import annotations

import msgspec


class Ref(msgspec.Struct, frozen=True):
    """A table or view as written; without a namespace, it is in the session's."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return self.name if self.namespace is None else f"{self.namespace}.{self.name}"


Pairs = tuple[tuple[str, str], ...]
"""Keys and values in the order of the text; a key may occur twice, which the options' reader refuses."""

PartitionSpec = tuple[tuple[str, str | None], ...]
"""`dt = 'x', hr = 3` as written: columns and values, None for NULL."""
