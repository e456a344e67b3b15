"""What earlier runs found, outside of git: a mutation is not tried again while it, its module and its tests stay the same."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Cache:
    """By digest, what the trial said of a mutation that was as the list says. Others are tried anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found = msgspec.json.decode(path.read_bytes(), type=dict[str, str]) if path.exists() else {}

    def __contains__(self, digest: str) -> bool:
        return digest in self._found

    def add(self, digest: str, said: str) -> None:
        """Kept at once: a run that is stopped has not been for nothing."""
        self._found[digest] = said
        self._path.parent.mkdir(exist_ok=True)
        beside = self._path.with_suffix(".new")
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(self._found), indent=1))
        beside.replace(self._path)
