"""Delta's change data feed on a scope's table: whether it has one, and the properties by which its commits say so.

The table's option decides, and where that says nothing the table's own property, which other writers may have set.
"""

from __future__ import annotations

from lakewarden.catalog.target import ScopeTarget
from lakewarden.delta.commit_log.actions import CHANGE_DATA_FEED
from lakewarden.delta.scope import PROPERTY, owner_of, owner_to_set
from lakewarden.delta.table import ScopeTable


def has_feed(table: ScopeTable | None, target: ScopeTarget) -> bool:
    """Whether readers of the feed are to find what the next commit changes."""
    if target.change_data_feed is not None:
        return target.change_data_feed
    return table is not None and table.head.has_change_data_feed and not _is_of_another(table, target)


def _is_of_another(table: ScopeTable, target: ScopeTarget) -> bool:
    """Whether it is what a dropped table left at this place."""
    owner, said = owner_of(target), table.property(PROPERTY)
    return bool(owner and said and said != owner)


def properties_to_set(table: ScopeTable, target: ScopeTarget) -> dict[str, str]:
    """Returns what the table's next commit has to say of it: whose it is, and whether it has a feed.

    Raises:
        Corrupt: its commits say that it belongs to another scope.
    """
    owner = owner_to_set(table, target)
    return (dict([owner]) if owner else {}) | feed_to_set(table, target)


def feed_to_set(table: ScopeTable, target: ScopeTarget) -> dict[str, str]:
    """Returns the property for the table's next commit, where it has to change."""
    wanted = has_feed(table, target)
    if wanted == table.head.has_change_data_feed:
        return {}
    return {CHANGE_DATA_FEED: str(wanted).lower()}
