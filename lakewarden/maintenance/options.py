"""What an operation takes, besides its tables: a frozen dataclass in the `__init__` of its package.

That brings neither Delta nor Arrow, so that a command line can list the options of all operations. An operation without own
options may be a module by itself: its row says what it takes (`catalog.operations`).

The flags of its command, the form in Dagster, what SQL takes by `WITH (…)`, the JSON of its plans and the reference follow from
the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from lakewarden.catalog.kept_settings import TailRule
from lakewarden.catalog.operations import SPECS, Operation

T = TypeVar("T")

OptionValues = Mapping[str, Any]
"""Options by name, as a caller gives them to any operation: `request.new_request` checks their names and types."""


def option(default: T, help: str, *, flag: str = "", form: bool = True) -> T:
    """A field that callers may set.

    Args:
        help: its text, for people.
        flag: on the command line, where it is not the name.
        form: whether Dagster's form of the operation shows it.
    """
    metadata = {"help": help, "flag": flag, "form": form}
    made: T = field(default=default, metadata=metadata)
    return made


@dataclass(frozen=True)
class Options:
    """The options of an operation that takes none."""

    @property
    def values(self) -> dict[str, object]:
        """Those that callers may set, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.metadata}

    @property
    def changed(self) -> dict[str, object]:
        """Those of them that are not as they are by default."""
        return {one.name: value for one in fields(self) if one.metadata and (value := getattr(self, one.name)) != one.default}


@dataclass(frozen=True, kw_only=True)
class OfUser(Options):
    """Of an operation on scopes."""

    user: str | None = option(None, "Only this user's scope.", form=False)


@dataclass(frozen=True, kw_only=True)
class OfScopes(OfUser):
    """Of an operation that knows which scopes are quiet."""

    look: bool = option(False, "Open each scope, also those in which nothing is to do by what the state knows.", form=False)


@dataclass(frozen=True, kw_only=True)
class OfFiles(OfScopes):
    """Of an operation that makes fewer files of a scope's."""

    ratio: float | None = option(
        None,
        "Leave a file that is this many times larger than those to merge with it; 0: none. A schedule takes the table's.",
    )
    scheduled: bool = option(
        False, "As a schedule does it: by the ratio of the table or the warehouse, and a part at a time.", form=False
    )

    def rule(self, tail: TailRule) -> TailRule:
        """The rule, where `tail` is the table's: by that goes what runs by itself. Others take all that fits."""
        ratio = self.ratio if self.ratio is not None else tail.ratio if self.scheduled else 0.0
        return replace(tail, ratio=ratio)


def says_something(value: object) -> bool:
    """Whether a value of an option is one that a caller chose, where a form has the options of all operations."""
    return not (value is None or value is False or value in ((), []))


@cache
def options_type(operation: Operation) -> type[Options]:
    """The options of an operation."""
    spec = SPECS[operation]
    if spec.takes != "own" or not (spec.plannable or spec.queueable):
        return OfUser if spec.takes == "user" else Options
    found: type[Options] = import_module(f"lakewarden.maintenance.{operation}").OPTIONS
    return found


@cache
def option_names(operation: Operation) -> frozenset[str]:
    """The names of those that callers may set."""
    return frozenset(one.name for one in fields(options_type(operation)) if one.metadata)
