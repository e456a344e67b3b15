"""Tokens that the operator makes, for any user in any role, without a login."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.catalog.access import OPERATOR, Principal, parse_role
from lakewarden.catalog.state.audit import AuditLog
from lakewarden.serve.keys import SigningKeys
from lakewarden.serve.tokens import Tokens
from lakewarden.storage.paths import check_user
from lakewarden.tables.warehouse import Warehouse


def operator_token(warehouse: Warehouse, user: str, role: str, life: timedelta) -> str:
    """Raises:
    InvalidArgument: the user's name is not valid, the role does not exist, or the life is longer than a day.
    """
    principal = Principal(check_user(user), parse_role(role))
    login = warehouse.new_id()
    made = Tokens(SigningKeys(warehouse.state), warehouse.id, warehouse.clock).issue(principal, login, by_login=False, life=life)
    audit = AuditLog(warehouse.state, warehouse.clock, warehouse.new_id)
    audit.note(OPERATOR, "TOKEN", f"user:{user}", f"role {principal.role}, {life.total_seconds():.0f} s")
    return made
