"""Forms of operations: the fields for its options follow from the operation's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field as OptionField
from dataclasses import fields
from typing import Any, TypeVar, cast, get_type_hints

import dagster as dg
from pydantic import Field, create_model

from lakewarden.catalog.operations import Operation
from lakewarden.maintenance.options import OptionValues, options_type

C = TypeVar("C", bound=dg.Config)


def _shown(operation: Operation) -> list[OptionField[Any]]:
    return [one for one in fields(options_type(operation)) if one.metadata.get("form")]


def takes_options(operation: Operation) -> Callable[[type[C]], type[C]]:
    """A class decorator: adds the operation's options to a config, but for those that it asks for by a field of its own; before
    the field that says whether it is only a look.
    """

    def completed(form: type[C]) -> type[C]:
        base: Any = form.__base__
        hints = get_type_hints(options_type(operation))
        own: dict[str, Any] = {
            name: (found.annotation, found) for name, found in form.model_fields.items() if name not in base.model_fields
        }
        added = {one.name: _field(one, hints[one.name]) for one in _shown(operation) if one.name not in own}
        names = list(own)
        first = names[: names.index("dry_run")] if "dry_run" in own else names
        every: dict[str, Any] = {**{name: own[name] for name in first}, **added, **own}
        made: Any = create_model(form.__name__, __base__=base, __doc__=form.__doc__, __module__=form.__module__, **every)
        return cast("type[C]", made)

    return completed


def option_values(form: dg.Config, operation: Operation) -> OptionValues:
    """The options that were filled in, with `user` and `look` where the form has them."""
    return {
        name: getattr(form, name) for name in (*(one.name for one in _shown(operation)), "user", "look") if hasattr(form, name)
    }


def _field(option: OptionField[Any], kind: object) -> tuple[object, Any]:
    """Dagster's forms have lists, and texts for times."""
    if isinstance(option.default, tuple):
        return list[str], Field([*option.default], description=option.metadata["help"])
    return kind, Field(option.default, description=option.metadata["help"])
