"""What an operation is asked for, as a call says it and a job keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.operations.job import Job


@dataclass(frozen=True)
class Asked:
    """What an operation was asked to work on: tables by name (all where none is named), for every user or for one."""

    tables: tuple[str, ...] = ()
    user: str | None = None

    @property
    def parameters(self) -> dict[str, str]:
        """As a job keeps it."""
        return {"tables": ",".join(self.tables)} | ({} if self.user is None else {"user": self.user})

    @classmethod
    def of(cls, job: Job) -> Asked:
        return cls(tuple(name for name in job.parameters.get("tables", "").split(",") if name), job.parameters.get("user"))
