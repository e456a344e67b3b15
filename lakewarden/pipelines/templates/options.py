"""The options of a template: known by the fields of its dataclass, checked by their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_args, get_type_hints

import msgspec

from lakewarden.errors import InvalidArgument
from lakewarden.pipelines.templates.template import Template


@dataclass(frozen=True)
class DescribedOption:
    """An option, for a page."""

    name: str
    default: object
    description: str


def option_names(template: Template[Any]) -> tuple[str, ...]:
    """In lower case."""
    return tuple(field.name for field in fields(template.options))


def described_options(template: Template[Any]) -> Iterator[DescribedOption]:
    hints = get_type_hints(template.options, include_extras=True)
    for field in fields(template.options):
        metas = (each for each in get_args(hints[field.name]) if isinstance(each, msgspec.Meta))
        default = None if field.default is MISSING else field.default
        yield DescribedOption(field.name, default, next((meta.description or "" for meta in metas), ""))


def parse_options(template: Template[Any], given: Mapping[str, object]) -> Any:
    """The options as the template takes them: its dataclass.

    Args:
        given: by name, in any case; texts, numbers, truth values, and lists of texts. A text may stand for a number or a truth
            value, and for a list of one.

    Raises:
        InvalidArgument: an option is unknown, given twice, or its value is not allowed.
    """
    known = option_names(template)
    values: dict[str, object] = {}
    for name, value in given.items():
        option = name.lower()
        if option not in known:
            listed = f"its options are {', '.join(known)}" if known else "it has no options"
            raise InvalidArgument(f"template {template.name!r} has no option {name!r}; {listed}")
        if option in values:
            raise InvalidArgument(f"option {name!r} of template {template.name!r} is given twice")
        values[option] = value
    hints = get_type_hints(template.options)
    lists = {name for name in values if getattr(hints[name], "__origin__", None) is tuple}
    taken = {name: [value] if name in lists and isinstance(value, str) else value for name, value in values.items()}
    try:
        return msgspec.convert(taken, template.options, strict=False)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidArgument(f"options of template {template.name!r}: {error}") from error
