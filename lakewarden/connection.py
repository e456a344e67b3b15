"""Where something lies, and how the store there is reached. Values only: they stand in the catalog and cross to tasks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Connection:
    """How an object store is reached, as far as the environment is not to say it. Holds no secret, only where one is.

    `endpoint` and `region` are empty, and `path_style` is None, where the environment or the platform decides.
    """

    endpoint: str = ""
    """`http(s)://host[:port]`."""
    region: str = ""
    path_style: bool | None = None
    """Whether the bucket stands in the path of a request and not in its host."""
    credentials: str = ""
    """A reference: `env:TENANT_A` means the variables TENANT_A_ACCESS_KEY_ID and so on; empty, the platform's own chain."""


@dataclass(frozen=True)
class Location:
    """A place: its URI, as people write it, and its connection. A plain `Location(uri)` is reached as the environment says."""

    uri: str
    connection: Connection = field(default_factory=Connection)

    def below(self, relative: str) -> Location:
        """The place below this one. `relative` is in `/`-separated parts; empty means this one itself."""
        return replace(self, uri=f"{self.uri.rstrip('/')}/{relative}") if relative else self

    def __str__(self) -> str:
        return self.uri


@dataclass(frozen=True)
class StorageRoot:
    """A storage's own place. `identity` is the random id in its marker there (`storage.owner`), empty where none was made."""

    storage_id: str
    location: Location
    identity: str = ""
