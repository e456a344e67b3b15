"""Templates by their names, and the options that each one takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import isfunction
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from lakewarden.errors import InvalidArgument, NotFound, Unsupported
from lakewarden.ingest.templates.template import Template


def option_names(template: Template[Any]) -> tuple[str, ...]:
    """In lower case."""
    return tuple(field.name for field in fields(template.options))


def parse_options(template: Template[Any], given: Mapping[str, object]) -> Any:
    """The options as the template takes them: its dataclass.

    Args:
        given: by name, in any case; texts, numbers, truth values, and lists of them. A text may stand for a number or a truth
            value, and for a list: the text of a JSON list, or any other for a list of one.

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
    taken = {name: _listed(value) if _takes_list(hints[name]) else value for name, value in values.items()}
    plain = {name: float(value) if isinstance(value, Decimal) else value for name, value in taken.items()}
    try:
        return msgspec.convert(plain, template.options, strict=False)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidArgument(f"options of template {template.name!r}: {error}") from error


def given_options(template: Template[Any], given: Mapping[str, object]) -> dict[str, object]:
    """The options that are given, each as the template takes it, to be kept and shown. Raises as `parse_options`."""
    taken = parse_options(template, given)
    return {name: msgspec.to_builtins(getattr(taken, name)) for name in (each.lower() for each in given)}


def list_of(text: str) -> list[object] | None:
    """The list that a text is in JSON; None where it is not one."""
    if not text.lstrip().startswith("["):
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def _listed(value: object) -> object:
    if isinstance(value, str) and (found := list_of(value)) is not None:
        return found
    return value if isinstance(value, list | tuple | set | frozenset) or value is None else [value]


def _takes_list(hint: object) -> bool:
    """Whether an option is a list, or one of several kinds and a list among them."""
    origin = get_origin(hint) or hint
    return origin in (tuple, list, set, frozenset) or (origin in (Union, UnionType) and any(map(_takes_list, get_args(hint))))


# Finds templates by name: the installed packages' entry points of the group `lakewarden.templates`, ours among them.
GROUP = "lakewarden.templates"


def template_names() -> list[str]:
    """Sorted. A broken one is among them: only its use is an error."""
    return sorted(entry_points(group=GROUP).names)


def template_named(name: str) -> Template[Any]:
    """
    Raises:
        NotFound: there is no such template; the message lists the known ones.
        InvalidArgument: two packages have a template of this name, or its entry point does not work.
        Unsupported: a library that it needs is not installed.
    """
    found = sorted(set(entry_points(group=GROUP, name=name)), key=lambda each: each.value)
    if not found:
        known = ", ".join(template_names()) or "none"
        raise NotFound(f"there is no template {name!r}; known are {known} (entry point group {GROUP})")
    if len(found) > 1:
        raise InvalidArgument(f"two packages have a template {name!r}: {found[0].value} and {found[1].value}; remove one")
    template = _loaded(found[0])
    for library in template.libraries:
        if find_spec(library.module) is None:
            raise Unsupported(
                f"template {name!r} needs the library {library.module}, which is not installed;"
                f" install lakewarden[{library.extra}]"
            )
    return template


def _loaded(entry: EntryPoint) -> Template[Any]:
    try:
        template = entry.load()
    except Exception as error:  # another package's code runs here
        raise InvalidArgument(f"the entry point of template {entry.name!r} ({entry.value}) fails: {error!r}") from error
    if isfunction(template):
        return Template.of_function(entry.name, template)
    if not isinstance(template, Template) or template.name != entry.name:
        raise InvalidArgument(
            f"the entry point {entry.name!r} ({entry.value}) should name a lakewarden Template with this name, or a function,"
            f" not {template!r:.100}"
        )
    return template
