"""Who runs a statement, and where unqualified names are looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from lakewarden.errors import InvalidArgument
from lakewarden.scope import TableName
from lakewarden.sql.statements import Ref
from lakewarden.storage.paths import check_user

Role = Literal["anonymous", "user", "service", "dba", "system"]

_ALIASES = {"admin": "dba", "developer": "service", "analyst": "service", "viewer": "user", "readonly": "user"}


@dataclass(frozen=True)
class Session:
    """A user in a role. The user's own scope is all that it sees of USER tables, whatever the role."""

    user: str
    role: Role
    namespace: str | None = None

    @classmethod
    def of(cls, user: str, role: str) -> Session:
        """Raises:
        InvalidArgument: an impossible user id, or no such role.
        """
        return cls(check_user(user), role_of(role))

    def named(self, ref: Ref) -> TableName:
        """The full name that is meant.

        Raises:
            InvalidArgument: no namespace, neither in the name nor in use.
        """
        namespace = ref.namespace or self.namespace
        if namespace is None:
            raise InvalidArgument(f"{ref} has no namespace: write namespace.{ref}, or USE one first")
        return TableName(namespace, ref.name)


def role_of(text: str) -> Role:
    """Raises:
    InvalidArgument: no such role.
    """
    role = _ALIASES.get(text.strip().lower(), text.strip().lower())
    if role not in get_args(Role):
        raise InvalidArgument(f"role {text!r} is none; the roles are {', '.join(get_args(Role))}")
    return cast("Role", role)
