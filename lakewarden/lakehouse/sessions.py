"""SQL over a warehouse, for one user in one role at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.lakehouse.parts import Parts

if TYPE_CHECKING:
    from lakewarden.operations.reading.scope import Freshness
    from lakewarden.sql.results import Result
    from lakewarden.sql.session import SqlSession
    from lakewarden.sql.uploads import File


@dataclass(frozen=True)
class SqlSessions:
    """`lake.sessions`."""

    parts: Parts

    def sql(
        self,
        text: str,
        *,
        user: str = "root",
        role: str = "system",
        freshness: Freshness = "strong",
        wait: bool = True,
        files: Mapping[str, File] | None = None,
        each: Callable[[Result], None] | None = None,
    ) -> list[Result]:
        """Runs the statements of a text, one after the other. Syntax and rights of all of it are checked before any runs.

        Args:
            user: whose rows it sees and writes in USER tables.
            role: what it may do: anonymous, user, service, dba or system.
            wait: runs the jobs that a statement starts before the next one; else they stay queued for `run_jobs`.
            files: what comes along, by the name that `FILE('name')` in VALUES calls it: bytes, a `Path`, or an `Upload`.
            each: is given every result as soon as it is there.

        Raises:
            BadSyntax, PermissionDenied, Unsupported: nothing was done, if it can be told from the text.
            LakewardenError: a statement failed; those before it are done.
        """
        return self.open(user=user, role=role).sql(text, freshness=freshness, wait=wait, files=files, each=each)

    def open(self, *, user: str, role: str = "user") -> SqlSession:
        """A session for one user in one role, through the gate. Its calls see and do what that role may.

        Raises:
            InvalidArgument: an impossible user, or no such role.
        """
        from lakewarden.sql.session import open_session  # sqlglot: a third of a second that other commands need not spend

        return open_session(self.parts.services, user, role)
