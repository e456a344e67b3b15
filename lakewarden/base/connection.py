"""Where data is stored, and how that store is reached. Values only: they are kept in the catalog and sent to tasks."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Connection:
    """How an object store is reached, where the environment should not decide. Contains no secret, only a reference to one.

    When `endpoint` or `region` is empty, or `path_style` is None, the environment or the platform decides.
    """

    endpoint: str = ""
    """`http(s)://host[:port]`."""
    region: str = ""
    path_style: bool | None = None
    """Whether the bucket is in the path of a request, not in its host."""
    credentials: str = ""
    """A reference: `env:TENANT_A` means the variables TENANT_A_ACCESS_KEY_ID and so on. Empty means the platform's own chain."""


@dataclass(frozen=True)
class Location:
    """A place: its URI, as people write it, and its connection. For `Location(uri)` the environment decides the latter."""

    uri: str
    connection: Connection = field(default_factory=Connection)

    def below(self, relative: str) -> Location:
        """Returns the place below this one. `relative` is `/`-separated; empty means this place itself."""
        return Location(f"{self.uri.rstrip('/')}/{relative}", self.connection) if relative else self

    def __str__(self) -> str:
        return self.uri


@dataclass(frozen=True)
class StorageRoot:
    """A storage's own place. `identity` is the random id in its marker (`storage.owner`), empty when it has none."""

    storage_id: str
    location: Location
    identity: str = ""
