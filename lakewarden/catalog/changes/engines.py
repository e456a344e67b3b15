"""The engines of namespaces: one for each, active unless it was disabled. Nothing but these calls enables or disables one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import datetime

from lakewarden.base.clock import behind
from lakewarden.base.scope import TableName
from lakewarden.catalog.model import Catalog, Namespace
from lakewarden.errors import FailedPrecondition, InvalidArgument, NotFound

DISABLED = "engine disabled"
"""Why a table is left out of an operation over all tables."""


def engine_id(namespace: Namespace) -> str:
    """Returns the id of a namespace's engine, which lasts as long as the namespace; no call takes it."""
    made = hashlib.sha256(f"{namespace.name}\t{namespace.created_at.isoformat()}".encode())
    return f"eng_{made.hexdigest()[:16]}"


def engine_changed_at(namespace: Namespace) -> datetime:
    """Returns when the engine was last enabled or disabled; else, when the namespace was created."""
    return namespace.engine.updated_at or namespace.created_at


def set_engine(catalog: Catalog, name: str, now: datetime, *, active: bool, settings: str | None = None) -> Catalog:
    """Enables or disables the engine of a namespace. With `settings`, the text of a JSON object, replaces those.

    Raises:
        NotFound: the namespace does not exist.
        InvalidArgument: the settings are not a JSON object.
    """
    namespace = namespace_of(catalog, name)
    before = namespace.engine
    after = replace(before, active=active, settings=before.settings if settings is None else check_settings(settings))
    if after == before:
        return catalog
    after = replace(after, updated_at=behind(engine_changed_at(namespace), now))
    return replace(catalog, namespaces={**catalog.namespaces, name: replace(namespace, engine=after)})


def namespace_of(catalog: Catalog, name: str) -> Namespace:
    """Raises NotFound: the namespace does not exist."""
    if name not in catalog.namespaces:
        raise NotFound(f"there is no namespace {name!r}; there are {', '.join(catalog.namespaces) or 'none'}")
    return catalog.namespaces[name]


def check_settings(text: str) -> str:
    """Returns the settings as they were given: what is not known today may be known to a later release.

    Raises:
        InvalidArgument: they are not the text of a JSON object.
    """
    try:
        read = json.loads(text)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise InvalidArgument(f"the settings of an engine are the text of a JSON object, such as '{{}}'; {text[:80]!r} is not")
    return text


def is_active(catalog: Catalog, table: TableName) -> bool:
    return table.namespace not in catalog.disabled


def require_active(catalog: Catalog, namespace: str) -> None:
    """Raises FailedPrecondition: the engine of the namespace is disabled."""
    if namespace in catalog.disabled:
        raise FailedPrecondition(
            f"the engine of namespace {namespace!r} is disabled: its tables take no reads, writes and jobs until"
            f' ENABLE ENGINE "{namespace}"'
        )
