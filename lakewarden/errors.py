"""The one family of errors: a code for programs, a sentence for people, and whether trying again may help.

The codes are those of the public interface (docs/reference/errors.md). What decides a retry is the type:
a `Transient` error may go away by itself, a `Terminal` one will not.
"""

from __future__ import annotations

from typing import ClassVar


class LakewardenError(Exception):
    """Root of every error that Lakewarden raises on purpose."""

    code: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Terminal(LakewardenError):
    """Trying the same again cannot succeed."""


class Transient(LakewardenError):
    """Trying the same again may succeed."""


class BadSyntax(Terminal):
    """The text is no statement of ours; the message shows the place."""

    code = "SYNTAX_ERROR"


class InvalidArgument(Terminal):
    """A bad option, value, template, name or default."""

    code = "INVALID_ARGUMENT"


class AlreadyExists(Terminal):
    """The name is taken."""

    code = "ALREADY_EXISTS"


class NotFound(Terminal):
    """No such namespace, table, storage, user, job or version."""

    code = "NOT_FOUND"


class PermissionDenied(Terminal):
    """The role may not."""

    code = "PERMISSION_DENIED"


class ConstraintViolation(Terminal):
    """A row breaks the primary key, NOT NULL, or its column's range or form."""

    code = "CONSTRAINT_VIOLATION"


class InUse(Terminal):
    """Something still depends on what was to go."""

    code = "CONFLICT"


class Ended(Terminal):
    """A subscription that somebody ended, or whose rows are not so any more; a new one works."""

    code = "CONFLICT"


class Moved(Terminal):
    """A plan rests on what has changed since; a new plan works."""

    code = "CONFLICT"


class Conflict(Transient):
    """A race was lost: nothing was changed, and trying again may win."""

    code = "CONFLICT"


class BeingErased(Transient):
    """All that some users have is being erased: until that is over, nothing of theirs is taken."""

    code = "CONFLICT"

    def __init__(self, users: frozenset[str]) -> None:
        named = ", ".join(repr(user) for user in sorted(users)[:5]) + (", …" if len(users) > 5 else "")
        super().__init__(
            f"user {named} is being erased, or was while this was written: their rows are not kept, those of others in the same"
            " call may be; write again when the erasure is over"
        )
        self.users = users

    def __reduce__(self) -> tuple[type[BeingErased], tuple[frozenset[str]]]:
        return BeingErased, (self.users,)


class Unsupported(Terminal):
    """Known, and not for this."""

    code = "UNSUPPORTED"


class StorageUnavailable(Transient):
    """The store cannot be reached, or refused the request for now."""

    code = "STORAGE_UNAVAILABLE"


class NotDurable(StorageUnavailable):
    """The disk reported an error when it was to make something durable: what was written is seen now, and may be gone later.

    To look whether it is there proves nothing, and to sync again neither: the system forgets what it could not write.
    """


class StorageRefused(Terminal):
    """The store answered and said no: not writable, full, forbidden."""

    code = "STORAGE_UNAVAILABLE"


class NoBucket(StorageRefused):
    """There is no such bucket, and so nothing in it."""


class Corrupt(Terminal):
    """What lies in the store cannot be read, or contradicts itself."""

    code = "CORRUPT"


class Internal(Terminal):
    """A fault of ours."""

    code = "INTERNAL"


class ScopesFailed(LakewardenError):
    """Some scopes of an operation failed; the others are done."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # the code is that of the first fault, known only there
