"""Roles of sessions, in five levels of trust."""

from __future__ import annotations

from typing import Literal, get_args

from lakewarden.errors import InvalidArgument

Role = Literal["anonymous", "user", "service", "dba", "system"]

ROLES: tuple[Role, ...] = get_args(Role)
"""From the least trusted to the most."""

ALIASES: dict[str, Role] = {
    "admin": "dba",
    "developer": "service",
    "analyst": "service",
    "viewer": "user",
    "readonly": "user",
}


def parse_role(text: str) -> Role:
    """Reads a role: `Admin` → `dba`.

    Raises:
        InvalidArgument: the role does not exist.
    """
    word = text.strip().lower()
    found = ALIASES.get(word) or next((role for role in ROLES if role == word), None)
    if found is None:
        raise InvalidArgument(f"unknown role {text!r}; the roles are {', '.join(ROLES)}, also written {', '.join(ALIASES)}")
    return found
