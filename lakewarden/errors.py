"""All errors that Lakewarden raises: a code for programs, a sentence for people, and whether a retry may help.

The codes are part of the public interface (docs/reference/errors.md). The type decides about a retry:
a `Transient` error may go away by itself, a `Terminal` one will not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple


class LakewardenError(Exception):
    """Root of every error that Lakewarden raises on purpose."""

    code: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Terminal(LakewardenError):
    """A retry cannot succeed."""


class Transient(LakewardenError):
    """A retry may succeed."""


class BadSyntax(Terminal):
    """The text is not a valid statement; the message shows the place."""

    code = "SYNTAX_ERROR"


class InvalidArgument(Terminal):
    """A bad option, value, template, name or default."""

    code = "INVALID_ARGUMENT"


class AlreadyExists(Terminal):
    """The name is taken."""

    code = "ALREADY_EXISTS"


class NotFound(Terminal):
    """The namespace, table, storage, user, job or version does not exist."""

    code = "NOT_FOUND"


class TableNotFound(NotFound):
    """The table does not exist."""


class PermissionDenied(Terminal):
    """The role does not permit it."""

    code = "PERMISSION_DENIED"


class ConstraintViolation(Terminal):
    """A row violates the primary key, NOT NULL, or its column's range or form."""

    code = "CONSTRAINT_VIOLATION"


class DuplicateKey(ConstraintViolation):
    """A row with this primary key is there already, or comes twice."""


class MissingValue(ConstraintViolation):
    """A column that is NOT NULL, or in the primary key, has no value."""


class Reject(NamedTuple):
    """A row of a file that does not fit its table. `line` counts from 1, a header included; in a Parquet file it is the row."""

    file: str
    line: int
    reason: str


class RowsRejected(ConstraintViolation):
    """Rows of files do not fit the table, and nothing was loaded; `rejects` names the first ones."""

    def __init__(self, message: str, rejected: int, rejects: tuple[Reject, ...]) -> None:
        super().__init__(message)
        self.rejected = rejected
        self.rejects = rejects


class InUse(Terminal):
    """Something still depends on the object to be removed."""

    code = "CONFLICT"


class Ended(Terminal):
    """The subscription was ended, or its rows were changed by a restore; a new subscription works."""

    code = "CONFLICT"


class FencedPublisher(Ended):
    """Another publisher of the topic was started since: only the last one goes on."""


class Canceled(Terminal):
    """A query was ended by request, or because its client went away."""

    code = "CONFLICT"


class Moved(Terminal):
    """The data that a plan rests on has changed since; a new plan works."""

    code = "CONFLICT"


class FailedCheck(Terminal):
    """The scope failed a check of its data, and no later check has passed."""

    code = "CONFLICT"


class Conflict(Transient):
    """A race was lost: nothing was changed, and a retry may win."""

    code = "CONFLICT"


class SchemaChanged(Transient):
    """The table's columns were changed since its rows were read or made: nothing was written. It works with the newest ones."""

    code = "CONFLICT"


class LostPlace(Transient):
    """Another stream took over the place of a table's one streaming writer: nothing was written. It works when that one ended."""

    code = "CONFLICT"


class BeingErased(Transient):
    """Some users are being erased: until that is finished, no rows of theirs are accepted."""

    code = "CONFLICT"

    def __init__(self, users: frozenset[str]) -> None:
        named = ", ".join(repr(user) for user in sorted(users)[:5]) + (", …" if len(users) > 5 else "")
        super().__init__(
            f"user {named} is being erased, or was while this was written: their rows are not kept, other users' rows in the same"
            " call may be; write again when the erasure is finished"
        )
        self.users = users

    def __reduce__(self) -> tuple[type[BeingErased], tuple[frozenset[str]]]:
        return BeingErased, (self.users,)


class FailedPrecondition(Terminal):
    """Something has to be done first: the namespace's engine is disabled, the table has no schema yet, or a writer has to be
    resumed behind a repair."""

    code = "FAILED_PRECONDITION"


class Unsupported(Terminal):
    """The operation is known, but not available here."""

    code = "UNSUPPORTED"


class StorageUnavailable(Transient):
    """The store cannot be reached, or refuses the request for now."""

    code = "STORAGE_UNAVAILABLE"


class Unreachable(StorageUnavailable):
    """Nothing answers at the store's address."""


class NotDurable(StorageUnavailable):
    """The disk reported an error during a sync: what was written is visible now, but may be lost later.

    Neither reading it nor syncing again proves anything: the system forgets what it could not write.
    """


class StorageRefused(Terminal):
    """The store refused the request: not writable, full, forbidden."""

    code = "STORAGE_UNAVAILABLE"


class AccessRefused(StorageRefused):
    """The store does not accept the credentials, or they do not permit the request; others may."""


class UnconditionalStore(StorageRefused):
    """The store creates an object again that is there: two writers would overwrite each other's rows."""


class NoBucket(StorageRefused):
    """The bucket does not exist, and so nothing in it does."""


class Corrupt(Terminal):
    """Stored data cannot be read, or contradicts itself."""

    code = "CORRUPT"


class Internal(Terminal):
    """A defect in Lakewarden."""

    code = "INTERNAL"


class ScopesFailed(LakewardenError):
    """Some scopes of an operation failed; the others were completed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # the code of the first fault, known only at run time

    @classmethod
    def check(cls, failed: Sequence[tuple[object, str, str]], total: int, what: str) -> None:
        """Raises ScopesFailed: there are some, each as who, code and message; it has the code of the first."""
        if failed:
            who, code, message = failed[0]
            raise cls(code, f"{len(failed)} of {total} {what}; the first, {who}: {message}")
